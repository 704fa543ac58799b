"""What a summary says of undecided contrasts: what their intervals exclude, and what would decide them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import synthetic_run
from shown import english
from synthetic_run import begin, trial

from vtax.report.analysis import analyse
from vtax.report.analysis.answers import answers
from vtax.store.records import CellRecord, PlatformRecord
from vtax.store.store import Store

SPACE = "\N{NO-BREAK SPACE}"
ALONE = "by the interval of one comparison alone, not yet a verdict in its family"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        yield opened


def answer(store: Store, ratios: Mapping[str, Sequence[float]], **design: object) -> str:
    """The answer about a platform. ratios: level of a point -> the throughput of each block, 1000 on the baseline."""
    platforms = PlatformRecord("native", {}, True, is_baseline=True), PlatformRecord("other", {}, True)
    cells = [
        CellRecord(f"{p.name}{size}", size, p.name, "iperf3", "iperf3", levels={"size": size})
        for p in platforms for size in ratios
    ]  # fmt: skip
    declared = {**synthetic_run.DECLARED, "design": design}
    run = begin(store, platforms=platforms, cells=cells, declared=declared)
    made = [(block, cell) for block in range(len(next(iter(ratios.values())))) for cell in cells]
    for position, (block, cell) in enumerate(made):
        value = 1000.0 * (1 if cell.platform == "native" else ratios[str(cell.levels["size"])][block])
        run.add_trial(trial(cell, block=block, position=position, values={"throughput": value}))
    run.finish("finished", "", 2.0)
    (found,) = answers(analyse(store))
    return english(found.text)


def test_what_is_certain_is_said_of_faster_and_of_slower_contrasts(store: Store) -> None:
    text = answer(store, {"1": [1.165, 1.166], "2": [0.8, 0.8001], "3": [3.0, 3.01], "4": [1.0, 1.001]})
    assert f"at least 15.9{SPACE}% faster on iperf3 (size=1)" in text
    assert f"at least 19.9{SPACE}% slower on iperf3 (size=2)" in text
    assert "times faster on iperf3 (size=3), at least" in text
    assert text.count("at least") == 3
    assert text.count(ALONE) == 1


def test_the_furthest_contrasts_are_named_wherever_they_stand(store: Store) -> None:
    near = {str(size): [0.8 + size / 100, 0.8001 + size / 100] for size in range(5)}
    text = answer(store, {**near, "far": [0.02, 0.02001]})
    assert "times slower on iperf3 (size=far), at least" in text
    assert f"and 2 more {ALONE}" in text
    assert "slower on iperf3 (size=4)" not in text


def test_too_few_blocks_are_blamed_rather_than_noise(store: Store) -> None:
    text = answer(store, {"1": [0.5, 3.0]})
    assert text.endswith("; a verdict needs 5 blocks")
    assert "noise" not in text


def test_a_run_with_sessions_to_come_needs_these(store: Store) -> None:
    text = answer(store, {"1": [0.5, 3.0, 1.0, 2.0, 0.7]}, sessions=3)
    assert text.endswith("; needs more sessions: 1 of 3 measured")


def test_known_numbers_of_blocks_are_given_beside_open_ones(store: Store) -> None:
    known, noisy = [0.70, 0.97, 0.74, 1.02, 0.90], [0.5, 3.0, 1.0, 2.0, 0.4]
    text = answer(store, {"1": known, "2": noisy, "3": noisy[::-1]})
    assert " more blocks would decide iperf3 (size=1); " in text
    assert "; noise of iperf3 (size=2) from block to block (native " in text
    assert text.endswith(" leaves open how many more blocks would decide the others")


def test_all_noisy_contrasts_leave_the_number_of_blocks_open(store: Store) -> None:
    text = answer(store, {"1": [0.5, 3.0, 1.0, 2.0, 0.4]})
    assert text.endswith(" leaves open how many more blocks would decide")
