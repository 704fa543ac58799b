"""Percentiles of a block: those of all requests of its trials together, and whether these are enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vtax.benchmarks.base import Tail
from vtax.benchmarks.histograms import count_requests, is_histogram, merge_histograms, percentile
from vtax.benchmarks.registry import benchmarks
from vtax.messages import Note
from vtax.report.analysis.values import Ints, Row
from vtax.stats.describe import describe_blocks

BEYOND = 10.0
"""Requests of a block that are to be beyond a percentile; with fewer it is next to a maximum."""
Histograms = Mapping[int, Mapping[str, Sequence[float]]]


def tail_of(benchmark: str, metric: str) -> Tail | None:
    """Return the percentile that a metric is, as its benchmark declares it; None of any other metric."""
    known = benchmarks().get(benchmark)
    found = [each.tail for each in known.metrics if each.name == metric] if known else []
    return found[0] if found else None


def pooled(row: Row, tail: Tail, blocks: Ints, trials: Ints, histograms: Histograms) -> Row:
    """Return the row of a percentile with that of all requests of each block, or without an answer where they are too
    few.

    blocks, trials: of every value of the row; trials by id. A row stays as it is where a trial has no histogram, and
    where its tool tells of a trial no more than the number of requests: then that is to suffice in every trial.
    """
    found = [histograms.get(int(trial), {}).get(tail.histogram) for trial in trials]
    known = [one for one in found if one and is_histogram(one)]
    if row.summary is None or len(known) < len(found):
        return row
    of_blocks = [
        [one for one, of in zip(known, blocks, strict=True) if of == block] for block in row.blocks
    ]
    wholes = [merge_histograms(each) for each in of_blocks]
    has_values = all(len(whole) > 1 for whole in wholes)
    fewest = min(map(count_requests, wholes if has_values else known))
    needed = round(BEYOND / (1 - tail.share))
    if fewest < needed:
        note = Note("few-requests", requests=int(fewest), needed=needed)
        return replace(row, reason=note, is_withheld=True)
    if not has_values or all(len(each) == 1 for each in of_blocks):
        return row  # the tool's own figures
    values = [value for whole in wholes if (value := percentile(whole, tail.share)) is not None]
    summary, labels, means, medians, _ = describe_blocks(
        values, row.summary.confidence, blocks=row.blocks
    )
    return replace(
        row,
        summary=replace(summary, n=row.summary.n),
        blocks=labels,
        block_means=means,
        block_medians=medians,
    )
