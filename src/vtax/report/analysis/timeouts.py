"""Trials of fixed work that the timeout ended: what they bound, from the durations of a cell's and the baseline's."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from vtax.grouping import by_key
from vtax.messages import part_of
from vtax.stats.censoring import Timeouts, slower_at_least
from vtax.stats.ratio import BlockMeans
from vtax.stats.rules import Rule
from vtax.store.query import RunData


def timeouts_of(data: RunData, rule: Rule) -> dict[int, Timeouts]:
    """Cell index -> what its time-outs say, of every cell that has some; the bounds hold together (Bonferroni).

    The work of its trials must be fixed, which the caller knows. There is no bound where the baseline timed out too.
    """
    ended = _timed_out(data)
    cells = [cell for cell in ended if not data.run.platforms[_platform(data, cell)].is_baseline]
    timeouts = {}
    for cell in cells:
        base = _baseline_of(data, cell)
        times, blocks = 0.0, int(np.unique(data.trials.block[data.trials.cell == cell]).size)
        level = 1 - (1 - rule.interval_confidence(blocks)) / len(cells)
        if base is not None and base not in ended:
            times = slower_at_least(
                _durations(data, cell, ended[cell]), _durations(data, base, {}), level
            )
        trial_count = int((~data.trials.is_warmup & (data.trials.cell == cell)).sum())
        timeouts[cell] = Timeouts(len(ended[cell]), trial_count, max(ended[cell].values()), times)
    return timeouts


def _timed_out(data: RunData) -> dict[int, dict[tuple[int, int], float]]:
    """Cell index -> (block, number) of its trials that timed out -> after how many seconds."""
    seconds_by_trial: dict[int, dict[tuple[int, int], float]] = {}
    for failure in data.failures:
        killed = part_of(failure.error, "killed-after")
        limit = killed.data["limit"] if killed and not failure.is_warmup else None
        if isinstance(limit, int | float) and 0 < limit < math.inf:
            seconds_by_trial.setdefault(failure.cell, {})[failure.block, failure.number] = float(
                limit
            )
    return seconds_by_trial


def _platform(data: RunData, cell: int) -> int:
    return next(
        n for n, p in enumerate(data.run.platforms) if p.name == data.run.cells[cell].platform
    )


def _baseline_of(data: RunData, cell: int) -> int | None:
    """Return the index of the same point's cell on the baseline."""
    names = {platform.name for platform in data.run.platforms if platform.is_baseline}
    cell_record = data.run.cells[cell]
    candidates = (
        index
        for index, candidate in enumerate(data.run.cells)
        if (candidate.label, candidate.point) == (cell_record.label, cell_record.point)
        and candidate.platform in names
    )
    return next(candidates, None)


def _durations(data: RunData, cell: int, ended: dict[tuple[int, int], float]) -> BlockMeans:
    """Mean duration of a cell's trials by block: as measured, or as long as one that timed out was given."""
    blocks = by_key(_trials_of(data, cell, ended))
    blocks_known = sorted(blocks)
    return BlockMeans(
        np.array(blocks_known, dtype=np.int64),
        np.array([np.mean(blocks[block]) for block in blocks_known]),
    )


def _trials_of(
    data: RunData, cell: int, ended: dict[tuple[int, int], float]
) -> Iterator[tuple[int, float]]:
    trials = data.trials
    for place in np.flatnonzero((trials.cell == cell) & ~trials.is_warmup).tolist():
        block, number, seconds = (
            int(trials.block[place]),
            int(trials.number[place]),
            float(trials.outside_s[place]),
        )
        if (block, number) in ended:
            yield block, ended[block, number]
        elif trials.is_ok[place] and seconds == seconds:
            yield block, seconds
