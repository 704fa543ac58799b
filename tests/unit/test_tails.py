"""Percentiles of a block: of all its requests, and no ratio where these are too few. Figures are invented."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from a_run import a_run

from vtax.benchmarks.histograms import (
    count_requests,
    from_counts,
    from_cumulated,
    is_histogram,
    merge_by_name,
    merge_histograms,
    percentile,
)
from vtax.report.analysis import Analysis, Row
from vtax.store.records import HISTOGRAMS, CellRecord, MetricRecord
from vtax.store.store import Store

BLOCKS = 6
METRICS = (
    MetricRecord("nginx", "requests", "requests", "requests/s", "higher", True),
    MetricRecord("nginx", "latency_p95", "95th percentile", "ms", "lower", False),
    MetricRecord("nginx", "latency_p99", "99th percentile", "ms", "lower", False),
)


def test_histograms_are_added_by_value_and_numbers_alone_as_numbers():
    one, other = from_counts({2.0: 1, 1.0: 3}), from_counts({2.0: 5, 9.0: 1})
    assert one == [1.0, 3.0, 2.0, 1.0]
    assert merge_histograms([one, other]) == [1.0, 3.0, 2.0, 6.0, 9.0, 1.0]
    assert merge_histograms([one, [7.0]]) == [11.0]
    assert count_requests(other) == 6
    assert [is_histogram(each) for each in ([], [7.0], one, [1.0, 2.0, 3.0], [1.0, -2.0])] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert merge_by_name([{"a": one, "b": one}, {"a": [1.0]}]) == {"a": [5.0]}


def test_cumulated_counts_are_spread_evenly_between_their_values():
    counted = from_cumulated({1.0: 10, 2.0: 110, 1.5: 60, 9.0: 110})
    assert count_requests(counted) == 110
    assert [percentile(counted, share) for share in (10 / 110, 60 / 110, 1.0)] == [1.0, 1.5, 2.0]
    assert percentile(counted, 35 / 110) == pytest.approx(1.25)
    assert max(high / low for low, high in pairwise(counted[::2])) <= 1.0101


@pytest.mark.parametrize(
    ("share", "value"),
    [(0.5, 1.0), (0.9, 1.0), (0.901, 5.0), (0.99, 5.0), (0.991, 8.0), (1.0, 8.0)],
)
def test_a_percentile_is_the_value_that_its_share_does_not_exceed(share, value):
    assert percentile(from_counts({1.0: 900, 5.0: 90, 8.0: 10}), share) == value
    assert percentile([1000.0], share) is None


def analysed(directory: Path, slow: list[int], *, number: int = 600) -> Analysis:
    """Two trials a block of native and docker. slow: requests of 9 ms in each of docker; others take 1 ms."""

    def requests_of(cell: CellRecord, block: int, which: int) -> dict[str, Any]:
        many = slow[which] if cell.platform == "docker" else 30
        counts = from_counts({1.0: number - many, 9.0: many})
        found = {f"latency_p{p}": percentile(counts, p / 100) or 0.0 for p in (95, 99)}
        return {
            "values": {"requests": 100.0 + block, **found},
            "effective": {HISTOGRAMS: {"latency": counts}},
        }

    run = a_run("tails-1").platforms("native", "docker").benchmark("nginx").metrics(METRICS)
    with Store.open(f"sqlite:///{directory / 'store.sqlite'}") as store:
        return run.blocks(BLOCKS, len(slow)).trials(requests_of).analysed(store)


def row(analysis: Analysis, metric: str, platform: str = "docker") -> Row:
    section = next(each for each in analysis.sections if each.metric.name == metric)
    return next(each for each in section.points[0].rows if each.platform.name == platform)


def test_the_percentile_of_a_block_is_that_of_all_its_requests_and_no_mean_of_percentiles(tmp_path):
    found = row(
        analysed(tmp_path, [0, 60]), "latency_p95"
    )  # 1 and 9 ms, a mean of 5; 60 of 1200 are slow
    assert found.block_means.tolist() == [1.0] * BLOCKS
    assert found.summary.n == 2 * BLOCKS
    assert found.ratio.estimate == pytest.approx(1.0)


def test_a_percentile_of_too_few_requests_has_no_ratio_and_says_how_many_it_needs(tmp_path):
    analysis = analysed(tmp_path, [30, 30], number=450)
    assert row(analysis, "latency_p95").ratio is not None  # 900 of 200
    found = row(analysis, "latency_p99")
    assert (found.ratio, found.verdict) == (None, None)
    assert found.reason.code == "few-requests"
    assert dict(found.reason.data) == {"requests": 900, "needed": 1000}
    assert row(analysis, "requests").ratio is not None
