"""The example of docs/add-a-view.md is a view: one file, and every output has it. Figures here are invented."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_examples import blocks
from installed_package import write_package


@pytest.fixture
def environment(tmp_path: Path, tour_file: Path) -> dict[str, str]:
    """A store with a run, and a package that has the example as its only module, for child processes."""
    (_, source), *_ = [block for block in blocks("python") if block[0].startswith("add-a-view.md")]
    write_package(tmp_path, "failures", source, "view")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    return {**os.environ, "PYTHONPATH": path, "VTAX_STORE": f"sqlite:///{tour_file}"}


def output(environment: dict[str, str], *arguments: str) -> str:
    argv = [sys.executable, "-m", "vtax.cli.main", *arguments]
    return subprocess.run(argv, env=environment, check=True, capture_output=True, text=True).stdout


def test_a_view_of_one_file_is_in_the_help_the_terminal_the_json_and_the_report(
    environment, tmp_path
):
    assert re.search(
        r"--failures +Failed trials by platform\.", output(environment, "show", "--help")
    )
    lines = [line.split() for line in output(environment, "show", "--failures").splitlines()]
    assert ["platform", "failed", "trials", "share"] in lines
    assert ["qemu-tcg", "(emulated)", "1", "1.4", "%"] in lines
    (table,) = json.loads(output(environment, "show", "--failures", "--json"))["failures"]
    assert table["table"] == "failures"
    assert table["rows"][-1] == {
        "platform": "qemu-tcg",
        "failed": 1,
        "share": pytest.approx(1 / 72),
    }
    output(environment, "export", "--format", "markdown", "--output", str(tmp_path / "run.md"))
    chapters = re.findall(r"^## (.*)$", (tmp_path / "run.md").read_text(), re.MULTILINE)
    assert chapters.index("Failed trials") == chapters.index("Warnings") + 1
