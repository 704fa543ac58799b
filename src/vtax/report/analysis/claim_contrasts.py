"""One logarithm for every block of what a check of a claim compares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vtax.levels import PLATFORM, Levels, number_of
from vtax.messages import Note
from vtax.question import rest
from vtax.report.analysis.claim_cells import Mapped, logs_of, mean_logs, trial_logs
from vtax.report.analysis.compared import Cell
from vtax.report.analysis.values import Analysis
from vtax.stats.checks import StatsError
from vtax.stats.contrasts import Contrast, ContrastSide, paired_contrast
from vtax.stats.ranges import Sample
from vtax.stats.ratio import BlockMeans
from vtax.stats.spread import (
    BLOCKS_OF_A_SPREAD,
    spread_of_guests,
    spread_of_pairing,
    spread_over_blocks,
    spread_over_points,
)
from vtax.stats.trend import theil_sen
from vtax.store.query import Floats
from vtax.study.claims import CheckTable

Logs = dict[int, float]
"""Block -> a logarithm."""
FULL = 0.9
"""Share of a link's rate: what a TCP stream carries in packets of 1500 bytes is 0.95 of it, and 0.9 is full."""
Divisor = Callable[[Cell], Cell]


def divisor_of(entries: Sequence[Cell], check: CheckTable, mapped: Mapped) -> Divisor | None:
    """Return what finds the reference's entry at the levels of another. Raises StatsError where there is none."""
    if check.reference is None:
        return None
    name = mapped.get(check.reference, check.reference)
    place = rest(PLATFORM)
    there = {place.of(e.levels): e for e in entries if e.row.platform.name == name}

    def found(entry: Cell) -> Cell:
        key = place.of(entry.levels)
        if key not in there:
            raise StatsError(Note("no-baseline-here"))
        return there[key]

    return found


def fills_link(entry: Cell) -> bool:
    """Whether a cell sends about as much as its link carries."""
    if (
        entry.section.metric.unit != "Mbit/s"
        or entry.row.summary is None
        or not (rate := entry.link_rate)
    ):
        return False
    return entry.row.summary.mean >= FULL * rate


def samples_of(
    analysis: Analysis,
    sides: tuple[Sequence[Cell], Sequence[Cell]],
    hosts: tuple[Collection[int], Collection[int]],
    divisor: Divisor | None,
) -> tuple[Sample, Sample]:
    """Return the logarithms of both sides of a check, and the session of each: of sides that are on different hosts.

    hosts: the blocks of each side's host. Raises StatsError for a side without any.
    """
    of, to = (
        _sample(analysis, _of_blocks(_side_logs(s, divisor), b))
        for s, b in zip(sides, hosts, strict=True)
    )
    return of, to


def _sample(analysis: Analysis, logs: Logs) -> Sample:
    if not logs:
        raise StatsError(Note("no-shared-block"))
    blocks = np.array(sorted(logs), np.int64)
    return np.array([logs[block] for block in blocks.tolist()]), analysis.units_of(blocks)


def _of_blocks(logs: Logs, blocks: Collection[int] | None) -> Logs:
    return (
        logs if blocks is None else {block: log for block, log in logs.items() if block in blocks}
    )


