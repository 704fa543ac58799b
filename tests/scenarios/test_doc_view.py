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
from synthetic_run import begin, fill

from vtax.store.store import Store


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A store with a run, and a package that has the example as its only module, for child processes."""
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    with Store.open(url) as store:
        fill(begin(store))
    (_, source), *_ = [block for block in blocks("python") if block[0].startswith("add-a-view.md")]
    package = tmp_path / "package"
    info = package / "failures-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "failures.py").write_text(source)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: failures\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vtax.report.views]\nfailures = failures:VIEW\n")
    path = os.pathsep.join([str(package), *sys.path])
    return {**os.environ, "PYTHONPATH": path, "VTAX_STORE": url, "VTAX_HOME": str(tmp_path / "home")}


def output(environment: dict[str, str], *arguments: str) -> str:
    argv = [sys.executable, "-m", "vtax.cli.main", *arguments]
    return subprocess.run(argv, env=environment, check=True, capture_output=True, text=True).stdout


def test_a_view_of_one_file_is_in_the_help_the_terminal_the_json_and_the_report(environment, tmp_path):
    assert re.search(r"--failures +Failed trials by platform\.", output(environment, "show", "--help"))
    lines = [line.split() for line in output(environment, "show", "--failures").splitlines()]
    assert ["platform", "failed", "trials", "share"] in lines
    assert ["qemu-tcg", "(emulated)", "1", "1.4", "%"] in lines
    (table,) = json.loads(output(environment, "show", "--failures", "--json"))["failures"]
    assert table["table"] == "failures"
    assert table["rows"][-1] == {"platform": "qemu-tcg", "failed": 1, "share": pytest.approx(1 / 72)}
    output(environment, "report", "--output", str(tmp_path / "run.html"))
    chapters = re.findall(r"<h2>(.*?)</h2>", (tmp_path / "run.html").read_text())
    assert chapters.index("Failed trials") == chapters.index("Warnings") + 1
