"""The matrix of a terminal: benchmarks and platforms, in percent of the baseline. Figures here are invented."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from a_run import a_run
from shown import drawn, result, source_of

from vtax.report.analysis import Analysis
from vtax.report.views.base import Options
from vtax.report.views.registry import views
from vtax.store.records import CellRecord
from vtax.store.store import Store


def analysed(store: Store, ratios: Mapping[str, Sequence[float]], blocks: int = 5) -> Analysis:
    """A finished run. ratios: level of a point -> the throughput of each block, 1000 on the baseline."""

    def speed(cell: CellRecord, block: int, number: int) -> float:
        size = str(cell.levels["size"])
        return 1000.0 if cell.platform == "native" else 1000.0 * ratios[size][block]

    run = a_run().platforms("native", "other").benchmark("iperf3", levels={"size": list(ratios)})
    return run.blocks(blocks).values(speed).analysed(store)


def answered(store: Store, width: int, points: int) -> tuple[list[str], int, int]:
    """The lines of a result of so many points, and where the answer and the matrix begin."""
    ratios = {str(size): [0.13, 0.131, 0.129, 0.13, 0.132] for size in range(1, points)}
    lines = drawn(
        result(analysed(store, {"0": [0.96, 0.961, 0.959, 0.96, 0.962], **ratios})), width
    ).splitlines()
    assert max(map(len, lines)) <= width
    starts = (
        "other: slower everywhere, most on iperf3 size=1 (7.7 times).",
        "Percent of native, higher",
    )
    answer, matrix = (
        next(n for n, line in enumerate(lines) if line.startswith(start)) for start in starts
    )
    return lines, answer, matrix


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_the_answer_directly_before_the_matrix(store, width):
    lines, answer, matrix = answered(store, width, 2)
    assert answer + 1 == matrix
    below = " ".join(" ".join(lines[matrix + 1 :]).split())
    assert "iperf3 size=0 96.0" in below
    assert "iperf3 size=1 7.6" in below


def test_a_matrix_longer_than_a_window_stands_before_the_answer(store):
    _, answer, matrix = answered(store, 120, 9)
    assert matrix < answer


def test_a_matrix_that_is_too_long_has_the_command_that_shows_it(store, monkeypatch):
    analysis = analysed(store, {str(size): [0.9] * 5 for size in range(9)})
    assert "higher is better; of a time" in drawn(
        result(analysis), 80
    )  # one platform: points go down
    monkeypatch.setattr("vtax.report.answers.result.view._MOST_CELLS", 8)
    shown = drawn(result(analysis), 80)
    assert "better (a time" not in shown
    assert "vtax show tour-1 --all: percent of native in each of 9 comparisons" in shown
    assert "higher is better; of a time" in drawn(result(analysis, every_metric=True), 160)


def test_what_is_slower_by_its_own_interval_alone_says_so_in_its_cell_and_why(store):
    low, noisy = [0.773, 0.925, 0.83, 0.959, 0.83], [1.0, 1.2, 0.8, 1.1, 0.9]
    found = analysed(store, {"0": low, **{str(n): noisy for n in range(1, 10)}})
    row = next(row for row in found.primary[0].points[0].rows if row.ratio)
    assert (row.ratio.high < 1 - row.verdict.margin, row.verdict.kind, row.verdict.family) == (
        True,
        "undecided",
        10,
    )
    report = views()["result"].document(source_of(found), Options("report"))
    shown, of_report = drawn(result(found), 200), drawn(report, 200)
    (line,) = [line for line in shown.splitlines() if line.startswith("iperf3 size=0 ")]
    assert line.rstrip().endswith("] perhaps slower")
    assert shown.count("perhaps slower") == 2  # and in the answer
    for text in (shown, of_report):
        assert text.count("Verdicts allow for 10 comparisons, intervals for one.") == 1


def test_a_matrix_without_such_cells_says_nothing_of_them(store):
    noisy = [1.0, 1.2, 0.8, 1.1, 0.9]
    alike = drawn(result(analysed(store, {str(n): noisy for n in range(10)})), 200)
    assert "perhaps" not in alike
    assert "Verdicts allow for" not in alike


def test_one_block_decides_nothing_however_slow_it_is(store):
    shown = drawn(result(analysed(store, {"0": [0.05]}, blocks=1)), 200)
    assert "20 times slower undecided" in shown


def test_no_cell_is_empty(store):
    """A cell has its word, or how much is lost at most; undecided only where that would say nothing."""
    ratios = {
        "slow": [0.9, 0.901, 0.899, 0.9, 0.902],
        "same": [1.0, 1.001, 0.999, 1.0, 1.0005],
        "noisy": [0.9, 1.1, 1.0, 0.95, 1.05],
        "wild": [0.2, 5.0, 1.0, 0.3, 3.0],
    }
    found = analysed(store, ratios)
    lines = [" ".join(line.split()) for line in drawn(result(found), 120).splitlines()]
    words = {name: next(s for s in lines if s.startswith(f"iperf3 size={name}")) for name in ratios}
    rows = {row.cell.levels["size"]: row for row in found.primary[0].rows if row.ratio}
    assert rows["slow"].verdict.kind == "slower"
    assert words["slow"].endswith(f"≥ {math.floor(100 * rows['slow'].loss.at_least)} % slower")
    assert words["same"].endswith("equivalent")
    assert rows["noisy"].verdict.kind == rows["wild"].verdict.kind == "undecided"
    assert words["noisy"].endswith(f"≤ {math.ceil(100 * rows['noisy'].loss.at_most)} % slower")
    assert words["wild"].endswith("undecided")


def test_too_few_blocks_for_a_verdict_are_too_few_for_a_bound(store):
    found = analysed(store, {"noisy": [0.9, 1.1, 1.0]}, blocks=3)
    lines = [" ".join(line.split()) for line in drawn(result(found), 120).splitlines()]
    assert "other 100 % [78, 128] undecided" in lines
