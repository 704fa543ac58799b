"""Reports show what shipped studies say of themselves, their claims and figures in the reader's language."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path

import pytest
from drawn_run import run_of

from vtax.report.chapters import report
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.language import Language, language
from vtax.report.renderers.markdown import markdown
from vtax.report.views.base import Options
from vtax.report.views.registry import views
from vtax.study.load import Chosen, load, shipped

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
STUDIES = {name: load(name).study for name in shipped()}
PAPERS = [name for name, study in STUDIES.items() if study.paper]


@pytest.fixture
def portuguese() -> Language:
    return language("pt-BR")


@cache
def shown_of_studies() -> dict[str, list[str]]:
    """Study -> texts of it that reports show."""
    found: dict[str, list[str]] = {name: [] for name in shipped()}
    for name, text in runpy.run_path(str(ROOT / ".ci" / "messages"))["texts_of_studies"]():
        found[name].append(text)
    return found


@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_text_of_a_shipped_study_is_in_portuguese(name, portuguese):
    texts = shown_of_studies()[name]
    assert len(texts) >= 2
    assert [text for text in texts if portuguese.translated(text) == text] == []


@pytest.mark.parametrize("name", [name for name in PAPERS if STUDIES[name].figure])
def test_reports_of_a_paper_show_no_english_text_of_its_study(name, portuguese):
    options = Options("all")
    source = run_of(name, 1)
    judged = views()["claims"].document(source, options)
    pages = " ".join(
        " ".join(markdown(each, portuguese) for each in (report(source), judged)).split()
    )
    study = STUDIES[name]
    assert portuguese.translated(study.title) in pages
    assert portuguese.translated(study.question) in pages
    for text in shown_of_studies()[name]:
        if len(text.split()) > 2 or text.startswith(("section", "figure", "table")):
            assert f": {text} " not in pages
            assert f"| {text} |" not in pages


def test_a_note_and_what_a_scale_leaves_of_a_claim_are_in_portuguese(portuguese):
    claims = {
        claim.id: claim for claim in load("urschei2007", chosen=Chosen(scale="quick")).study.claim
    }
    found = claims["buffer-larger-faster"]
    assert portuguese.translated(found.note).endswith(
        "; uma inclinação sobe também onde passos isolados caem."
    )
    assert Formatter(portuguese).text(found.in_part) == (
        "--scale quick mede 4 de 7 níveis de socket_buffer, 2 de 8 níveis de message_size"
    )
