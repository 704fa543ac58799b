"""A VTAX_HOME that does not exist is an error of every command that reads a home, and none makes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import invoked, output_of, refusal

from vtax.cli.commands import COMMANDS
from vtax.host.home import Home

READING = {
    "abort": (),
    "claims": (),
    "clean": (),
    "compare": ("podman", "docker"),
    "explain": (),
    "export": (),
    "figures": (),
    "history": (),
    "host": ("status",),
    "image": ("list",),
    "list": (),
    "note": ("last",),
    "recommend": (),
    "remove": ("tour-1",),
    "report": (),
    "resume": (),
    "serve": ("--port", "0"),
    "show": (),
    "watch": (),
}
"""Command -> arguments."""
OTHERS = {
    "anatomy",  # makes one, as run does
    "benchmarks", "conformance", "new", "schema", "studies", "topologies",  # read no home
    "campaign", "demo", "doctor", "import", "merge", "pack", "platforms", "run", "shell",  # make one
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("taken_for_root")


def test_every_command_reads_a_home_or_is_known_not_to():
    assert READING.keys() | (OTHERS & COMMANDS.keys()) == COMMANDS.keys()
    assert not READING.keys() & OTHERS


@pytest.mark.parametrize("command", READING)
def test_a_home_that_is_not_there_is_named(command, unmade_home, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # where figures can be written, whoever runs this
    refused = refusal(command, *READING[command])
    assert refused.where == f"VTAX_HOME={unmade_home}"
    assert not unmade_home.exists()


def test_a_path_from_the_working_directory_is_shown_whole(unmade_home, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VTAX_HOME", "tpyo")
    assert refusal("list").where == f"VTAX_HOME={tmp_path / 'tpyo'}"


@pytest.mark.parametrize("arguments", [("list",), ("list", "--json")])
def test_a_home_without_runs_is_none(arguments, unmade_home):
    unmade_home.mkdir()
    assert invoked(*arguments).exit_code == 0


def test_the_default_home_may_be_absent(monkeypatch, tmp_path):
    monkeypatch.delenv("VTAX_HOME", raising=False)
    monkeypatch.delenv("VTAX_STORE", raising=False)
    monkeypatch.setattr("vtax.host.home.DEFAULT_HOME", tmp_path / "absent")
    assert Home.existing().root == tmp_path / "absent"
    assert output_of("list").startswith("no runs yet")


def test_a_store_elsewhere_needs_no_home(unmade_home: Path, monkeypatch, tour_file):
    monkeypatch.setenv("VTAX_STORE", f"sqlite:///{tour_file}")
    assert "tour-1" in output_of("list")
