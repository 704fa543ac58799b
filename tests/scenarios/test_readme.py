"""What the READMEs show is what a command prints from a shipped run."""

import re
import shlex

import pytest
from click.testing import CliRunner
from doc_examples import ROOT

from vtax.cli.main import group

SHOWN = re.compile(r"<!-- (docs/examples/\S+): vtax (.*?) -->\n```text\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "README.pt-BR.md"])
def test_the_output_of_a_readme_is_printed_by_its_command(page, tmp_path, monkeypatch):
    monkeypatch.setenv("VTAX_HOME", f"{tmp_path}/home")
    monkeypatch.setenv("COLUMNS", "100")
    found = SHOWN.findall((ROOT / page).read_text())
    assert found
    for bundle, command, text in found:
        assert CliRunner().invoke(group, ["import", str(ROOT / bundle)]).exception is None
        printed = CliRunner().invoke(group, shlex.split(command)).output
        assert f"\n{text}" in printed


@pytest.mark.parametrize("page", ["README.md", "README.pt-BR.md"])
def test_a_readme_is_short(page):
    assert len((ROOT / page).read_text().split()) <= 1000


def test_the_picture_of_a_readme_is_a_figure_of_the_shipped_run_with_its_mark(tmp_path, monkeypatch):
    monkeypatch.setenv("VTAX_HOME", f"{tmp_path}/home")
    assert CliRunner().invoke(group, ["import", str(ROOT / "docs/examples/tour.vtax.gz")]).exception is None
    words = ["figures", "tour-1", "--report", "--only", "means-iperf3-throughput", "-o", str(tmp_path)]
    assert CliRunner().invoke(group, words).exception is None
    (written,) = tmp_path.glob("*.svg")
    shown, made = ((path.read_text(encoding="utf-8")) for path in (ROOT / "docs/tour-iperf3.svg", written))
    assert shown.count("(emulated)") == made.count("(emulated)") == 2
    assert re.findall(r"<text[^>]*>([^<]+)<", shown) == re.findall(r"<text[^>]*>([^<]+)<", made)
