"""A machine over OpenSSH: this host itself, behind an sshd of the tests on a loopback port."""

import json
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from ssh_server import serve
from support import needs_program, needs_root, vtax

from vtax.guest.guest import Guest
from vtax.host.journal import Journal, clean
from vtax.host.process import start_time_of
from vtax.host.resources import Tree
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources

pytestmark = [needs_root, needs_program("sshd", "ssh", "ssh-keygen", "unshare")]

CLIENT = """
Host lab
  HostName 127.0.0.1
  Port {port}
  User root
  IdentityFile {directory}/key
  IdentitiesOnly yes
  UserKnownHostsFile {directory}/known_hosts
Host stranger
  HostName 127.0.0.1
  Port {port}
  UserKnownHostsFile /dev/null
Host nobody
  HostName 127.0.0.1
  Port 1
"""
GREETED = 'command="echo Welcome to the lab; exec /bin/sh -c \\"$SSH_ORIGINAL_COMMAND\\"" '


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """The ssh configuration of a client that may log in to the host `lab`, which greets on standard output."""
    directory = tmp_path_factory.mktemp("ssh")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (directory / "client").write_text(CLIENT.format(port=port, directory=directory))
    server = serve(directory, "127.0.0.1", port, {"key": GREETED})
    yield str(directory / "client")
    server.terminate()
    server.wait(10)


@pytest.fixture
def there(tmp_path):
    """The directory of the machine below which guests make theirs."""
    directory = tmp_path / "there"
    directory.mkdir()
    return directory


@pytest.fixture
def remote(config, there):
    options = {"host": "lab", "config": config, "local_user": "root", "scratch": str(there)}
    return registry.make("lab", "ssh", options)


def wait_until(true, timeout_s=15):
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def spec(journal, private_home, image=None):
    name = f"vtax-{secrets.token_hex(3)}"
    directory = private_home.guests / name
    journal.register(Tree(str(directory)))
    directory.mkdir()
    return GuestSpec(name, image, Resources(1, 128 << 20, (0,)), directory, journal, None)


def started(platform, journal, private_home):
    running = platform.start(spec(journal, private_home))
    guest = Guest(running.channel)
    guest.hello(30)
    return running, guest


def leave_a_program(guest):
    """Start a program that its parents do not wait for, in a session of its own; returns its PID."""
    pid = int(guest.run(["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"]).stdout)
    assert not gone(pid)
    return pid


def gone(pid):
    return start_time_of(pid) is None


def test_the_agent_answers_and_the_machine_is_left_as_it_was(remote, journal, private_home, there):
    before = journal.registered
    running, guest = started(remote, journal, private_home)
    seen = guest.run(["stat", "-c", "%a %U", running.scratch]).stdout.split()
    assert seen == ["700", "root"]
    assert Path(running.scratch).parent == there
    assert any("no limit" in note for note in running.notes)
    assert running.host_cpu_s() is None
    guest.run(["touch", f"{running.scratch}/file"])
    pid = leave_a_program(guest)
    running.stop()
    running.stop()
    assert list(there.iterdir()) == []
    assert gone(pid)
    assert [str(registered) for registered in journal.registered if registered not in before] == [
        f"files {running.ssh.stderr.parent}"
    ]


@pytest.fixture
def config_of_nobody(config):
    """The same configuration and key, where the user `nobody` can read them and nobody else."""
    with tempfile.TemporaryDirectory(prefix="vtax-test-") as name:
        directory = Path(name)
        for file in ("client", "key", "known_hosts"):
            text = Path(config).with_name(file).read_text()
            (directory / file).write_text(text.replace(str(Path(config).parent), name))
            (directory / file).chmod(0o600)
            shutil.chown(directory / file, "nobody")
        shutil.chown(directory, "nobody")
        yield str(directory / "client")


@pytest.mark.parametrize("said_by", ["option", "sudo"])
def test_keys_and_configuration_are_those_of_the_local_user(
    said_by, remote, config_of_nobody, journal, private_home, monkeypatch
):
    options = {**remote.options.model_dump(), "config": config_of_nobody, "local_user": "nobody"}
    if said_by == "sudo":
        options["local_user"] = ""
        monkeypatch.setenv("SUDO_USER", "nobody")
    running, guest = started(registry.make("lab", "ssh", options), journal, private_home)
    assert Path(f"/proc/{running.ssh.process.pid}").owner() == "nobody"
    assert guest.run(["id", "-u"]).stdout == "0\n"
    running.stop()


