"""The work of a trial that its counters are divided by: gigabytes, events, operations, the trial, or seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from vtax.benchmarks.base import Operations
from vtax.benchmarks.registry import find_benchmark
from vtax.counters import table
from vtax.counters.table import LINK
from vtax.foreign_data import parse_json
from vtax.report.analysis.values import Row, Section
from vtax.store.query import Floats, Ints, RunData
from vtax.store.records import MetricRecord

_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9, "min": 60.0}
_BYTES = {"bit": 1 / 8, "B": 1.0}
_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_DATA = re.compile(r"([kKMGT]i?|)(bit|B)")
_WHOLE = 0.5  # of a trial's duration: a time that is more of it is the time of the whole work
GIGABYTE, SECOND, TRIAL = "GB", "s", "trial"
_LEAST_BYTES = 1e6  # of a trial; less is no traffic to divide by
OPERATION = "operation"  # of a rate in 1/s
_RATES = {"IOPS": "I/O/s"}  # units of a rate without a slash

Side = Mapping[tuple[str, str], tuple[Ints, Floats, float]]
"""(place, name) -> blocks, mean of a trial in each, trials per block: the counters of one cell."""


def operations_of(metric: MetricRecord) -> Operations | None:
    """Return the operation that a metric is the time of, as its benchmark declares it; None without one."""
    benchmark = find_benchmark(metric.benchmark)
    operations = (
        [candidate.time_of for candidate in benchmark.metrics if candidate.name == metric.name]
        if benchmark
        else []
    )
    return operations[0] if operations else None


def work_of(
    data: RunData,
    section: Section,
    rows: tuple[Row, Row],
    cells: tuple[int, int],
    sides: Sequence[Side],
    blocks: Ints,
    settings: Mapping[int, str],
) -> tuple[str, list[Floats]]:
    """Return the unit that fits a metric, and the work of both cells in it: a mean per trial, for every block.

    Where the guests under test moved data over the lab, gigabytes of it. Of the time of one operation, the
    operations of a trial: those of its effective settings where the benchmark declares them, else its duration over
    that time. Of a rate what it counts, times the duration of a trial. Of a time that is most of the trial, the
    trial. Else seconds.

    data: of the run.
    section: of the metric.
    rows, cells, sides: both cells, their indices in the run, and their counters.
    blocks: that both have.
    settings: as store.query.effective has them.
    """
    moved_bytes = [side.get((LINK, table.UNDER_TEST_BYTES.name)) for side in sides]
    if all(side is not None for side in moved_bytes):
        gigabytes = [per_block(side, blocks) / 1e9 for side in moved_bytes if side is not None]
        if all((work > _LEAST_BYTES / 1e9).all() for work in gigabytes):
            return GIGABYTE, gigabytes
    operations = operations_of(section.metric)
    if operations:
        numbers = [
            per_block(_operations(data, cell, operations.setting, settings), blocks)
            for cell in cells
        ]
        if all(
            (number > 0).all() for number in numbers
        ):  # not where a setting is missing, which is NaN
            return operations.unit, numbers
    seconds = [durations(data, cell) for cell in cells]
    times = [per_block(side, blocks) for side in seconds]
    values = [per_block(_means(row.trial_blocks, row.trial_values), blocks) for row in rows]
    counted_unit, _, divisor_unit = _RATES.get(section.metric.unit, section.metric.unit).rpartition(
        "/"
    )
    counted_unit, divisor_unit = (
        (counted_unit, divisor_unit) if counted_unit else (divisor_unit, "")
    )
    if divisor_unit == "s":
        data_unit = _DATA.fullmatch(counted_unit)
        if data_unit:
            scale = {**_DECIMAL, **_BINARY}[data_unit[1]] * _BYTES[data_unit[2]] / 1e9
            return GIGABYTE, [v * t * scale for v, t in zip(values, times, strict=True)]
        return (counted_unit if counted_unit != "1" else OPERATION), [
            v * t for v, t in zip(values, times, strict=True)
        ]
    if counted_unit in _SECONDS and divisor_unit:
        return divisor_unit, [
            t / (v * _SECONDS[counted_unit]) for v, t in zip(values, times, strict=True)
        ]
    if counted_unit in _SECONDS and all(
        (v * _SECONDS[counted_unit] > _WHOLE * t).all() for v, t in zip(values, times, strict=True)
    ):
        return TRIAL, [np.ones(blocks.size)] * 2
    return SECOND, times


def per_block(side: tuple[Ints, Floats, float], blocks: Ints) -> Floats:
    """Means of these blocks; NaN where a block has none."""
    have, means, _ = side
    block_means = np.full(blocks.size, np.nan)
    _, at, places = np.intersect1d(blocks, have, return_indices=True)
    block_means[at] = means[places]
    return block_means


def durations(data: RunData, cell: int) -> tuple[Ints, Floats, float]:
    """Return seconds of the trials of a cell that went well, by block; warm-up is left out."""
    trials = data.trials
    used_trials = (trials.cell == cell) & trials.is_ok & ~trials.is_warmup
    return _means(trials.block[used_trials], trials.outside_s[used_trials])


def _operations(
    data: RunData, cell: int, setting: str, settings: Mapping[int, str]
) -> tuple[Ints, Floats, float]:
    """Return the number in an effective setting, by block; NaN of a trial without it."""
    trials = data.trials
    used_trials = np.flatnonzero((trials.cell == cell) & trials.is_ok & ~trials.is_warmup)
    settings_of_trials = [
        parse_json(settings.get(int(trials.id[trial]), "{}")).get(setting) for trial in used_trials
    ]
    numbers = [
        float(value) if isinstance(value, int | float) else np.nan for value in settings_of_trials
    ]
    return _means(trials.block[used_trials], np.array(numbers, np.float64))


def _means(blocks: Ints, values: Floats) -> tuple[Ints, Floats, float]:
    names, index = np.unique(blocks, return_inverse=True)
    counts = np.bincount(index, minlength=names.size)
    return (
        names,
        np.bincount(index, values, minlength=names.size) / np.maximum(counts, 1),
        float(values.size),
    )
