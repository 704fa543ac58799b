"""A benchmark may have a margin of its own: verdicts, gates and tables are by it, and say so."""

from __future__ import annotations

import pytest
from a_run import a_run
from shown import drawn, result

from vtax.report.analysis import Analysis
from vtax.report.answers.gate.compute import check
from vtax.report.answers.gate.show import document_of
from vtax.stats.rules import FixedRule, margins_of
from vtax.stats.terms import Conditions
from vtax.store.records import CellRecord
from vtax.store.store import Store

NOISE = (0.0, 0.004, -0.004, 0.003, -0.003, 0.002, -0.002, 0.0)
TABLES = [{"name": "stream"}, {"name": "dd", "label": "disk", "margin": 0.1}]
SPACE = "\N{NO-BREAK SPACE}"


@pytest.fixture
def found(store: Store) -> Analysis:
    """Docker is 3 % slower at everything, within the margin of the disk alone."""

    def values(cell: CellRecord, block: int, number: int) -> dict[str, float]:
        level = 97.0 if cell.platform == "docker" else 100.0
        return {"rate": level * (1 + NOISE[block] * (-1 if cell.platform == "docker" else 1))}

    run = a_run("own-1").platforms("native", "docker").design(stop="fixed", margin=0.02)
    run = run.benchmark("stream").metric("rate", "MB/s").benchmark("disk").metric("rate", "MB/s")
    return run.declared(benchmark=TABLES).blocks(8).values(values).analysed(store)


def test_a_study_says_which_margin_a_label_has():
    assert margins_of({"benchmark": TABLES}) == {"disk": 0.1}
    assert FixedRule().within(None) == FixedRule()
    assert FixedRule().within(0.1).margin == 0.1


def test_verdicts_are_by_the_margin_of_their_benchmark(found):
    said = {}
    for section in found.primary:
        (verdict,) = [row.verdict for row in section.rows if row.verdict]
        said[section.label] = section.margin, verdict.margin, verdict.kind
    assert said == {"stream": (0.02, 0.02, "slower"), "disk": (0.1, 0.1, "equivalent")}


def test_the_table_says_the_margin_that_differs(found):
    text = drawn(result(found), 100).replace(SPACE, " ")
    assert "disk (±10 %)" in text
    assert "stream (±" not in text


def test_a_gate_without_a_margin_judges_by_those_of_the_benchmarks(found):
    checked = check(None, found, Conditions())
    outcomes = {each.pair.section.label: each.outcome for each in checked.comparisons}
    assert outcomes == {"stream": "slower", "disk": "passed"}
    assert {each.pair.section.label: each.margin for each in checked.comparisons} == {
        "stream": 0.02,
        "disk": 0.1,
    }
    assert checked.margins["speed"] == 0.1
    text = drawn(document_of(checked), 200).replace(SPACE, " ")
    assert "fails above a loss of 2 % to 10 %" in text
    assert {each.margin for each in check(None, found, Conditions({"speed": 0.5})).comparisons} == {
        0.5
    }
