"""Times of a stored run: the start of guests, warm-up, and trials."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vtax.store.query import RunData


@dataclass(frozen=True)
class Cost:
    """Times of a cell, seconds.

    block_s: its share of its guest's start, and its warm-up. trial_s: of one trial.
    """

    block_s: float
    trial_s: float


@dataclass(frozen=True)
class StoredCosts:
    """Times of cells in a stored run. source: `run NAME`. of_cells: cell key -> cost."""

    source: str
    of_cells: Mapping[str, Cost]


def costs(data: RunData, *, own_time: bool = False) -> dict[str, Cost]:
    """Return what each cell costs, by its key. A guest's start is shared evenly by the cells it serves.

    Of trials that went well; warm-up trials stand for measured ones where there are none. own_time: count the run's
    own time as well, between trials and from the last trial of a guest to the first one of the next.
    """
    trials, cells = data.trials, data.run.cells
    has_duration = trials.is_ok & ~np.isnan(trials.outside_s)
    is_measured = has_duration & ~trials.is_warmup
    is_counted = is_measured if is_measured.any() else has_duration
    warm = trials.is_warmup & (trials.block >= 0)
    warmups = _per_block(trials.cell[warm], trials.block[warm])
    between_trials_s, between_guests_s = _gaps(data) if own_time else (0.0, {})
    guest_s = _guest_s(data, between_guests_s)
    outside_s = trials.outside_s[is_counted]
    cell_costs = {}
    for index, part in groups(trials.cell[is_counted]):
        trial_s = float(np.median(outside_s[part])) + between_trials_s
        start_s = guest_s.get(cells[index].platform, 0.0)
        cell_costs[cells[index].key] = Cost(start_s + warmups.get(index, 0.0) * trial_s, trial_s)
    return cell_costs


def guests_s(data: RunData) -> dict[str, float]:
    """Return the seconds that guests of each platform take to start and stop in a block, the run's own time between
    them too."""
    cells = Counter(cell.platform for cell in data.run.cells)
    _, between_guests_s = _gaps(data)
    cell_s = _guest_s(data, between_guests_s)
    return {platform: seconds * cells[platform] for platform, seconds in cell_s.items()}


def groups(labels: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield (label, where it stands) of every label: sorted once."""
    order = np.argsort(labels, kind="stable")
    names, starts = np.unique(labels[order], return_index=True)
    yield from zip(names.tolist(), np.split(order, starts)[1:], strict=True)


def _per_block(cells: NDArray[np.int64], blocks: NDArray[np.int64]) -> dict[int, float]:
    """Return the trials in a block, on average, by index of the cell."""
    return {cell: part.size / np.unique(blocks[part]).size for cell, part in groups(cells)}


def _gaps(data: RunData) -> tuple[float, dict[str, float]]:
    """Return (median seconds from the end of a trial to the next one's start in its guest, the same by platform from
    the guest before to its own first trial)."""
    trials, cells = data.trials, data.run.cells
    order = np.argsort(trials.position, kind="stable")
    ended = (trials.started_at + np.nan_to_num(trials.outside_s))[order]
    gap = trials.started_at[order][1:] - ended[:-1]
    block = trials.block[order]
    platform = [cells[index].platform for index in trials.cell[order].tolist()]
    is_new = block[1:] != block[:-1]
    in_rounds = data.run.declared.get("design", {}).get("order") == "rounds"
    if not in_rounds:
        is_new |= np.array([first != second for first, second in pairwise(platform)], np.bool_)
    is_gap = np.isfinite(gap) & (gap >= 0) & (np.diff(trials.position[order]) == 1)
    between_guests: dict[str, list[float]] = defaultdict(list)
    for position in np.flatnonzero(is_gap & is_new).tolist():
        between_guests[platform[position + 1]].append(float(gap[position]))
    inside = gap[is_gap & ~is_new]
    medians = {name: statistics.median(values) for name, values in between_guests.items()}
    if in_rounds and medians:  # all guests of a block were started between two trials
        names = {cell.platform for cell in cells}
        medians = dict.fromkeys(names, statistics.median(medians.values()) / len(names))
    return (float(np.median(inside)) if inside.size else 0.0), medians


def _guest_s(data: RunData, between_guests_s: dict[str, float]) -> dict[str, float]:
    """Return the seconds of guest start and stop that one of a platform's cells costs in a block, by platform."""
    cells = Counter(cell.platform for cell in data.run.cells)
    ready_s: dict[str, list[float]] = defaultdict(list)
    blocks: dict[str, set[int]] = defaultdict(set)
    for guest in data.guests:
        if guest.ready_s is not None:
            ready_s[guest.platform].append(guest.ready_s)
            blocks[guest.platform].add(guest.block)
    costs_s = {}
    for platform, number in cells.items():
        starts = ready_s[platform]
        if starts:
            start_s = max(statistics.median(starts), between_guests_s.get(platform, 0.0))
            costs_s[platform] = start_s * len(starts) / len(blocks[platform]) / number
    return costs_s
