"""What one command undoes: looked for again when it comes late, waited for when it takes its time to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtax.errors import VtaxError
from vtax.host.resources import RestoreCommand


def program(tmp_path: Path, text: str) -> tuple[str, ...]:
    """A shell program that finds a directory of its own in $1."""
    return ("sh", "-c", text, "sh", str(tmp_path))


def test_a_container_that_is_made_late_is_still_found(tmp_path):
    inspect = program(
        tmp_path,
        'test -e "$1/asked" && exit 0; touch "$1/asked"; echo No such container >&2; exit 1',
    )
    remove = program(
        tmp_path, 'touch "$1/removed"'
    )  # as `docker rm --force`: 0 whether there is one or not
    assert (
        RestoreCommand(
            "a container", remove, harmless_words=("No such",), if_any=inspect, late_s=30.0
        ).remove()
        is True
    )
    assert (tmp_path / "removed").exists()


def test_a_container_that_is_not_there_was_not_removed_and_a_daemon_that_does_not_answer_is_reported(
    tmp_path,
):
    none = program(tmp_path, "echo No such >&2; exit 1")
    assert (
        RestoreCommand("a container", ("true",), harmless_words=("No such",), if_any=none).remove()
        is False
    )
    silent = program(tmp_path, "echo Cannot connect >&2; exit 1")
    with pytest.raises(VtaxError, match="Cannot connect"):
        RestoreCommand(
            "a container", ("true",), harmless_words=("No such",), if_any=silent
        ).remove()


@pytest.mark.parametrize("words", [(), ("No such",), ("nothing", "No such")])
def test_a_command_that_says_nothing_was_there_is_done(words):
    argv = ("sh", "-c", "echo No such container >&2; exit 1")
    assert RestoreCommand("a container", argv, harmless_words=words).remove() is False


@pytest.mark.parametrize("status", [1, 2])
def test_a_command_that_says_something_else_is_not_done(status):
    argv = ("sh", "-c", f"echo Cannot connect to the daemon >&2; exit {status}")
    with pytest.raises(VtaxError, match="Cannot connect"):
        RestoreCommand("a container", argv, harmless_words=("No such",)).remove()


STATE = 'cat "$1/state"'


def requested_to_end(
    tmp_path: Path, ask: str, before: str, within_s: float = 30.0
) -> RestoreCommand:
    (tmp_path / "state").write_text(before)
    state = program(tmp_path, STATE)
    return RestoreCommand(
        "a machine", program(tmp_path, ask), (), until=state, until_says=("off",), within_s=within_s
    )


def test_a_machine_that_was_requested_to_end_is_waited_for(tmp_path):
    ask = 'echo asked >>"$1/asked"; (sleep 0.5; echo off >"$1/state") >/dev/null 2>&1 &'
    assert requested_to_end(tmp_path, ask, "running").remove() is True
    assert (tmp_path / "state").read_text() == "off\n"
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_a_machine_that_goes_on_is_not_gone(tmp_path):
    with pytest.raises(VtaxError, match=r"no effect within 0\.1 s"):
        requested_to_end(tmp_path, "exit 0", "running", within_s=0.1).remove()


def test_a_machine_that_cannot_be_requested_is_gone_only_when_it_is_known_to_be_off(tmp_path):
    assert requested_to_end(tmp_path, "exit 1", "off").remove() is False
    with pytest.raises(VtaxError, match="failed"):
        requested_to_end(tmp_path, "exit 1", "").remove()
