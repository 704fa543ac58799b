"""What a killed vtax left and cannot be removed: every run refuses, says how to give it up, and then goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from vtax.cli.main import group
from vtax.cli.measure import prepare_host
from vtax.errors import VtaxError
from vtax.host.home import Home
from vtax.host.journal import boot_id
from vtax.host.resources import Remote, to_record


@pytest.fixture
def home(unmade_home: Path, taken_for_root: None) -> Home:
    """A home with the journal of a dead process that held files on a machine that is unreachable now."""
    home = Home.from_environment().ensure()
    there = Remote("router", "/tmp/vtax-1", ("sh", "-c", "echo no route to host >&2; exit 255"))
    record = {"register": 0, "at": 1, **to_record(there)}
    (home.journal / f"1-1-abc-{boot_id()}.jsonl").write_text(json.dumps(record) + "\n")
    return home


def test_a_run_says_once_what_to_do_about_what_it_cannot_remove(home):
    for _ in range(2):
        with pytest.raises(VtaxError) as caught:
            prepare_host(home)
        printed = str(caught.value)
        assert "router did not confirm that it removed /tmp/vtax-1: no route to host" in printed
        assert printed.lower().count("hint:") == 1
        assert "sudo vtax clean --forget forgets them" in printed


def test_what_is_given_up_is_reported_and_keeps_no_run_from_beginning(home):
    assert CliRunner().invoke(group, ["clean"]).exit_code == 1
    forgotten = CliRunner().invoke(group, ["clean", "--forget"])
    assert forgotten.exit_code == 0
    assert forgotten.stdout.startswith(
        "forgot files and processes of /tmp/vtax-1 on router: router did not confirm"
    )
    assert list(home.journal.iterdir()) == []
    prepare_host(home)


def test_programs_are_reported_apart_what_stays_and_what_was_given_up(home):
    stays = json.loads(CliRunner().invoke(group, ["clean", "--json"]).stdout)
    assert len(stays["problems"]) == 1
    assert stays["forgotten"] == []
    forgotten = json.loads(CliRunner().invoke(group, ["clean", "--json", "--forget"]).stdout)
    assert forgotten["problems"] == []
    assert forgotten["forgotten"] == stays["problems"]
