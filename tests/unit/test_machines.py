"""Other machines, which a run has to itself: the lock there, as a process of this host holds it."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from vtax.counters.host import host_facts
from vtax.errors import BadInput, Busy
from vtax.host.lock import is_measuring, measuring_lock, measuring_process
from vtax.host.process import start_time_of
from vtax.messages import Note
from vtax.platforms.base import Platform, Probe
from vtax.platforms.ssh import driver as ssh
from vtax.platforms.ssh.driver import Ssh, SshOptions
from vtax.runner.machines import check_same_machines, held_machines
from vtax.store.hosts import host_id

OPTIONS = SshOptions(host="lab3", uplinks="eth1:eth1", python=sys.executable)
HOLD = """
import sys
from pathlib import Path
from vtax.host import lock as locks
from vtax.platforms.ssh import driver as ssh
locks.HOST_LOCK = Path(sys.argv[1])
with ssh.Ssh().hold(ssh.SshOptions(host="lab3", python=sys.executable), "tour-1", print):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def reach(on_path, tmp_path, host_lock):
    """`reach(script)` has ssh run a line here, by a script, as on a machine with a measuring lock of its own."""

    def put(script='exec sh -c "$line"'):
        there = tmp_path / "there"  # which a test closes
        there.mkdir(exist_ok=True)
        old, new = (str(path).encode().hex() for path in (host_lock, there / "lock"))
        on_path("ssh", f'for line; do :; done; line=$(echo "$line" | sed s/{old}/{new}/)\n{script}')

    return put


@pytest.fixture
def lock(reach, tmp_path):
    """The lock of a machine that is reached without a network."""
    reach()
    return tmp_path / "there" / "lock"


@pytest.fixture
def itself(on_path):
    """The machine that is reached is this host."""
    on_path("ssh", 'for line; do :; done; exec sh -c "$line"')


def test_a_machine_is_held_for_one_run_and_says_which_it_is(lock):
    with Ssh().hold(OPTIONS, "tour-1", pytest.fail) as identity:
        assert is_measuring(lock)
        assert measuring_process(path=lock)[0].startswith("tour-1 of ")
        assert identity == host_id(host_facts())
    assert not is_measuring(lock)


def test_a_machine_that_measures_is_refused_with_the_name_of_its_run(lock, golden):
    with (
        measuring_lock("other-7", lock),
        pytest.raises(Busy) as refused,
        Ssh().hold(OPTIONS, "tour-1", pytest.fail),
    ):
        pass
    golden(str(refused.value))
    assert refused.value.exit_status == os.EX_TEMPFAIL


@pytest.mark.parametrize("name", ["tour-1", "t" * 250])
def test_a_second_name_of_a_machine_that_is_held_is_no_other_run(name, lock):
    with (
        Ssh().hold(OPTIONS, name, pytest.fail) as first,
        Ssh().hold(OPTIONS, name, pytest.fail) as second,
    ):
        assert first == second


def test_this_host_is_no_other_machine(itself, golden):
    with (
        measuring_lock("tour-1"),
        pytest.raises(BadInput) as refused,
        Ssh().hold(OPTIONS, "tour-1", pytest.fail),
    ):
        pass
    golden(str(refused.value))
    assert not isinstance(refused.value, Busy)


def test_a_machine_that_does_not_answer_says_why(reach):
    reach("echo no route >&2; exit 255")
    with (
        pytest.raises(BadInput, match=r"lab3 cannot be reached: no route"),
        Ssh().hold(OPTIONS, "tour-1", pytest.fail),
    ):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_a_machine_is_free_once_its_run_is_killed(by, lock):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        assert is_measuring(lock)
        holder.send_signal(by)
    _eventually_free(lock)


def test_a_machine_is_free_once_nothing_is_heard_of_its_run_which_says_so(lock, monkeypatch):
    monkeypatch.setattr(ssh, "_SILENCE_S", 0.3)
    warnings = []
    with Ssh().hold(OPTIONS, "tour-1", warnings.append):
        _eventually_free(lock)
    assert warnings == [Note("lock-lost", host="lab3")]


