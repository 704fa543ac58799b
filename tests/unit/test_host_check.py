"""What a host says to a controller of many: who it is, whether it can measure, and what stays on it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import output_of

from vtax.cli.main import group
from vtax.doctor import readiness as looked
from vtax.doctor.load import HostLoad
from vtax.doctor.readiness import Agent, agents
from vtax.errors import Busy
from vtax.host.home import Home
from vtax.host.lock import measuring_lock


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looked, "sample_load", lambda: HostLoad(2, 0.0, 0.0))


def process(proc: Path, pid: int, comm: str, *argv: str, ticks: int = 0) -> None:
    directory = proc / str(pid)
    directory.mkdir(parents=True)
    (directory / "comm").write_text(f"{comm}\n")
    (directory / "cmdline").write_bytes(b"".join(each.encode() + b"\0" for each in argv))
    (directory / "stat").write_text(f"{pid} ({comm}) S {' '.join(['0'] * 10)} {ticks} {ticks} 0 0")


def test_resident_agents_are_known_by_name_and_by_command(tmp_path):
    tick = os.sysconf("SC_CLK_TCK")
    process(tmp_path, 10, "kubelet", "/usr/bin/kubelet", "--config=x", ticks=tick)
    process(tmp_path, 11, "python3", "/usr/bin/python3", "/usr/bin/salt-minion")
    process(tmp_path, 12, "python3", "/usr/bin/python3", "/usr/bin/salt-minion", ticks=tick // 2)
    process(tmp_path, 13, "unattended-upgr", "/usr/bin/python3", "/usr/share/x")
    process(tmp_path, 14, "bash", "bash", "-c", "kubelet2")
    process(tmp_path, 15, "node_exporter")
    (tmp_path / "self").mkdir()
    assert agents(tmp_path) == (
        Agent("kubelet", 1, 2.0),
        Agent("node_exporter", 1, 0.0),
        Agent("salt-minion", 2, 1.0),
        Agent("unattended-upgrade", 1, 0.0),
    )


def test_a_host_that_can_measure_says_who_it_is(private_home, taken_for_root):
    found = json.loads(output_of("host", "check", "--json"))
    assert found["schema"] == "vtax.host-check/1"
    assert found["home"] == str(private_home.root)
    assert found["identity"]
    assert found["host"]["kernel"] == os.uname().release
    assert found["free_bytes"] > 0
    assert (found["is_ready"], found["obstacles"], found["measures"]) == (True, [], "")
    assert "this host can measure now" in output_of("host", "check")


def test_no_boot_is_set_without_an_id_and_while_a_run_measures_that_is_refused(
    private_home, taken_for_root
):
    found = json.loads(output_of("host", "boot", "--json"))
    assert (found["schema"], found["next_boot"]) == ("vtax.host-boot/1", "")
    with measuring_lock("another run"):
        refused = CliRunner().invoke(group, ["host", "boot"], standalone_mode=False)
    assert isinstance(refused.exception, Busy)


@pytest.mark.parametrize(
    ("free", "has_image", "codes"),
    [
        (2 << 30, False, []),
        ((2 << 30) - 1, False, ["space"]),
        (256 << 20, True, []),
        ((256 << 20) - 1, True, ["space"]),
    ],
)
def test_a_full_disk_is_in_the_way_where_the_image_is_too(free, has_image, codes, taken_for_root):
    found = looked._obstacles({"machine_id": "x"}, free, "", has_image=has_image)
    assert [each.code for each in found] == codes


def test_a_held_lock_missing_root_and_a_full_disk_are_named(
    unmade_home, monkeypatch, measuring, ordinary_user
):
    monkeypatch.setattr(looked, "free_bytes_below", lambda directory: 5)
    monkeypatch.setattr(looked, "host_facts", lambda: {"cpus": 2})
    result = CliRunner().invoke(group, ["host", "check", "--json"], catch_exceptions=False)
    found = json.loads(result.stdout)
    assert [each["code"] for each in found["obstacles"]] == [
        "not-root",
        "lock-held",
        "space",
        "no-machine-id",
    ]
    assert found["obstacles"][1]["detail"] == "tour-7"
    assert (found["is_ready"], found["measures"], found["identity"]) == (False, "tour-7", "")
    assert not Home.from_environment().root.exists()
    said = CliRunner().invoke(group, ["host", "check"], catch_exceptions=False).output
    assert "this host cannot measure now: not-root, lock-held tour-7" in said
