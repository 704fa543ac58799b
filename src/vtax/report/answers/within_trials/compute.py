"""Courses of trials: a metric by the time since measuring began, and the latencies of all requests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vtax.benchmarks.base import INTERVAL_S
from vtax.benchmarks.histograms import is_histogram, merge_histograms
from vtax.foreign_data import parse_json
from vtax.report import document as doc
from vtax.report.analysis.source import Source
from vtax.report.analysis.tails import BEYOND
from vtax.report.analysis.values import ResultPoint, Row, bounded
from vtax.stats.checks import StatsError
from vtax.stats.intervals import mean_interval
from vtax.stats.means import block_means
from vtax.store.query import Ints

_MOST_TIMES = 60  # of a course; neighbours of more are averaged
_A_DECADE, _MOST_SHARES = 10, 60  # shares for each decade of requests beyond them, and of a course
_LARGEST_LOG = 690.0  # of a number that is drawn
_LENGTHS_S = 1e-3, 86400.0  # shortest and longest interval


@dataclass(frozen=True)
class Course:
    """Means over blocks of a cell. values: x -> mean with its interval; the functions below define x."""

    row: Row
    values: Mapping[float, doc.Bounded]


def over_time(point: ResultPoint, metric: str, source: Source) -> list[Course]:
    """Return the course of every platform. x: seconds from the start of measuring to the middle of an interval.

    A course ends where the shortest trial does. A cell has none whose trials have no samples of equal intervals.
    """
    courses: list[Course] = []
    for row in point.rows if source.samples else ():
        trials = trials_of(row, source)
        samples = [source.samples.get(trial, {}).get(metric, ()) for trial in trials]
        numbers = [n for n, trial in enumerate(samples) if len(trial) > 1]
        lengths = [
            parse_json(source.effective.get(trials[n], "{}")).get(INTERVAL_S) for n in numbers
        ]
        length_s = lengths[0] if lengths and lengths.count(lengths[0]) == len(lengths) else None
        if isinstance(length_s, int | float) and _LENGTHS_S[0] <= length_s <= _LENGTHS_S[1]:
            values, step = _condensed([samples[n] for n in numbers])
            times = np.asarray((np.arange(values.shape[1]) + 0.5) * step * length_s, np.float64)
            courses.append(_course(row, times, values, row.trial_blocks[numbers], source))
    return [course for course in courses if course.values]


def over_shares(point: ResultPoint, histogram: str, source: Source) -> list[Course]:
    """Return the latencies of all requests of a block, of every platform whose tool counts each.

    x: 1 / (1 - share) of the share of requests that are not slower: 2 is the median, 100 the 99th percentile. At the
    last share BEYOND requests of every block are slower, or a few more. Means are geometric, as latencies are skewed.
    """
    courses = []
    for row in point.rows:
        histograms = [
            source.data.histograms.get(trial, {}).get(histogram, ())
            for trial in trials_of(row, source)
        ]
        if histograms and all(
            len(trial_histogram) > 1 and is_histogram(trial_histogram)
            for trial_histogram in histograms
        ):
            blocks = np.unique(row.trial_blocks)
            wholes = [
                merge_histograms(
                    [
                        trial_histogram
                        for trial_histogram, of in zip(histograms, row.trial_blocks, strict=True)
                        if of == block
                    ]
                )
                for block in blocks
            ]
            x = 10 ** (np.arange(1, _MOST_SHARES + 1) / _A_DECADE)
            x = x[
                x
                <= min(sum(block_histogram[1::2]) for block_histogram in wholes)
                / BEYOND
                * (1 + 1e-9)
            ]
            values = np.array([_at(block_histogram, 1 - 1 / x) for block_histogram in wholes])
            if (values > 0).all():
                course = _course(row, x, np.log(values), blocks, source)
                bounds = {
                    place: tuple(map(_exp, bounded)) for place, bounded in course.values.items()
                }
                courses.append(Course(row, bounds))  # type: ignore[arg-type]
    return [course for course in courses if len(course.values) > 1]


def _exp(logarithm: float | None) -> float | None:
    return None if logarithm is None else math.exp(min(logarithm, _LARGEST_LOG))


def trials_of(row: Row, source: Source) -> list[int]:
    """Return the ids of the trials of a row; none where the run is not as stored."""
    trial_ids = [
        source.trials_by_position.get(position) for position in row.trial_positions.tolist()
    ]
    return (
        [trial_id for trial_id in trial_ids if trial_id is not None]
        if None not in trial_ids
        else []
    )


def _condensed(samples: Sequence[Sequence[float]]) -> tuple[NDArray[np.float64], int]:
    """Return (a row for every trial, as long as the shortest, how many neighbours are averaged where that is too
    long)."""
    shortest = min(map(len, samples))
    step = math.ceil(shortest / _MOST_TIMES)
    values = np.array([trial[: shortest // step * step] for trial in samples], np.float64)
    with np.errstate(over="ignore"):
        return values.reshape(len(samples), -1, step).mean(axis=2), step


def _course(
    row: Row, x: NDArray[np.float64], values: NDArray[np.float64], blocks: Ints, source: Source
) -> Course:
    confidence = source.analysis.rule.confidence
    intervals: dict[float, doc.Bounded] = {}
    for number, place in enumerate(x.tolist()):
        with suppress(StatsError):  # too large to compute with
            _, means = block_means(blocks, values[:, number])
            mean = bounded(mean_interval(means, confidence))
            intervals[place] = mean.value, mean.low, mean.high
    return Course(row, intervals)


def _at(histogram: Sequence[float], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """As histograms.percentile, of many shares."""
    with np.errstate(over="ignore"):
        counts = np.cumsum(histogram[1::2])
    places = np.searchsorted(counts, shares * counts[-1] * (1 - 1e-12))
    return np.asarray(np.asarray(histogram[::2])[np.minimum(places, counts.size - 1)], np.float64)
