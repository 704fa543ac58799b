"""The doctor on this very host: within its time, complete, and leaving nothing."""

import json
import os
import time
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import needs_root, thorough

from vtax.cli import calibrate, probing
from vtax.cli.main import group
from vtax.doctor import tunables
from vtax.doctor.examine import BOUND_S, examine, probe_all
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.lock import measuring_lock
from vtax.host.process import run
from vtax.host.resources import Tree
from vtax.platforms import registry
from vtax.platforms.base import Platform

pytestmark = [needs_root, pytest.mark.root]


def test_it_answers_in_time_for_every_platform_and_leaves_nothing(image, private_home):
    examination = examine(image)
    assert examination.seconds < BOUND_S
    assert list(examination.platforms) == registry.names()
    assert examination.platforms["native"].available
    for name, probe in examination.platforms.items():
        assert probe.available or probe.reason, name
    assert {"other load", "steal", "CPUs", "free memory"} <= {finding.name for finding in examination.findings}
    assert list(private_home.guests.iterdir()) == list(private_home.journal.iterdir()) == []


class HangingDriver:
    """One whose probe is late on the fastest of hosts, too."""

    name = "hanging"

    def probe(self, options, image):
        home = Home.from_environment()
        with Journal(home.journal) as journal:
            journal.register(Tree(str(home.guests / "vtax-hangs")))
            (home.guests / "vtax-hangs").mkdir()
            run(["sleep", "60"])


@pytest.mark.parametrize("seconds", [0.8, *thorough(0.2, 2.0)])
def test_probes_that_are_cut_short_leave_nothing(image, private_home, seconds):
    hanging = Platform("hanging", HangingDriver(), registry.get("native").options)
    platforms = [hanging, *(registry.get(name) for name in registry.names())]
    probes = probe_all(platforms, image, time.monotonic() + seconds)
    assert "exceeded the time limit" in probes["hanging"].reason
    assert not any("leaked" in probe.reason for probe in probes.values())
    assert list(private_home.guests.iterdir()) == list(private_home.journal.iterdir()) == []
    home = f"VTAX_HOME={private_home.root}".encode()
    assert [pid for pid in pids() if home in environment(pid) and pid != os.getpid()] == []


def pids():
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def environment(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@pytest.mark.thorough
def test_programs_get_it_as_json(image, private_home, monkeypatch, tmp_path):
    monkeypatch.setattr(probing, "measuring_lock", partial(measuring_lock, path=tmp_path / "lock"))
    result = CliRunner().invoke(group, ["doctor", "--json"])
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert {platform["name"] for platform in printed["platforms"]} == set(registry.names())
    assert all("available" in platform for platform in printed["platforms"])
    assert all(finding["why"] for finding in printed["findings"])


def test_this_hosts_tunables_are_as_before_after_tuning(private_home):
    present = [tunable for tunable in tunables.TUNABLES if tunable.available()]
    before = {tunable.name: tunable.show() for tunable in present}
    with Journal(private_home.journal) as journal:
        with tunables.tuned(journal) as printed:
            changed = {line.partition(":")[0] for line in printed}
            assert changed == {tunable.name for tunable in present if tunable.show() != before[tunable.name]}
        assert journal.registered == ()
    assert {tunable.name: tunable.show() for tunable in present} == before


def test_calibration_says_how_large_an_effect_this_host_sees_in_about_the_time_given(
    image, private_home, monkeypatch, tmp_path
):
    monkeypatch.setattr(calibrate, "measuring_lock", partial(measuring_lock, path=tmp_path / "lock"))
    result = CliRunner().invoke(group, ["doctor", "--calibrate=20s", "--json"])
    if "blocks of sysbench-cpu only" in (refused := f"{result.output}{result.exception}"):
        pytest.skip(f"this host is too busy: {refused}")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    (cpu,) = printed["calibration"]
    block_s = printed["seconds"] / cpu["blocks"]  # above one block's, by what comes before the first
    assert printed["seconds"] < 20 + 2 * block_s
    assert cpu["benchmark"] == "sysbench-cpu"
    assert cpu["blocks"] >= 3
    assert cpu["ratio"]["low"] < cpu["ratio"]["estimate"] < cpu["ratio"]["high"]
    assert 0 < cpu["noise"] < cpu["noise_upper"]
    effects = [each["overhead"] for each in cpu["smallest_overhead"]]
    assert effects == sorted(effects, reverse=True)
    assert 0 < effects[-1] < effects[0] < 1
    assert list(private_home.guests.iterdir()) == list(private_home.journal.iterdir()) == []
    assert not (private_home.root / "store.sqlite").exists()


def test_too_short_a_calibration_is_refused_with_the_least_time(private_home, image):
    result = CliRunner().invoke(group, ["doctor", "--calibrate=2s"], standalone_mode=False)
    assert "too short for a calibration" in str(result.exception)
