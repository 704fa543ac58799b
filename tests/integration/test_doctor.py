"""The doctor on this very host: within its time, complete, and leaving nothing."""

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import needs_root, thorough

from vtax.cli.main import group
from vtax.doctor import tunables
from vtax.doctor.examine import BOUND_S, examine, probe_all
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import run
from vtax.host.resources import Tree
from vtax.platforms import registry
from vtax.platforms.base import Platform

pytestmark = [needs_root]


def test_it_answers_in_time_for_every_platform_and_leaves_nothing(image, private_home):
    examination = examine(image)
    assert examination.seconds < BOUND_S
    assert list(examination.platforms) == registry.names()
    assert examination.platforms["native"].available
    for name, probe in examination.platforms.items():
        assert probe.available or probe.reason, name
    assert {"other load", "steal", "CPUs", "free memory"} <= {
        finding.name for finding in examination.findings
    }
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
def test_programs_get_it_as_json(image, private_home):
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
            assert changed == {
                tunable.name for tunable in present if tunable.show() != before[tunable.name]
            }
        assert journal.registered == ()
    assert {tunable.name: tunable.show() for tunable in present} == before