def contrast_of(
    analysis: Analysis,
    check: CheckTable,
    sides: tuple[Sequence[Cell], Sequence[Cell]],
    keys: Sequence[Levels],
    divisor: Divisor | None,
    only: Collection[int] | None = None,
) -> Contrast:
    """One logarithm per block of what a check compares. keys: inner levels of the entries of both sides. only: blocks
    to take, those of one host; None: all."""
    of, to = sides
    if check.kind == "monotone":
        found = _slopes(check, of, to, keys, analysis.rule.confidence)
    elif check.over == "pairing":
        found = _spread_of(spread_of_pairing, mean_logs(of), mean_logs(to))
    elif check.over == "trials":
        found = _spread_of(spread_of_guests, *(trial_logs(of, number) for number in (0, 1)))
    elif check.kind == "link_rate":
        limit = float(np.mean([np.log(rate) for entry in of if (rate := entry.link_rate)]))
        found = {block: log - limit for block, log in mean_logs(of).items()}
    elif check.kind == "spread":
        found = _spread(check, of, divisor)
        if to:
            found = _difference(found, _spread(check, to, divisor))
    else:
        parts = [_of_blocks(_side_logs(side, divisor), only) for side in (of, to)]
        if not set(parts[0]) & set(parts[1]):
            raise StatsError(Note("no-shared-block"))
        means = _means(parts[0]), _means(parts[1])
        made = paired_contrast(ContrastSide(means[0]), ContrastSide(means[1]), of[0].section.better)
        return replace(
            made, sessions=_sessions(analysis, np.union1d(means[0].blocks, means[1].blocks))
        )
    blocks = np.array(sorted(found), np.int64)
    if not blocks.size:
        raise StatsError(Note("no-shared-block"))
    logs = np.array([found[block] for block in blocks.tolist()])
    return Contrast(logs, of[0].section.better, sessions=_sessions(analysis, blocks))


def _sessions(analysis: Analysis, blocks: Any) -> Any:
    return analysis.units_of(blocks) if len(analysis.sessions) > 1 else None


def _side_logs(entries: Sequence[Cell], divisor: Divisor | None) -> Logs:
    own = mean_logs(entries)
    return (
        own
        if divisor is None
        else _difference(own, mean_logs([divisor(entry) for entry in entries]))
    )


def _difference(left: Logs, right: Logs) -> Logs:
    return {block: left[block] - right[block] for block in left if block in right}


def _means(logs: Logs) -> BlockMeans:
    blocks = sorted(logs)
    return BlockMeans(
        np.array(blocks, np.int64), np.exp(np.array([logs[block] for block in blocks]))
    )


def _slopes(
    check: CheckTable,
    of: Sequence[Cell],
    to: Sequence[Cell],
    keys: Sequence[Levels],
    confidence: float,
) -> Logs:
    """Block -> Theil and Sen's slope of the logarithm, by doublings of the factor; over points with the same level
    the logarithms are averaged."""
    assert check.along is not None
    by_level: dict[float, list[int]] = {}
    for place, key in enumerate(keys):
        if (number := number_of(key[check.along])) is not None and number > 0:
            by_level.setdefault(number, []).append(place)
    if len(by_level) < 2:
        raise StatsError(Note("one-level"))
    lines = []
    for number in sorted(by_level):
        places = by_level[number]
        logs = mean_logs([of[place] for place in places])
        lines.append(_difference(logs, mean_logs([to[place] for place in places])) if to else logs)
    x = np.log2(np.array(sorted(by_level)))
    shared = set.intersection(*(set(line) for line in lines))
    return {
        b: theil_sen(x, np.array([line[b] for line in lines]), confidence).estimate for b in shared
    }


def _spread_of(spread: Callable[[Floats, Floats], Floats], left: Logs, right: Logs) -> Logs:
    """Every second block -> a logarithm of the spreads of two series, of the blocks that both have."""
    shared = sorted(set(left) & set(right))
    values = (np.array([logs[block] for block in shared]) for logs in (left, right))
    return dict(zip(shared[::BLOCKS_OF_A_SPREAD], spread(*values).tolist(), strict=False))


def _spread(check: CheckTable, entries: Sequence[Cell], divisor: Divisor | None) -> Logs:
    """Block -> the logarithm of a spread; over blocks, of every two the first."""
    if check.over == "blocks":
        logs = _side_logs(entries, divisor)
        own = sorted(logs)
        found = spread_over_blocks(np.array([logs[b] for b in own])).tolist()
        return dict(zip(own[::BLOCKS_OF_A_SPREAD], found, strict=False))
    blocks, values = logs_of(entries)
    if divisor is not None:
        others, divided = logs_of([divisor(entry) for entry in entries])
        _, left, right = np.intersect1d(blocks, others, return_indices=True)
        blocks, values = blocks[left], values[:, left] - divided[:, right]
    spreads = spread_over_points(values)
    return {b: s for b, s in zip(blocks.tolist(), spreads.tolist(), strict=True) if s == s}
