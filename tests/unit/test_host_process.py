"""Starting programs: whatever keeps one from starting is one kind of error that says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vtax.errors import CommandFailed
from vtax.host.process import run, spawn


def spawned(argv: list[str], **options: Any) -> Any:
    return spawn(argv, mark="test", **options)


@pytest.mark.parametrize("start", [run, spawned])
def test_a_program_that_cannot_start_says_why(tmp_path: Path, start: Callable[..., Any]) -> None:
    program = tmp_path / "program"
    with pytest.raises(CommandFailed, match="program is not installed"):
        start([str(program)])
    program.write_text("#!/bin/sh\n")
    with pytest.raises(CommandFailed, match="program cannot be started: Permission denied"):
        start([str(program)])
    program.chmod(0o755)
    with pytest.raises(CommandFailed, match="program cannot be started: No such file") as caught:
        start([str(program)], cwd=tmp_path / "gone")
    assert caught.value.where == str(tmp_path / "gone")
    program.write_bytes(b"\x7fELF")
    with pytest.raises(CommandFailed, match="program cannot be started: Exec format error"):
        start([str(program)])
