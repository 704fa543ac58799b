"""Histograms of the requests of a trial: values and how often each came, in turn, by value.

A list of one number is a number of requests of which no more is known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

Histogram = Sequence[float]
_BIN_SHARE = 0.01
"""Width of a bin, as a share of its lower edge."""
_MOST_BINS = 500
"""Bins between two values that a tool prints."""


def from_counts(counts: Mapping[float, float]) -> list[float]:
    """Return the histogram of values that came so often. counts: value -> how often."""
    histogram: list[float] = []
    for value, count in sorted(counts.items()):
        if count:
            histogram += [float(value), float(count)]
    return histogram


def from_cumulated(counts: Mapping[float, int]) -> list[float]:
    """Return the histogram of cumulated counts: value -> how many requests took at most that.

    Between two of these values requests are spread evenly, over bins of at most 1 % of the lower one.
    """
    bins: dict[float, float] = {}
    lower_edge, cumulated = 0.0, 0
    for value, count in sorted(counts.items()):
        new = count - cumulated
        if new > 0:
            parts = 1
            if lower_edge > 0:
                parts = math.ceil((value / lower_edge - 1) / _BIN_SHARE)
            parts = min(parts, new, _MOST_BINS)
            spread = 0
            for part in range(1, parts + 1):
                edge = lower_edge + (value - lower_edge) * part / parts
                at_most = round(new * part / parts)
                bins[edge if part < parts else value] = at_most - spread
                spread = at_most
        lower_edge, cumulated = value, max(cumulated, count)
    return from_counts(bins)


def is_histogram(numbers: Histogram) -> bool:
    """Return whether numbers that were stored are a histogram."""
    return len(numbers) == 1 or (bool(numbers) and len(numbers) % 2 == 0 and min(numbers[1::2]) > 0)


def count_requests(histogram: Histogram) -> float:
    """Return the number of requests in a histogram."""
    return histogram[0] if len(histogram) == 1 else sum(histogram[1::2])


def merge_histograms(histograms: Sequence[Histogram]) -> list[float]:
    """Return the histogram of the requests of several histograms."""
    if any(len(histogram) == 1 for histogram in histograms):
        return [sum(map(count_requests, histograms))]
    counts: Counter[float] = Counter()
    for histogram in histograms:
        for value, count in zip(histogram[::2], histogram[1::2], strict=True):
            counts[value] += count  # type: ignore[assignment]
    return from_counts(counts)


def merge_by_name(outcomes: Sequence[Mapping[str, Histogram]]) -> dict[str, list[float]]:
    """Return the merged histograms of outcomes that ran at once, by name; of names that all of them have."""
    histogram_by_name = {}
    for name in outcomes[0] if outcomes else ():
        if all(name in histograms for histograms in outcomes):
            histogram_by_name[name] = merge_histograms(
                [histograms[name] for histograms in outcomes]
            )
    return histogram_by_name


def percentile(histogram: Histogram, share: float) -> float | None:
    """Return the smallest value that a share of the requests does not exceed; None where only their number is known."""
    if len(histogram) < 2:
        return None
    rank, count = share * count_requests(histogram), 0.0
    for value, number in zip(histogram[::2], histogram[1::2], strict=True):
        count += number
        if count >= rank * (1 - 1e-12):
            return value
    return histogram[-2]
