"""The agent, run by its bootstrap as a plain child process: what every request does, and how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from local_agent import LocalAgent, children_of, pythons

from vtax.counters import table
from vtax.errors import GuestError
from vtax.guest import bootstrap, protocol
from vtax.guest import guest as calls
from vtax.guest.channel import Channel
from vtax.guest.facts import unknown_names
from vtax.guest.guest import Guest
from vtax.guest.protocol import encode


@pytest.fixture(params=["pipes", "socketpair"])
def agent(request):
    with LocalAgent(request.param) as local:
        local.guest.hello(10)
        yield local


@pytest.fixture
def guest():
    with LocalAgent("socketpair") as local:
        local.guest.hello(10)
        yield local.guest


def gone(pid):
    """Whether a process is over (a zombie counts as over)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def open_files_of(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def eventually(condition, timeout_s=5.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


@pytest.mark.parametrize("python", pythons())
def test_the_agent_runs_under_every_supported_python(python):
    with LocalAgent(python=python) as local:
        local.guest.hello(20)
        assert local.guest.run(["echo", "hello"]).stdout == "hello\n"
        assert local.guest.facts()["cpus_visible"] == os.cpu_count()


def test_starting_the_agent_imports_no_costly_module():
    with LocalAgent() as local:
        local.guest.hello(10)
        spy = b"import sys\nREQUESTS['spy'] = lambda a, p: {'m': list(sys.modules)}"
        local.guest._ask({"op": "extend", "name": "spy"}, spy)
        modules = set(local.guest._ask({"op": "spy"}).items("m", 10_000))
    assert not modules & {
        "json",
        "re",
        "enum",
        "signal",
        "subprocess",
        "typing",
        "ctypes",
        "socket",
        "struct",
    }


def test_both_ends_agree_on_the_frames():
    source = Path(bootstrap.__file__).with_name("agent.py").read_text()
    message = dict(
        re.findall(r"^(MAGIC|MAX_HEADER|MAX_PAYLOAD|KILL_GRACE_S) = (.+)$", source, re.MULTILINE)
    )
    assert {name: eval(text) for name, text in message.items()} == {
        "MAGIC": protocol.MAGIC,
        "MAX_HEADER": protocol.MAX_HEADER,
        "MAX_PAYLOAD": protocol.MAX_PAYLOAD,
        "KILL_GRACE_S": calls._KILL_S,
    }


def test_a_program_gets_its_arguments_environment_and_directory(agent):
    script = 'cat; pwd; echo "$A $1"; echo oops >&2; exit 3'
    result = agent.guest.run(["sh", "-c", script, "x", "ü €"], environment={"A": "b c"}, cwd="/usr")
    assert (result.status, result.stdout, result.stderr) == (3, "/usr\nb c ü €\n", "oops\n")
    assert not result.timed_out
    assert not result.truncated


def test_the_environment_holds_nothing_of_the_runtime_but_the_mark():
    with LocalAgent(environment={"SECRET": "x", "LANG": "de_DE", "VTAX_MARK": "m1"}) as local:
        local.guest.hello(10)
        found = local.guest.run(["env"]).stdout
    assert set(found.split()) == {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/.vtax/bin",
        "HOME=/root",
        "LC_ALL=C.UTF-8",
        "VTAX_MARK=m1",
    }


def test_large_output_passes_unharmed(agent, tmp_path):
    (tmp_path / "large").write_text(os.urandom(1 << 20).hex())
    assert (
        agent.guest.run(["cat", str(tmp_path / "large")]).stdout == (tmp_path / "large").read_text()
    )


def test_output_beyond_the_limit_is_cut_and_said(guest, monkeypatch):
    monkeypatch.setattr(calls, "OUTPUT_LIMIT", 1000)
    result = guest.run(["sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; echo end >&2"])
    assert result.truncated
    assert result.stdout == "x" * 1000
    assert result.stderr == "end\n"


def test_resources_are_those_of_the_program(guest):
    busy = guest.run(["sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"])
    assert busy.cpu_s > 0.01
    assert 0 < busy.inside_s <= busy.outside_s
    assert busy.cpu_s <= busy.inside_s * 1.1
    assert busy.usage[table.MINOR_FAULTS.name] > 0
    assert busy.usage[table.MAX_RSS.name] > 1 << 20


def test_a_killed_program_has_minus_the_signal_as_its_status(guest):
    assert guest.run(["sh", "-c", "kill -9 $$"]).status == -9


def test_signals_are_at_their_defaults_in_a_program(guest):
    lines = guest.run(["cat", "/proc/self/status"]).stdout.splitlines()
    masks = dict(
        line.split(":\t") for line in lines if line.startswith(("SigIgn", "SigBlk", "SigCgt"))
    )
    assert {int(mask, 16) & 0x7FFFFFFF for mask in masks.values()} == {
        0
    }  # above are the C library's own


def test_a_timeout_kills_the_whole_process_group(guest, tmp_path):
    pids = tmp_path / "pids"
    result = guest.run(
        ["sh", "-c", f"sleep 100 & echo $! > {pids}; echo begun; wait"], timeout_s=0.3
    )
    assert result.timed_out
    assert result.status == -signal.SIGKILL
    assert result.stdout == "begun\n"
    assert 0.3 <= result.outside_s < 60
    assert eventually(lambda: gone(int(pids.read_text())))


def test_what_a_program_leaves_behind_does_not_delay_its_end_and_lives_on(guest):
    result = guest.run(["sh", "-c", "sleep 100 & echo $!"])
    assert result.outside_s < 60
    assert not gone(int(result.stdout))
    os.kill(int(result.stdout), signal.SIGKILL)


def test_a_missing_program_is_an_error_that_leaves_the_guest_usable(guest, golden):
    with pytest.raises(GuestError) as caught:
        guest.run(["no-such-tool"])
    golden(str(caught.value), "1")
    with pytest.raises(GuestError) as caught:
        guest.run(["/no/such/tool"])
    golden(str(caught.value), "2")
    with pytest.raises(GuestError, match="No such file"):
        guest.run(["true"], cwd="/no/such/directory")
    assert guest.run(["pwd"]).stdout == "/\n"


def test_failed_starts_leak_no_descriptors(guest):
    for _ in range(50):
        with pytest.raises(GuestError):
            guest.run(["/etc/passwd"])
    guest.run(["true"])
    assert (
        len(guest.run(["ls", "/proc/self/fd"]).stdout.split()) == 4
    )  # 0, 1, 2 and the directory itself
    pid = guest.run(["sh", "-c", "echo $PPID"]).stdout.strip()
    assert open_files_of(pid) <= 6


def test_a_background_program_is_started_polled_and_stopped(agent):
    script = "trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.01; done"
    handle = agent.guest.start(["sh", "-c", script])
    assert agent.guest.running(handle)
    agent.guest.run(["sleep", "0.05"])
    result = agent.guest.stop(handle)
    assert (result.status, result.stdout) == (4, "ready\nbye\n")
    assert result.argv == ("sh", "-c", script)
    assert result.inside_s > 0.04
    with pytest.raises(GuestError, match="no background program"):
        agent.guest.stop(handle)


def test_a_background_program_that_ignores_the_signal_is_killed(guest):
    handle = guest.start(["sh", "-c", "trap '' TERM; echo on; while :; do sleep 0.01; done"])
    guest.run(["sleep", "0.05"])
    assert guest.stop(handle, grace_s=0.05).status == -signal.SIGKILL


def test_a_background_program_that_has_ended_is_collected_as_it_ended(guest):
    handle = guest.start(["sh", "-c", "echo done; exit 7"])
    assert eventually(lambda: not guest.running(handle))
    result = guest.stop(handle)
    assert (result.status, result.stdout) == (7, "done\n")


def test_background_output_flows_while_another_program_runs(guest):
    handle = guest.start(["sh", "-c", "head -c 1000000 /dev/zero; echo over >&2; sleep 100"])
    guest.run(["sleep", "0.3"])
    result = guest.stop(handle)
    assert (len(result.stdout), result.stderr) == (1_000_000, "over\n")


def test_a_port_is_waited_for(guest):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code = f"import socket,time; time.sleep(0.05); s=socket.create_server(('127.0.0.1',{port})); time.sleep(100)"
    handle = guest.start([sys.executable, "-c", code])
    guest.wait_port(port, timeout_s=10, handle=handle)
    socket.create_connection(("127.0.0.1", port)).close()
    guest.stop(handle)


def test_waiting_for_a_port_ends_with_the_time_or_with_the_server(guest, golden):
    with pytest.raises(GuestError) as caught:
        guest.wait_port(1, timeout_s=0.05)
    golden(str(caught.value))
    handle = guest.start(["true"])
    started_at = time.monotonic()
    with pytest.raises(GuestError, match="nothing listens"):
        guest.wait_port(1, timeout_s=30, handle=handle)
    assert time.monotonic() - started_at < 25  # not until its time is over


def test_files_are_put_and_got(guest, tmp_path, monkeypatch):
    path = tmp_path / "a" / "b"
    data = os.urandom(3 << 20)
    guest.put(str(path), data, mode=0o750)
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o750
    assert guest.get(str(path)) == data
    with pytest.raises(GuestError, match="No such file"):
        guest.get(str(tmp_path / "missing"))
    monkeypatch.setattr(calls, "FILE_LIMIT", 10)
    with pytest.raises(GuestError, match="larger than 10 bytes"):
        guest.get(str(path))


def test_several_files_are_read_at_once_and_missing_ones_are_none(guest, tmp_path, monkeypatch):
    monkeypatch.setattr(calls, "_SAMPLE_LIMIT", 2)
    (tmp_path / "a").write_text("abc")
    (tmp_path / "empty").write_text("")
    paths = [str(tmp_path / name) for name in ("a", "missing", "empty")]
    assert list(guest.sample(paths).files.values()) == [b"ab", None, b""]


def test_counters_grow(guest):
    before = guest.counted(guest.sample())
    guest.run(["true"])
    after = guest.counted(guest.sample())
    assert after["forks"] > before["forks"]
    assert all(
        after[name] >= value
        for name, value in before.items()
        if name in after and "iowait" not in name
    )


def test_clocks_of_one_machine_agree(guest):
    first = guest.clock()
    second = guest.clock()
    assert abs(first.offset_s) <= first.round_trip_s / 2 + 1e-3
    assert second.inside_s > first.inside_s
    assert (
        abs(second.offset_s) <= second.round_trip_s / 2 + 1e-3
    )  # both are this machine's monotonic clock


def test_the_audit_describes_this_machine(guest):
    facts = guest.facts(["dd", "no-such-program"])
    assert len(facts["hash.dd"]) == 16
    assert "hash.no-such-program" not in facts
    assert facts["numa_nodes"] >= 0
    assert facts["kernel_release"] == os.uname().release
    assert facts["cpus_allowed"] == sorted(os.sched_getaffinity(0))
    assert not [name for name in facts if name.startswith("unreadable.")]
    assert unknown_names(facts) == ()


def test_closing_the_channel_ends_the_agent_and_all_it_started():
    with LocalAgent() as local:
        local.guest.hello(10)
        local.guest.start(["sleep", "100"])
        [pid] = children_of(local.process.pid)
        local.guest.close()
        assert local.process.wait(5) == 0
        assert eventually(lambda: gone(pid))


@pytest.mark.parametrize("kind", ["pipes", "socketpair"])
def test_the_controllers_end_ends_a_program_in_the_foreground(kind):
    with LocalAgent(kind) as local:
        local.guest.hello(10)
        local.guest._channel.write(_frame_of_a_sleep(), time.monotonic() + 5)
        assert eventually(lambda: children_of(local.process.pid))
        [pid] = children_of(local.process.pid)
        local.channel.close()
        assert local.process.wait(5) == 0
        assert eventually(lambda: gone(pid))


def _frame_of_a_sleep():
    requested = {
        "argv": ["sleep", "100"],
        "environment": {"PATH": "/usr/bin:/bin"},
        "cwd": "/",
        "limit": 1,
    }
    return encode({"id": 2, "op": "run", "timeout_s": 100.0, **requested})


def test_shutdown_ends_the_agent(agent):
    agent.guest.shutdown()
    assert agent.process.wait(5) == 0


def test_interrupts_from_the_terminal_do_not_reach_the_agent(agent):
    agent.process.send_signal(signal.SIGINT)
    assert agent.guest.run(["true"]).status == 0


def test_a_termination_signal_ends_the_agent_at_once(agent):
    agent.guest.start(["sleep", "100"])
    agent.process.terminate()
    assert agent.process.wait(5) == 0


def test_an_agent_that_dies_gives_one_clear_error_and_then_the_same(agent, golden):
    agent.process.kill()
    with pytest.raises(GuestError, match="closed its channel"):
        agent.guest.run(["true"])
    with pytest.raises(GuestError) as caught:
        agent.guest.run(["true"])
    golden(str(caught.value))
    assert agent.guest.lost


def test_an_agent_that_falls_silent_is_given_up(guest, monkeypatch):
    monkeypatch.setattr("vtax.guest.guest._ANSWER_S", 0.1)
    pid = int(guest.run(["sh", "-c", "echo $PPID"]).stdout)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(GuestError, match="fell silent"):
            guest.clock()
    finally:
        os.kill(pid, signal.SIGCONT)


def test_waiting_costs_the_controller_no_cpu(guest):
    started_at = time.process_time()
    guest.run(["sleep", "0.5"])
    assert time.process_time() - started_at < 0.01


def test_waiting_costs_the_agent_no_cpu():
    with LocalAgent() as local:
        local.guest.hello(10)

        def spent():
            return int(Path(f"/proc/{local.process.pid}/schedstat").read_text().split()[0]) / 1e9

        started_at = spent()
        local.guest.run(["sleep", "0.5"])
        assert spent() - started_at < 0.02


class Chatty(Channel):
    """A serial line on which the kernel writes once more just after the greeting."""

    def __init__(self, controller, line):
        super().__init__(controller, controller)
        self._to_write = [(line, b"[    1.000000] random: crng init done\r\n")]

    def skip_to(self, marker, limit, deadline):
        skipped = super().skip_to(marker, limit, deadline)
        while self._to_write:
            os.write(*self._to_write.pop())
        return skipped


def test_a_serial_line_with_kernel_text_before_and_after_the_greeting_reaches_the_agent(tmp_path):
    controller, line = os.openpty()
    os.write(line, b"[    0.000000] Linux version 6\r\n<vtax gue")
    argv = [sys.executable, *bootstrap.argv(os.ttyname(line))[1:]]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    guest = Guest(Chatty(controller, line))
    guest.hello(10)
    every_byte = bytes(range(256)) * 100
    guest.put(str(tmp_path / "file"), every_byte)
    assert guest.get(str(tmp_path / "file")) == every_byte
    guest.shutdown()
    os.close(line)
    assert process.wait(5) == 0


def test_hundreds_of_programs_leave_nothing_behind(guest):
    pid = int(guest.run(["sh", "-c", "echo $PPID"]).stdout)
    before = open_files_of(pid)
    for _ in range(200):
        assert guest.run(["true"]).status == 0
    assert open_files_of(pid) == before
    assert not children_of(pid)
