"""The matrix of a terminal: benchmarks and platforms, in percent of the baseline. Figures here are invented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from shown import drawn, result
from synthetic_run import begin, trial

from vtax.report.analysis import Analysis, analyse
from vtax.store.records import CellRecord, PlatformRecord
from vtax.store.store import Store


def analysed(store: Store, ratios: Mapping[str, Sequence[float]]) -> Analysis:
    """A finished run. ratios: level of a point -> the throughput of each block, 1000 on the baseline."""
    platforms = PlatformRecord("native", {}, True, is_baseline=True), PlatformRecord("other", {}, True)
    cells = [
        CellRecord(f"{p.name}{size}", size, p.name, "iperf3", "iperf3", levels={"size": size})
        for p in platforms for size in ratios
    ]  # fmt: skip
    run = begin(store, platforms=platforms, cells=cells)
    for block in range(5):
        for position, cell in enumerate(cells, start=len(cells) * block):
            share = 1 if cell.platform == "native" else ratios[str(cell.levels["size"])][block]
            run.add_trial(trial(cell, block=block, position=position, values={"throughput": 1000.0 * share}))
    run.finish("finished", "", 2.0)
    return analyse(store)


ANSWER = "other: 96.0\N{NO-BREAK SPACE}% of native to 7.7 times slower."


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_the_matrix_directly_before_the_answer(store, width):
    ratios = {"1": [0.96, 0.961, 0.959, 0.96, 0.962], "2": [0.13, 0.131, 0.129, 0.13, 0.132]}
    lines = drawn(result(analysed(store, ratios)), width).splitlines()
    assert max(map(len, lines)) <= width
    title = next(n for n, line in enumerate(lines) if line.startswith("Percent of native; higher is better"))
    answered = next(n for n, line in enumerate(lines) if line.startswith(ANSWER))
    matrix = " ".join(" ".join(lines[title + 1 : answered]).split())
    assert "iperf3 size=1 96.0" in matrix
    assert "iperf3 size=2 7.6" in matrix
    assert lines[answered - 1].strip()


def test_a_matrix_that_fits_neither_way_is_left_out(store, monkeypatch):
    analysis = analysed(store, {str(size): [0.9] * 5 for size in range(9)})
    assert "higher is better everywhere" in drawn(result(analysis), 80)  # one platform: points go down
    monkeypatch.setattr("vtax.report.views.result._MOST_CELLS", 8)
    assert "higher is better everywhere" not in drawn(result(analysis), 80)
    assert "higher is better everywhere" in drawn(result(analysis, every_metric=True), 80)
    monkeypatch.setattr("vtax.report.views.result._MOST_COLUMNS", 0)
    assert "higher is better everywhere" not in drawn(result(analysis, every_metric=True), 80)


def test_only_what_is_decided_has_a_word_or_reads_as_times(store):
    ratios = {"1": [0.8, 0.81, 0.79, 0.8, 0.8], "2": [0.9, 1.1, 1.0, 1.2, 0.8], "3": [0.1, 0.9, 0.2, 0.05, 0.4]}
    text = drawn(result(analysed(store, ratios)), 120)
    lines = {line.split()[1]: line for line in text.splitlines() if line.startswith("iperf3 size=")}
    assert lines["size=1"].endswith("slower")
    assert lines["size=2"].endswith("]")
    assert lines["size=3"].endswith("undecided")
    assert "undecided where no word stands:" in text


def test_tables_of_few_rows_stand_beside_the_answer(store, monkeypatch):
    analysis = analysed(store, {"1": [0.9, 0.91, 0.89, 0.9, 0.92]})
    assert "±95\N{NO-BREAK SPACE}%" in drawn(result(analysis), 120)
    monkeypatch.setattr("vtax.report.views.result._FEW_ROWS", 1)
    text = drawn(result(analysis), 120)
    assert "±95\N{NO-BREAK SPACE}%" not in text
    assert "vtax show tour-1 --all: table of 1 metric" in text


def test_a_sentence_of_every_platform_stands_only_where_everything_is_wanted(store):
    analysis = analysed(store, {"1": [0.5, 0.51, 0.49, 0.5, 0.5]})
    sentence = "is slower on iperf3"
    assert sentence not in drawn(result(analysis), 120)
    assert sentence in drawn(result(analysis, every_metric=True), 120)
