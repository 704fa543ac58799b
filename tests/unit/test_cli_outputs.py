"""Options that name what a command writes refuse a wrong place before the command does anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.command_line import refusal
from vtax.cli.commands import COMMANDS
from vtax.cli.main import group
from vtax.cli.outputs import OutputDirectory, OutputFile, OutputPath
from vtax.errors import BadInput

INPUTS = {"inventory", "peer_home", "outputs", "failed", "files"}
"""Options with a path that a command reads."""
METAVARS = ("FILE", "DIR", "PATH")


def options() -> Iterator[tuple[str, click.Option]]:
    """Every option of every command, with the command's name."""
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        below = command.commands.values() if isinstance(command, click.Group) else [command]
        for each in below:
            for param in each.params:
                if isinstance(param, click.Option):
                    yield f"{name} {each.name}", param


def outputs() -> list[tuple[str, click.Option]]:
    return [(name, option) for name, option in options() if isinstance(option.type, OutputPath)]


def test_every_option_with_a_path_is_an_output_or_known_to_be_read():
    for name, option in options():
        is_path = (
            isinstance(option.type, click.Path)
            or option.metavar in METAVARS
            or option.name in ("output", "junit", "markdown", "figure")
        )
        if is_path and option.name not in INPUTS and not option.is_flag:
            assert isinstance(option.type, OutputPath), (name, option.name)
    assert len(outputs()) >= 11


@pytest.mark.parametrize(
    ("name", "option"), outputs(), ids=[f"{name} {option.opts[0]}" for name, option in outputs()]
)
def test_an_output_is_checked_while_the_command_line_is_read(name, option, tmp_path):
    """Without a word from the command: the type alone does it."""
    (tmp_path / "file").write_text("there")
    context = click.Context(click.Command(name))
    wrong = [tmp_path / "file" / "below", Path("/proc/nothing/there")]
    wrong += (
        [tmp_path, tmp_path / "absent" / "file", Path("/dev/null")]
        if isinstance(option.type, OutputFile)
        else [tmp_path / "file"]
    )
    for path in wrong:
        with pytest.raises(BadInput) as refused:
            option.type_cast_value(context, str(path))
        assert max(option.opts, key=len) in refused.value.hint
        assert str(path) in refused.value.what
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_check_leaves_nothing_behind_and_changes_no_file(tmp_path):
    (tmp_path / "there").write_text("before")
    context = click.Context(click.Command("x"))
    for name in ("there", "new"):
        assert OutputFile().convert(str(tmp_path / name), None, context) == tmp_path / name
    assert OutputDirectory().convert(str(tmp_path / "a" / "b"), None, context)
    assert [each.name for each in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there").read_text() == "before"
    assert OutputFile().convert("-", None, context) == Path("-")


def test_a_shell_that_completes_has_nothing_checked():
    context = click.Context(click.Command("x"), resilient_parsing=True)
    assert OutputFile().convert("/nowhere/x", None, context) == Path("/nowhere/x")


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_gate_without_a_place_for_its_file_measures_nothing(dry, monkeypatch):
    monkeypatch.setattr("vtax.cli.run.study_of", lambda *_: pytest.fail("the study was read"))
    refused = refusal("run", "tour", *dry, "--check", "5%", "--junit", "/nowhere/gate.xml")
    assert refused.exit_status == 2
    assert "--junit" in refused.hint
