"""vtax commands as a person types them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from vtax.cli.main import group, main
from vtax.errors import BadInput


def output_of(*arguments: str) -> str:
    """What a command that goes well prints."""
    result = CliRunner().invoke(group, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def invoked(*arguments: str) -> Result:
    """A command that may fail: its output, exit status and exception."""
    return CliRunner().invoke(group, list(arguments))


def refusal(*arguments: str) -> BadInput:
    """What a command says of wrong input."""
    error = invoked(*arguments).exception
    assert isinstance(error, BadInput), error
    return error


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str]:
    """The exit status of a command that fails, and what it says on stderr."""
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return caught.value.code, capsys.readouterr().err


def ended_by(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> object:
    """The exit status of a command that does this."""
    monkeypatch.setattr(group, "get_command", lambda *_: click.Command("list", callback=work))
    with pytest.raises(SystemExit) as caught:
        main(["list"])
    return caught.value.code


def refusals(capsys: pytest.CaptureFixture[str], command: str, *lines: str) -> str:
    """What a command says below each line of arguments that it refuses (exit status 2): text of a golden file."""
    found = []
    for line in lines:
        status, said = ended(capsys, *shlex.split(f"{command} {line}"))
        assert status == 2, (line, status, said)
        found.append(f"vtax {f'{command} {line}'.strip()}\n{said}")
    return "\n".join(found)


def values_of(*arguments: str) -> dict[str, Any]:
    """The object that a command prints with --json, whatever its exit status."""
    found: dict[str, Any] = json.loads(invoked(*arguments, "--json").output)
    return found
