"""What the READMEs show is what a command prints from a shipped run."""

from __future__ import annotations

import re
import shlex

import pytest
from click.testing import CliRunner
from doc_examples import ROOT

from vtax.cli.main import group

SHOWN = re.compile(r"<!-- (docs/examples/\S+): vtax (.*?) -->\n```text\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "README.pt-BR.md"])
def test_the_output_of_a_readme_is_printed_by_its_command(
    page: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTAX_HOME", f"{tmp_path}/home")
    monkeypatch.setenv("COLUMNS", "100")
    found = SHOWN.findall((ROOT / page).read_text())
    assert found
    for bundle, command, text in found:
        assert CliRunner().invoke(group, ["import", str(ROOT / bundle)]).exception is None
        printed = CliRunner().invoke(group, shlex.split(command)).output
        assert f"\n{text}" in printed


@pytest.mark.parametrize("page", ["README.md", "README.pt-BR.md"])
def test_a_readme_is_short(page: str) -> None:
    assert len((ROOT / page).read_text().split()) <= 1000
