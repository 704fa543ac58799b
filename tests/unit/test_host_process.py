"""Starting programs: whatever keeps one from starting is one kind of error that says why."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from vtax.errors import CommandFailed
from vtax.host.process import run, spawn


def spawned(argv: list[str], **options: Any) -> Any:
    return spawn(argv, tag="test", **options)


@pytest.mark.parametrize("start", [run, spawned])
def test_a_program_that_cannot_start_says_why(tmp_path, start):
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
    with pytest.raises(CommandFailed, match="program cannot be started: Exec format"):
        start([str(program)])


def test_what_lives_long_sees_of_our_environment_what_it_needs(monkeypatch):
    monkeypatch.setenv("CLOUD_TOKEN", "secret")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("HOME", "/root")
    process = spawned(["env", "--null"], environment={"OWN": "1"}, stdout=subprocess.PIPE)
    printed = process.communicate(timeout=10)[0].decode().split("\0")
    values = dict(line.split("=", 1) for line in printed if line)
    assert sorted(values) == ["HOME", "LC_ALL", "OWN", "PATH", "VTAX_MARK"]
    assert (values["HOME"], values["LC_ALL"], values["VTAX_MARK"]) == ("/root", "C.UTF-8", "test")
    assert (
        "CLOUD_TOKEN=secret" in run(["env"]).stdout.splitlines()
    )  # a tool that we wait for runs as we do
