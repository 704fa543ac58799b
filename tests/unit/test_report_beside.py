"""What stands beside `equivalent`, and what helps where nothing is decided. Figures are invented."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from a_run import a_run
from shown import drawn, english, result

from vtax.report.analysis import Analysis
from vtax.report.answers.compare.compute import contrast
from vtax.report.answers.compare.show import document_of as contrast_document
from vtax.report.answers.gate.compute import check
from vtax.report.answers.gate.show import document_of as check_document
from vtax.report.answers.result.show_notes import notes_under
from vtax.stats.terms import Conditions
from vtax.store.records import CellRecord
from vtax.store.store import Store

SPACE = "\N{NO-BREAK SPACE}"
CLOSE = [-0.001, 0.0, 0.001, -0.0005, 0.0005] * 2
NOISY = [-0.5, 0.9, 0.0, 0.6, -0.8]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        yield opened


def analysed(store: Store, logs: list[float], cost: float = 1.0) -> Analysis:
    """A run of one comparison. logs: of the ratio in each block. cost: the noise of the host's CPU time beside it."""

    def values(cell: CellRecord, block: int, number: int) -> dict[str, float]:
        log = logs[block] if cell.platform == "other" else 0.0
        return {"throughput": 1000.0 * math.exp(log), "cpu_per_gigabyte": math.exp(cost * log)}

    run = a_run().platforms("native", "other").benchmark("iperf3").metric("throughput", "Mbit/s")
    run = run.metric("cpu_per_gigabyte", "s/GB", "lower", "cost").blocks(len(logs))
    return run.values(values).analysed(store)


def test_equivalent_says_beside_it_how_rare_slow_blocks_may_be_that_none_of_its_blocks_was(store):
    found = analysed(store, CLOSE)
    (section,) = found.primary
    assert section.points[0].rows[1].verdict.kind == "equivalent"
    share = 1 - 0.05 ** (1 / 10)
    assert (1 - share) ** 10 == pytest.approx(0.05)
    rare = f"can miss a slow phase that occurs in up to {100 * share:.0f}{SPACE}% of blocks"
    assert english(next(notes_under(section, found))) == f"equivalent: 10 blocks {rare}"
    assert " ".join(rare.split()) in " ".join(drawn(result(found)).split())


def test_where_nothing_is_equivalent_nothing_is_said_of_slow_blocks(store):
    found = analysed(store, NOISY)
    assert not any("can miss" in english(each) for each in notes_under(found.primary[0], found))


def test_a_check_and_a_comparison_of_two_platforms_say_it_too(store):
    found = analysed(store, CLOSE)
    passed = " ".join(
        drawn(check_document(check(None, found, Conditions({"speed": 0.05})))).split()
    )
    assert "passed: 10 blocks can miss a slow phase that occurs in up to 26 % of blocks" in passed
    compared = " ".join(
        drawn(contrast_document(contrast(store, "other", "native", run=found))).split()
    )
    assert (
        "equivalent: 10 blocks can miss a slow phase that occurs in up to 26 % of blocks"
        in compared
    )
