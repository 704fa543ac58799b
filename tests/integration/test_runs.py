"""Whole runs through the command line, on real platforms: what they leave, and what they survive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from host_network import host_network
from support import needs_root, nothing_left, thorough, vtax

from vtax.host.home import Home
from vtax.host.process import run
from vtax.platforms import registry

pytestmark = [needs_root, pytest.mark.usefixtures("image", "private_home")]

WIDE = ("native", "podman", "docker", "lxc", "nspawn", "gvisor-systrap", "qemu-tcg-virtio")
STUDY = """
name = "{name}"
platforms = {platforms}
[guest]
memory = "384MiB"
[design]
blocks = {blocks}
timeout = "120s"
[[benchmark]]
name = "sysbench-cpu"
parameters = {{ duration_s = 1 }}
[[benchmark]]
name = "iperf3"
parameters = {{ duration_s = 1 }}
"""


def study(tmp_path: Path, *platforms: str, blocks: int = 1, name: str = "whole") -> str:
    path = tmp_path / f"{name}.toml"
    path.write_text(STUDY.format(name=name, platforms=json.dumps(platforms), blocks=blocks))
    return str(path)


def started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "vtax", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for_a_trial(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    printed = []
    for line in process.stderr:
        printed.append(line)
        if line.startswith("[block 1/"):
            return
    pytest.fail("the run ended before its first trial:\n" + "".join(printed))


def shown(name: str = "last") -> dict[str, Any]:
    result: dict[str, Any] = json.loads(vtax("show", name, "--json").stdout)
    return result


def trials_in(home: Home) -> int:
    runs = json.loads(vtax("list", "--json").stdout)
    return int(runs[-1]["trials"] - runs[-1]["failed"]) if runs else 0


@pytest.mark.push
def test_one_command_measures_every_platform_and_the_host_is_as_before(
    tmp_path, image, private_home
):
    probes = {name: registry.get(name).probe(image) for name in WIDE}
    missing = {name: probe.reason for name, probe in probes.items() if not probe.available}
    if "native" in missing:
        pytest.skip(missing["native"])
    before = host_network()
    done = vtax("run", study(tmp_path, *WIDE), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    measured = {
        row["platform"]
        for section in result["results"]
        for p in section["points"]
        for row in p["rows"]
    }
    assert measured == set(WIDE) - set(missing), missing
    assert result["failed"] == 0, done.stderr
    assert host_network() == before
    assert nothing_left(private_home)
    for form in ("csv", "parquet", "json"):
        target = tmp_path / f"result.{form}"
        assert vtax("export", "last", "--format", form, "--output", str(target)).returncode == 0
        assert target.stat().st_size > 500
    report = tmp_path / "report.html"
    assert vtax("report", "last", "--output", str(report)).returncode == 0
    assert report.stat().st_size > 500


@pytest.mark.push
def test_a_killed_run_is_cleaned_and_resumed_without_losing_a_trial(tmp_path, private_home):
    before = host_network()
    process = started("run", study(tmp_path, "native", "lxc", blocks=2))
    wait_for_a_trial(process)
    process.kill()
    process.wait()
    kept = trials_in(private_home)
    assert kept >= 1
    assert not nothing_left(private_home)
    cleaned = vtax("clean")
    assert cleaned.returncode == 0, cleaned.stderr
    assert "run whole-1 was killed; resume with: sudo vtax resume whole-1" in cleaned.stdout
    assert shown()["status"] == "interrupted"
    assert nothing_left(private_home)
    assert host_network() == before
    assert vtax("resume").returncode == 0
    assert trials_in(private_home) == 2 * 2 * 2
    assert shown()["status"] == "finished"


@pytest.mark.parametrize("number", [signal.SIGTERM, *thorough(signal.SIGINT)])
@pytest.mark.push
def test_a_request_to_stop_takes_everything_down_and_says_how_to_go_on(
    tmp_path, private_home, number
):
    process = started("run", study(tmp_path, "native", blocks=3))
    wait_for_a_trial(process)
    process.send_signal(number)
    printed = process.stderr.read()
    assert process.wait(60) == 128 + number
    assert "vtax resume whole-1" in printed
    assert nothing_left(private_home)
    assert vtax("resume").returncode == 0
    assert trials_in(private_home) == 3 * 2


@pytest.mark.parametrize("closed", ["descriptors", *thorough("pipes")])
def test_a_run_that_nobody_watches_measures_everything(tmp_path, private_home, closed):
    """Its output goes to pipes without a reader, or it has no stdout and stderr at all."""
    command = [sys.executable, "-m", "vtax", "run", study(tmp_path, "native", blocks=2)]
    if closed == "pipes":
        read, write = os.pipe()
        os.close(read)
        status = subprocess.run(
            command, stdout=write, stderr=write, timeout=300, check=False
        ).returncode
        os.close(write)
    else:
        shell = ["/bin/sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command]
        status = subprocess.run(shell, timeout=300, check=False).returncode
    assert status == 0
    assert shown()["status"] == "finished"
    assert trials_in(private_home) == 2 * 2
    assert nothing_left(private_home)


def test_a_second_run_is_refused_with_the_first_ones_name(tmp_path):
    first = started("run", study(tmp_path, "native", blocks=60))
    wait_for_a_trial(first)
    second = vtax("run", study(tmp_path, "native", name="second"))
    assert second.returncode == 75
    assert "whole-1 (process" in second.stderr
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = tmp_path / "small"
    mounted.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=2m", "vtax-test", mounted])
    yield mounted
    run(["umount", mounted])


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with pytest.raises(OSError, match="No space left"):
        path.write_bytes(bytes(4 << 20))


def test_a_disk_that_fills_up_ends_the_run_plainly_and_loses_nothing(
    tmp_path, small_disk, private_home, use_store
):
    use_store(small_disk / "store.sqlite")
    process = started("run", study(tmp_path, "native", blocks=4))
    wait_for_a_trial(process)
    filler = small_disk / "filler"
    fill(filler)
    printed = process.stderr.read()
    assert process.wait(120) == 1
    assert "full" in printed
    assert "Traceback" not in printed
    filler.unlink()
    kept = trials_in(private_home)
    assert kept >= 1
    done = vtax("resume")
    assert done.returncode == 0, done.stderr
    assert trials_in(private_home) == 4 * 2
    assert nothing_left(private_home)


def test_a_platform_requested_for_by_name_must_run(tmp_path, image):
    absent = [name for name in registry.names() if not registry.get(name).examine().available]
    if not absent:
        pytest.skip("this host lacks nothing for any platform")
    path = study(tmp_path, "native", absent[0])
    refused = vtax("run", path, "--platforms", f"native,{absent[0]}")
    assert refused.returncode == 2
    assert f"{absent[0]} does not run here" in refused.stderr
    planned = vtax("run", path, "--platforms", f"native,{absent[0]}", "--dry-run")
    assert (planned.returncode, planned.stdout) == (2, "")
    assert f"{absent[0]} does not run here" in planned.stderr
    printed = vtax("run", path, "--dry-run").stdout
    assert f"not tested: {absent[0]}" in printed


def test_a_shell_opens_in_a_fresh_guest_and_leaves_nothing(private_home):
    process = subprocess.run(
        [sys.executable, "-m", "vtax", "shell", "native"],
        input="cat /etc/debian_version; exit 3\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 3, process.stderr
    assert "13" in process.stdout
    assert nothing_left(private_home)


@pytest.mark.parametrize("number", [signal.SIGTERM, *thorough(signal.SIGHUP)])
def test_a_shell_that_is_requested_to_stop_leaves_nothing(private_home, number):
    process = subprocess.Popen(
        [sys.executable, "-m", "vtax", "shell", "native"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdin.write(b"echo begun\n")
    process.stdin.flush()
    has_data = process.stdout.read(5)  # anything at all: its prompt, or the echo of what was typed
    process.send_signal(number)
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 128 + number, printed
    assert has_data
    assert nothing_left(private_home)
