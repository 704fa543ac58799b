"""The doctor on this very host: within its time, complete, and leaving nothing."""

import json

import pytest
from click.testing import CliRunner
from support import needs_root

from vtax.cli.main import group
from vtax.doctor import knobs
from vtax.doctor.examine import BOUND_S, examine
from vtax.host.journal import Journal
from vtax.platforms import registry

pytestmark = [needs_root, pytest.mark.root]


def test_it_answers_in_time_for_every_platform_and_leaves_nothing(image, private_home):
    examination = examine(image)
    assert examination.seconds < BOUND_S
    assert list(examination.platforms) == registry.names()
    assert examination.platforms["native"].available
    for name, probe in examination.platforms.items():
        assert probe.available or probe.reason, name
    assert {"other load", "steal", "CPUs", "free memory"} <= {finding.name for finding in examination.findings}
    if not any("did not end" in probe.reason for probe in examination.platforms.values()):
        assert list(private_home.guests.iterdir()) == list(private_home.journal.iterdir()) == []


def test_programs_get_it_as_json(image, private_home):
    result = CliRunner().invoke(group, ["doctor", "--json"])
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert {platform["name"] for platform in told["platforms"]} == set(registry.names())
    assert all(finding["why"] for finding in told["findings"])


def test_this_hosts_knobs_are_as_before_after_tuning(private_home):
    present = [knob for knob in knobs.all_knobs() if knob.available()]
    before = {knob.name: knob.show() for knob in present}
    with Journal(private_home.journal) as journal:
        with knobs.tuned(journal) as told:
            changed = {line.partition(":")[0] for line in told}
            assert changed == {knob.name for knob in present if knob.show() != before[knob.name]}
        assert journal.held == ()
    assert {knob.name: knob.show() for knob in present} == before
