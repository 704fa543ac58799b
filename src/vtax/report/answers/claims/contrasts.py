"""One logarithm for every block of what a check of a claim compares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from vtax.levels import PLATFORM, Levels, number_of
from vtax.messages import Note
from vtax.pairing import Logs, align, mean_logs, pair
from vtax.question import rest
from vtax.report.analysis.claim_cells import Mapped, means_of, trial_logs
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
from vtax.store.query import Floats, Ints
from vtax.study.claims import CheckTable

FULL = 0.9
"""Share of a link's rate: what a TCP stream carries in packets of 1500 bytes is 0.95 of it, and 0.9 is full."""
Divisor = Callable[[Cell], Cell]


def divisor_of(entries: Sequence[Cell], check: CheckTable, mapped: Mapped) -> Divisor | None:
    """Return what finds the reference's entry at the levels of another. Raises StatsError where there is none."""
    if check.reference is None:
        return None
    name = mapped.get(check.reference, check.reference)
    place = rest(PLATFORM)
    references = {place.of(e.levels): e for e in entries if e.row.platform.name == name}

    def found(entry: Cell) -> Cell:
        key = place.of(entry.levels)
        if key not in references:
            raise StatsError(Note("no-baseline-here"))
        return references[key]

    return found


def fills_link(entry: Cell) -> bool:
    """Whether a cell sends about as much as its link carries."""
    summary, rate = entry.row.summary, entry.link_rate
    if entry.section.metric.unit != "Mbit/s" or summary is None or not rate:
        return False
    return summary.mean >= FULL * rate


def samples_of(
    analysis: Analysis,
    sides: tuple[Sequence[Cell], Sequence[Cell]],
    hosts: tuple[Collection[int], Collection[int]],
    divisor: Divisor | None,
) -> tuple[Sample, Sample]:
    """Return the logarithms of both sides of a check, and the session of each: of sides that are on different hosts.

    hosts: the blocks of each side's host. Raises StatsError for a side without any.
    """
    logs = [_side_logs(s, divisor).only(b) for s, b in zip(sides, hosts, strict=True)]
    of, to = ((_some(side_logs).values, analysis.units_of(side_logs.units)) for side_logs in logs)
    return of, to


def _some(logs: Logs) -> Logs:
    """Return the logarithms. Raises StatsError without any."""
    if not logs:
        raise StatsError(Note("no-shared-block"))
    return logs


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
        logs = _slopes(check, of, to, keys, analysis.rule.confidence)
    elif check.over == "pairing":
        logs = _spread_of(spread_of_pairing, mean_logs(means_of(of)), mean_logs(means_of(to)))
    elif check.over == "trials":
        logs = _spread_of(spread_of_guests, *(trial_logs(of, number) for number in (0, 1)))
    elif check.kind == "link_rate":
        rates = [entry.link_rate for entry in of if entry.link_rate]
        limit = float(np.mean(np.log(rates)))
        side_logs = mean_logs(means_of(of))
        logs = Logs(side_logs.units, side_logs.values - limit)
    elif check.kind == "spread":
        logs = _spread(check, of, divisor)
        if to:
            logs = logs - _spread(check, to, divisor)
    else:
        parts = [_side_logs(side, divisor) for side in (of, to)]
        if only is not None:
            parts = [part.only(only) for part in parts]
        _some(pair(parts[0], parts[1])[0])
        means = [BlockMeans(part.units, np.exp(part.values)) for part in parts]
        contrast = paired_contrast(
            ContrastSide(means[0]), ContrastSide(means[1]), of[0].section.better
        )
        return replace(
            contrast, sessions=_sessions(analysis, np.union1d(means[0].blocks, means[1].blocks))
        )
    logs = _some(logs)
    sessions = _sessions(analysis, logs.units)
    return Contrast(logs.values, of[0].section.better, sessions=sessions)


def _sessions(analysis: Analysis, blocks: Any) -> Any:
    return analysis.units_of(blocks) if len(analysis.sessions) > 1 else None


def _side_logs(entries: Sequence[Cell], divisor: Divisor | None) -> Logs:
    own = mean_logs(means_of(entries))
    return own if divisor is None else own - mean_logs(means_of(map(divisor, entries)))


def _slopes(
    check: CheckTable,
    of: Sequence[Cell],
    to: Sequence[Cell],
    keys: Sequence[Levels],
    confidence: float,
) -> Logs:
    """Return Theil and Sen's slope of the logarithm, by doublings of the factor; over points with the same level the
    logarithms are averaged."""
    assert check.along is not None
    by_level: dict[float, list[int]] = {}
    for place, key in enumerate(keys):
        number = number_of(key[check.along])
        if number is not None and number > 0:
            by_level.setdefault(number, []).append(place)
    if len(by_level) < 2:
        raise StatsError(Note("one-level"))
    lines = []
    for number in sorted(by_level):
        places = by_level[number]
        logs = mean_logs(means_of(of[place] for place in places))
        lines.append(logs - mean_logs(means_of(to[place] for place in places)) if to else logs)
    x = np.log2(np.array(sorted(by_level)))
    shared = reduce(lambda line, other: pair(line, other)[0], lines).units
    values = np.array([line.only(shared.tolist()).values for line in lines])
    slopes = [theil_sen(x, of_block, confidence).estimate for of_block in values.T]
    return Logs(shared, np.array(slopes))


def _spread_of(spread: Callable[[Floats, Floats], Floats], left: Logs, right: Logs) -> Logs:
    """Return a logarithm of the spreads of two series for every second of the blocks that both have."""
    left, right = pair(left, right)
    return _of_pairs(left.units, spread(left.values, right.values))


def _of_pairs(blocks: Ints, spreads: Floats) -> Logs:
    """Return a spread of every two blocks at the first of them."""
    return Logs(blocks[::BLOCKS_OF_A_SPREAD][: spreads.size], spreads)


def _spread(check: CheckTable, entries: Sequence[Cell], divisor: Divisor | None) -> Logs:
    """Return the logarithm of a spread of every block; over blocks, at the first of every two."""
    if check.over == "blocks":
        logs = _side_logs(entries, divisor)
        return _of_pairs(logs.units, spread_over_blocks(logs.values))
    blocks, values = align(means_of(entries))
    if divisor is not None:
        units_of_reference, divided = align(means_of(map(divisor, entries)))
        _, left, right = np.intersect1d(blocks, units_of_reference, return_indices=True)
        blocks, values = blocks[left], values[:, left] - divided[:, right]
    return Logs(blocks, spread_over_points(values)).known()