def test_a_run_whose_connection_ends_says_that_the_machine_was_not_held(lock):
    warnings = []
    with (
        Ssh().hold(OPTIONS, "tour-1", warnings.append),
        Ssh().hold(OPTIONS, "tour-1", pytest.fail),  # a second name of the machine held nothing
    ):
        os.kill(measuring_process(path=lock)[1], signal.SIGKILL)
        _eventually_free(lock)
    assert warnings == [Note("lock-lost", host="lab3")]


def test_only_root_holds_a_machine_and_a_run_without_says_so(lock, reach):
    if os.geteuid() == 0:
        reach('exec setpriv --reuid=65534 --clear-groups -- sh -c "$line"')
    warnings = []
    lock.parent.chmod(0)
    try:
        with Ssh().hold(SshOptions(host="lab3"), "tour-1", warnings.append):
            lock.parent.chmod(0o700)
            assert not is_measuring(lock)
    finally:
        lock.parent.chmod(0o700)
    assert [note.code for note in warnings] == ["lock-needs-root"]


def test_a_run_under_test_holds_its_machine_without_a_link_and_gets_its_warnings(lock):
    platform = Platform("ssh:lab3", Ssh(), SshOptions(host="lab3", python=sys.executable))
    tested = SimpleNamespace(platform=platform, probe=Probe(True))
    plan = SimpleNamespace(points=[SimpleNamespace(machines={})], platforms=[tested])
    warnings = []
    with held_machines(plan, "tour-1") as machines:
        machines.run = SimpleNamespace(add_warning=warnings.append)
        assert machines.facts == {"peers": {"ssh:lab3": host_id(host_facts())}}
        os.kill(measuring_process(path=lock)[1], signal.SIGKILL)
    assert warnings == [Note("lock-lost", host="lab3")]


def test_this_host_is_under_test_without_uplinks(itself):
    with (
        measuring_lock("t" * 250),
        Ssh().hold(
            SshOptions(host="lab3", python=sys.executable), "t" * 250, pytest.fail
        ) as identity,
    ):
        assert identity == host_id(host_facts())


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["echo no route >&2; exit 255", "sleep 30"])
def test_what_a_client_started_delays_no_refusal_and_is_ended(ends, reach, tmp_path, monkeypatch):
    """A ProxyCommand has the client's stderr, and may outlive it."""
    started = tmp_path / "started"
    reach(f"sleep 30 & echo $! > {started}\n{ends}")
    monkeypatch.setattr(ssh, "_EXAMINE_TIMEOUT_S", 1.0)
    before = time.monotonic()
    with (
        pytest.raises(BadInput, match="lab3 cannot be reached"),
        Ssh().hold(OPTIONS, "tour-1", pytest.fail),
    ):
        pass
    assert time.monotonic() - before < 20
    deadline = time.monotonic() + 10
    while start_time_of(int(started.read_text())) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_talkative_client_holds_all_the_same(lock, reach):
    reach('head -c 200000 /dev/zero >&2; exec sh -c "$line"')
    with Ssh().hold(OPTIONS, "tour-1", pytest.fail):
        assert is_measuring(lock)


@pytest.mark.slow
def test_a_machine_that_hears_of_its_run_stays_held(lock, monkeypatch):
    monkeypatch.setattr(ssh, "_SILENCE_S", 2.0)
    monkeypatch.setattr(ssh, "_BEAT_S", 0.2)
    with Ssh().hold(OPTIONS, "tour-1", pytest.fail):
        time.sleep(3)
        assert is_measuring(lock)


def _eventually_free(lock):
    deadline = time.monotonic() + 20
    while is_measuring(lock):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_run_is_resumed_with_the_machine_that_it_began_with():
    run = SimpleNamespace(name="tour-1", session=SimpleNamespace(host={"peers": {"lab3": "aaa"}}))
    check_same_machines(run, {"peers": {"lab3": "aaa"}})
    check_same_machines(run, {})
    with pytest.raises(BadInput, match="lab3 is another machine") as refused:
        check_same_machines(run, {"peers": {"lab3": "bbb"}})
    assert json.dumps(str(refused.value)).count("bbb") == 1