@pytest.mark.parametrize("loss", ["client killed", "everything killed"])
def test_a_lost_connection_leaves_nothing_on_the_machine(loss, remote, private_home, there):
    if loss == "client killed":
        with Journal(private_home.journal) as journal:
            running, guest = started(remote, journal, private_home)
            pid = leave_a_program(guest)
            running.ssh.process.kill()
            running.stop()
    else:
        pid = killed_holder(remote)
        assert clean(private_home.journal).problems == ()
    wait_until(lambda: not list(there.iterdir()))
    assert gone(pid)


def killed_holder(remote):
    """Start a guest in a process of its own and kill that; returns the PID of a program left in the guest."""
    script = f"""
import secrets, sys, time
from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources
home = Home.from_environment().ensure()
journal = Journal(home.journal)
directory = home.guests / "vtax-held"
journal.register(Tree(str(directory)))
directory.mkdir()
platform = registry.make("lab", "ssh", {remote.options.model_dump()!r})
running = platform.start(GuestSpec("vtax-held", None, Resources(1, 1 << 27, (0,)), directory, journal))
guest = Guest(running.channel)
guest.hello(30)
print(guest.run(["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]).stdout, flush=True)
time.sleep(600)
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pid = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    return pid


@pytest.mark.parametrize(
    ("host", "reason"),
    [("stranger", "Host key verification failed"), ("nobody", "Connection refused")],
)
def test_a_machine_that_cannot_be_reached_is_explained(host, reason, config, private_home):
    probe = registry.make(
        "lab", "ssh", {"host": host, "config": config, "local_user": "root"}
    ).probe(None)
    assert not probe.available
    assert reason in probe.reason
    assert shlex.split(probe.hint.partition(": ")[2])[:3] == ["ssh", "-F", config]
    assert probe.seconds < 20


def test_a_missing_python_is_explained(remote, private_home):
    options = {**remote.options.model_dump(), "python": "/nowhere/python3"}
    probe = registry.make("lab", "ssh", options).probe(None)
    assert not probe.available
    assert "/nowhere/python3" in probe.reason


STUDY = """
name = "remote"
platforms = ["native", "lab"]
[design]
blocks = 2
[[platform]]
name = "lab"
driver = "ssh"
host = "lab"
config = "{config}"
local_user = "root"
scratch = "{scratch}"
[[benchmark]]
name = "{benchmark}"
"""


def test_a_study_measures_the_machine_beside_native(config, image, private_home, there, tmp_path):
    study = tmp_path / "remote.toml"
    study.write_text(
        STUDY.format(config=config, scratch=there, benchmark="dd")
        + 'parameters = { file_size = "4MiB" }\n'
    )
    refused = vtax("run", str(study))
    assert refused.returncode == 2
    assert "platform lab: config = " in refused.stderr
    assert "--trust" in refused.stderr
    done = vtax("run", str(study), "--trust", "--json")
    assert done.returncode == 0, done.stderr
    assert "ran these programs as root" in done.stdout
    again = vtax("run", str(study), "--blocks", "1")
    assert again.returncode == 0, again.stderr
    assert "lab" in json.dumps(json.loads(done.stdout))
    assert list(there.iterdir()) == []
    report = tmp_path / "report.html"
    vtax("report", "--output", str(report))
    assert "sets no limit there" in report.read_text()


def test_a_network_benchmark_runs_on_native_alone_and_the_reason_is_shown(
    config, image, private_home, tmp_path
):
    study = tmp_path / "remote.toml"
    study.write_text(STUDY.format(config=config, scratch=tmp_path, benchmark="iperf3"))
    done = vtax("run", str(study), "--trust")
    assert done.returncode == 0
    shown = " ".join((done.stdout + done.stderr).split())
    assert "interfaces of lab cannot be joined to a topology" in shown, shown


def test_probing_with_the_image_takes_the_agent_there(remote, image, private_home):
    probe = remote.probe(image)
    assert (probe.available, probe.marks) == (True, ("remote",)), probe.reason
    assert list(private_home.journal.iterdir()) == []
