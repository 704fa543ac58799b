"""A host of a campaign that prints without an end, over Ansible's own connection: bounded memory, and one message."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vtax.campaign.ansible import BOUNDED, MAX_ANSWER_BYTES, MAX_BUNDLE_BYTES, TOO_LONG
from vtax.campaign.controller import COPY

ANSIBLE = Path(sys.executable).with_name("ansible-playbook")
MOST_MEMORY_BYTES = 768 << 20  # 148 to 565 MiB were seen: Ansible keeps more of it on a busy host
needs_ansible = pytest.mark.skipif(not ANSIBLE.exists(), reason="ansible-core is not installed")
TIMEOUT = shutil.which("timeout")
_PLAY = """
import json, resource, sys
from pathlib import Path
from vtax.campaign.ansible import Playbook
inventory, task, variables = sys.argv[1:]
played = Playbook(Path(inventory), Path(inventory + ".log"), 5, 0)
answers = [*played.run([task], json.loads(variables))]
peak = max(resource.getrusage(each).ru_maxrss for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
found = [[each.host, each.task, each.kind, each.error, dict(each.result)] for each in answers]
print(json.dumps({"answers": found, "peak_bytes": peak * 1024}))
"""
_SSH = """#!/bin/sh
case " $* " in
*" hostile "*) yes '' | head -c 100000000; yes '' | head -c 100000000 >&2 ;;
*) echo '{"state": "running"}' ;;
esac
"""


def program(path: Path, text: str) -> Path:
    """A script of the shell at a path."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def play(
    tmp_path: Path,
    task: str,
    hosts: dict[str, dict[str, Any]],
    variables: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """What Ansible answers, by a process of its own, whose memory and whose children's is measured."""
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    program(tmp_path / "bin/ssh", _SSH)
    (tmp_path / "bin/ansible-playbook").symlink_to(ANSIBLE)
    done = subprocess.run(
        [sys.executable, "-c", _PLAY, str(tmp_path / "hosts.yml"), task, json.dumps(variables)],
        env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_ansible
def test_a_host_that_prints_100_mb_costs_little_memory_and_hides_no_other(tmp_path: Path) -> None:
    names = ("good", "hostile")
    hosts = {each: {"ansible_host": each, "ansible_become": False} for each in names}
    found = play(tmp_path, "status", hosts, {each: {"vtax_status": "status"} for each in names})
    assert {host: (kind, error) for host, _, kind, error, _ in found["answers"]} == {
        "good": ("ok", '{"state": "running"}'),
        "hostile": ("failed", TOO_LONG),
    }
    assert found["peak_bytes"] < MOST_MEMORY_BYTES


@needs_ansible
@pytest.mark.parametrize(
    ("size_bytes", "why"),
    [
        (200_000_000, ""),
        (MAX_BUNDLE_BYTES + 1, "it is larger than 1 GiB"),
        (None, "it is not there"),
    ],
)
def test_a_bundle_is_brought_in_little_memory_and_its_size_asked_before(
    tmp_path: Path, size_bytes: int | None, why: str
) -> None:
    """By a user who becomes another one, as which Ansible would read it whole."""
    if size_bytes is not None:
        with (tmp_path / "bundle").open("wb") as file:
            file.truncate(size_bytes)
    sudo = program(
        tmp_path / "sudo", '#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n'
    )
    local = {
        "ansible_connection": "local",
        "ansible_become": True,
        "ansible_become_exe": str(sudo),
        "ansible_python_interpreter": "/no/program/of/ansible/runs",
    }
    place = tmp_path / "place"
    script = shlex.join(["sh", "-c", COPY, "sh", f"{tmp_path}/bundle", f"{place}/bundle"])
    variables = {
        "vtax_place": str(place),
        "vtax_copy": script,
        "vtax_target": str(tmp_path / "brought"),
    }
    found = play(tmp_path, "fetch", {"h1": local}, {"h1": variables})
    answers = [(task, kind) for _, task, kind, _, _ in found["answers"]]
    fetched = [("fetch", "ok")] if not why else []
    copied = ("copy", "failed" if why else "ok")
    assert answers == [("place", "ok"), copied, *fetched, ("tidy", "ok")]
    assert why in found["answers"][1][3]
    assert (tmp_path / "brought").exists() == (not why)
    assert not place.exists()
    assert found["peak_bytes"] < MOST_MEMORY_BYTES, "Ansible reads one into ten times its size"


@needs_ansible
def test_a_command_that_does_not_end_is_ended_on_the_host(tmp_path: Path) -> None:
    lines = (BOUNDED.parent / "playbook.yml").read_text().splitlines()
    words = ("builtin.raw:", "executable:", "_command:")
    commands = [line for line in lines if any(word in line for word in words)]
    assert len(commands) == 10
    assert all("timeout -k" in line for line in commands)
    program(tmp_path / "bin/timeout", f'#!/bin/sh\nshift 3\nexec {TIMEOUT} -k 5 1 "$@"\n')
    local = {"ansible_connection": "local", "ansible_become": False}
    marker = f"sleep 3{os.getpid()}"
    variables = {"vtax_command": ["sh", "-c", f"{marker} & {marker}"]}
    found = play(tmp_path, "command", {"h1": local}, {"h1": variables})
    ((_, _, kind, error, result),) = found["answers"]
    assert (kind, result["rc"], error) == (
        "failed",
        124,
        "it took too long, and was ended on the host",
    )
    assert subprocess.run(["pgrep", "-f", f"^{marker}"], check=False).returncode == 1


def environment_of(tmp_path: Path, name: str, script: str, most: int) -> dict[str, str]:
    """The environment in which a program is in the place of one of ssh's, which is a script of the shell."""
    program(tmp_path / "real" / name, f"#!/bin/sh\n{script}\n")
    path = f"{tmp_path}/real:{os.environ['PATH']}"
    return {
        "PATH": f"{BOUNDED}:{path}",
        "VTAX_PYTHON": sys.executable,
        "VTAX_SSH_PATH": path,
        "VTAX_MOST_BYTES": str(most),
        "VTAX_MOST_FILE_BYTES": str(most),
    }


def bounded(tmp_path: Path, name: str, script: str, *given: str, most: int) -> Any:
    """What a program in the place of one of ssh's printed, and its status."""
    return subprocess.run(
        [name, *given],
        env=environment_of(tmp_path, name, script, most),
        input=b"given",
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )


def test_ssh_is_called_as_ansible_called_it(tmp_path: Path) -> None:
    script = 'cat; printf "[%s]" "$@"; head -c 999 /dev/zero >&2; exit 7'
    done = bounded(tmp_path, "ssh", script, "a b", "", "$x *", most=1000)
    assert (done.stdout, done.stderr, done.returncode) == (b"given[a b][][$x *]", bytes(999), 7)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_either_stream_of_ssh_has_an_end_at_which_it_is_ended(tmp_path: Path, stream: str) -> None:
    script = "exec cat /dev/zero" + (" >&2" if stream == "stderr" else "")
    endless = bounded(tmp_path, "ssh", script, "host", most=100_000)
    assert getattr(endless, stream) == bytes(100_000)
    assert endless.returncode != 0


def test_what_a_host_prints_comes_at_once_and_is_waited_for(tmp_path: Path) -> None:
    """Ansible sends a program only when the other user of the host has answered."""
    environment = environment_of(tmp_path, "ssh", "echo ready; cat", 1000)
    with subprocess.Popen(
        ["ssh"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.stdin.write(b"sent")
        process.stdin.close()
        assert process.stdout.read() == b"sent"
    assert process.returncode == 0


def test_a_connection_that_another_ssh_makes_through_it_is_not_cut(tmp_path: Path) -> None:
    done = bounded(tmp_path, "ssh", "head -c 9000 /dev/zero", "-W", "host:22", "jump", most=1000)
    assert len(done.stdout) == 9000


@pytest.mark.parametrize("name", ["sftp", "scp"])
def test_a_file_that_a_host_sends_has_an_end(tmp_path: Path, name: str) -> None:
    done = bounded(tmp_path, name, 'cat "$1" > got', "/dev/zero", most=100_000)
    assert done.returncode != 0
    assert 0 < (tmp_path / "got").stat().st_size <= 101_000
    assert (
        bounded(tmp_path, name, 'printf %s "$1" > got', "x y", most=MAX_ANSWER_BYTES).returncode
        == 0
    )
    assert (tmp_path / "got").read_text() == "x y"
