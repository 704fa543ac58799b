"""Percentiles of a block: those of all requests of its trials together, and whether these are enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtax.benchmarks.base import Tail
from vtax.benchmarks.histograms import count_requests, is_histogram, merge_histograms, percentile
from vtax.benchmarks.registry import find_benchmark
from vtax.messages import Note
from vtax.observations import Observations
from vtax.store.query import Ints

BEYOND = 10.0
"""Requests of a block that are to be beyond a percentile; with fewer it is next to a maximum."""
Histograms = Mapping[int, Mapping[str, Sequence[float]]]


def tail_of(benchmark: str, metric: str) -> Tail | None:
    """Return the percentile that a metric is, as its benchmark declares it; None of any other metric."""
    declared = find_benchmark(benchmark)
    tails = (
        [candidate.tail for candidate in declared.metrics if candidate.name == metric]
        if declared
        else []
    )
    return tails[0] if tails else None


def pooled_values(
    tail: Tail, blocks: Ints, observations: Observations, histograms: Histograms
) -> list[float] | Note | None:
    """Return the percentile of all requests of each block, or why there is no answer: they are too few.

    None where the figures of the tool stay: a trial has no histogram, or the tool tells of a trial no more than the
    number of requests. Then that is to suffice in every trial.

    tail: the percentile.
    blocks: those with values.
    observations: every value.
    histograms: id of a trial -> name -> histogram.
    """
    trial_histograms = [
        histograms.get(trial, {}).get(tail.histogram) for trial in observations.trial.tolist()
    ]
    usable = [histogram for histogram in trial_histograms if histogram and is_histogram(histogram)]
    if len(usable) < len(trial_histograms):
        return None
    of_blocks = [
        [histogram for histogram, of in zip(usable, observations.block, strict=True) if of == block]
        for block in blocks
    ]
    wholes = [merge_histograms(histograms_of_block) for histograms_of_block in of_blocks]
    has_values = all(len(block_histogram) > 1 for block_histogram in wholes)
    fewest = min(map(count_requests, wholes if has_values else usable))
    needed = round(BEYOND / (1 - tail.share))
    if fewest < needed:
        return Note("few-requests", requests=int(fewest), needed=needed)
    if not has_values or all(len(histograms_of_block) == 1 for histograms_of_block in of_blocks):
        return None
    values = [percentile(block_histogram, tail.share) for block_histogram in wholes]
    return [value for value in values if value is not None]
