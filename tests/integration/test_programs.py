"""The program of docs/add-a-benchmark.md, from its study file to figures, in a native guest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from doc_examples import ROOT
from support import needs_root

pytestmark = [needs_root, pytest.mark.usefixtures("image", "private_home")]


def example(language: str, beginning: str) -> str:
    page = (ROOT / "docs" / "add-a-benchmark.md").read_text()
    return page[page.index(f"```{language}\n{beginning}") :].split("\n", 1)[1].split("```")[0]


def vtax(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vtax", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_the_documented_program_is_measured_after_consent(tmp_path: Path) -> None:
    study = tmp_path / "mine.toml"
    study.write_text(example("toml", 'name = "my-hashing"').replace('["native", "podman"]', '["native"]'))
    (tmp_path / "hashing.py").write_text(example("py", "import hashlib"))
    refused = vtax("run", str(study), "--blocks", "1")
    assert refused.returncode == 2
    assert "program hashing" in refused.stderr
    made = vtax("run", str(study), "--blocks", "2", "--trust", "--json")
    assert made.returncode == 0, made.stderr
    raw = json.loads(vtax("show", "last", "--raw", "all", "--json").stdout)
    assert [trial["status"] for trial in raw["trials"]] == ["ok"] * 4
    assert all("hashed" in output["stdout"] for trial in raw["trials"] for output in trial["outputs"])
