"""vtax commands as a person types them."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from vtax.cli.main import group


def output_of(*arguments: str) -> str:
    """What a command that goes well prints."""
    result = CliRunner().invoke(group, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def invoked(*arguments: str) -> Result:
    """A command that may fail: its output, exit status and exception."""
    return CliRunner().invoke(group, list(arguments))


def values_of(*arguments: str) -> dict[str, Any]:
    """The object that a command prints with --json, whatever its exit status."""
    found: dict[str, Any] = json.loads(invoked(*arguments, "--json").output)
    return found
