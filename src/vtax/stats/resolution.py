"""How finely the figures of a cell are known: the last digit that a tool prints, or the timer its client ends on.

Two figures that differ by less than a step are printed alike, so that blocks which all agree show a coarse tool and
not a quiet one. A mean of figures that agree is off by up to a step, however many they are; noise of several steps
averages out, and then the interval of Student's t is the wider one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vtax.messages import Note
from vtax.stats.checks import Array
from vtax.stats.ratio import Ratio, exp

_COARSEST = 0.99
_PRINTED = 1.5  # times the step that a tool prints, up to which a timer's is no other
MIN_FOR_TIMER = 5  # trials of a cell that show a timer
_OFF_TICK = 0.03  # of a step, that a time may be off its tick
_REFUTED_OFF_TICK = 0.0301  # the same with room for rounding
_FIRST_TIMES = 8  # that refute most steps
_OFF_TICK_OF_TWO = 0.01  # the same where there are two ticks alone
_LONGEST_STEP = (
    1 + _OFF_TICK
)  # times the shortest trial of a point: none ends before the first tick
_MOST_TICKS = 200  # of a time: finer steps are below any margin
_MOST_TIMES = 200  # that are looked at
_FEW_TICKS = 5  # up to which two ticks alone are evidence: any two times are multiples of something


@dataclass(frozen=True)
class Resolution:
    """The smallest difference between two figures.

    share: of the figures.
    is_timer: whether it is the step of a client's timer, which the times end on.
    """

    share: float = 0.0
    is_timer: bool = False

    @property
    def log(self) -> float:
        """The step of a logarithm, to either side; for a step as large as the figure, a hundredfold."""
        return -math.log1p(-min(self.share, _COARSEST))

    @property
    def percent(self) -> str:
        """The share in percent, for sentences."""
        return f"{float(f'{100 * self.share:.2g}'):g}"


EXACT = Resolution()


def coarsest(resolutions: Sequence[Resolution]) -> Resolution:
    """Return the coarsest of several: that of what is computed from them."""
    return max(resolutions, key=lambda resolution: resolution.share, default=EXACT)


def coarsened(ratio: Ratio, resolution: Resolution) -> Ratio:
    """Return the ratio with an interval that reaches at least a step to each side."""
    low, high = band(ratio, resolution)
    if low >= ratio.low and high <= ratio.high:
        return ratio
    note = Note("coarse-figures", percent=resolution.percent)
    return replace(
        ratio,
        low=min(low, ratio.low),
        high=max(high, ratio.high),
        warnings=(*ratio.warnings, note),
    )


def band(ratio: Ratio, resolution: Resolution) -> tuple[float, float]:
    """Return the bounds that a step to each side of a ratio gives."""
    return exp(ratio.mean_log - resolution.log), exp(ratio.mean_log + resolution.log)


def timer_step(times: Array, least: float) -> float | None:
    """Return the step of a timer that all times are multiples of; None where they show none.

    times: of the trials of one cell, in any unit. least: the smallest step that matters, as a share of the times.
    Where chance alone makes five times, they are taken for a timer's in less than one case of a hundred.
    """
    times = times[:_MOST_TIMES]
    if times.size < MIN_FOR_TIMER or not (np.isfinite(times).all() and (times > 0).all()):
        return None
    ticks = _possible_ticks(times, min(int(1 / least), _MOST_TICKS))
    steps, counts, off = _fitted(times, ticks)
    for place in np.flatnonzero((off <= _OFF_TICK * steps) & (counts.min(axis=1) >= 1)):
        distinct = np.unique(counts[place]).size
        is_near = ticks[place] <= _FEW_TICKS and off[place] <= _OFF_TICK_OF_TWO * steps[place]
        if distinct > 2 or (distinct == 2 and is_near):
            return float(steps[place])
    return None


def _possible_ticks(times: Array, most: int) -> Array:
    """Return the ticks of the longest time, from 2 to `most`, with which the first times can be multiples of one step.

    Few times refute nearly all numbers of ticks, so that the others need not be looked at for those.
    """
    ticks = np.arange(2.0, most + 1)
    first_times = times[:_FIRST_TIMES, None]
    counts = np.rint(first_times * ticks / times.max())
    least_steps = (first_times / (counts + _REFUTED_OFF_TICK)).max(axis=0)
    with np.errstate(divide="ignore"):
        most_steps = (first_times / np.maximum(counts - _REFUTED_OFF_TICK, 0)).min(axis=0)
    return np.asarray(ticks[least_steps <= most_steps])


def _fitted(times: Array, ticks: Array) -> tuple[Array, Array, Array]:
    """Return (the step that fits best, the ticks of each time, how far off the farthest is) for each number of ticks.

    ticks: of the longest time.
    """
    counts = np.rint(times * ticks[:, None] / times.max())
    steps = (times * counts).sum(axis=1) / np.maximum((counts * counts).sum(axis=1), 1)
    return steps, counts, np.abs(times - counts * steps[:, None]).max(axis=1)


def is_shared(step: float, cells: Sequence[Array]) -> bool:
    """Return whether at least half of the cells of a point, whose client is the same, end on a timer of that step.

    One cell of several shows a timer by chance more often than one alone. Another may be late by more than its ticks
    allow, so not all need to agree. Cells of fewer than MIN_FOR_TIMER trials, or of more than _MOST_TICKS, have no say.

    step: known to within _OFF_TICK. cells: times of each.
    """
    agree = []
    for times in cells:
        with np.errstate(over="ignore"):
            ticks = float(times.max() / step)  # infinite of a rate next to zero
        if times.size < MIN_FOR_TIMER or ticks >= (_MOST_TICKS + 1) * (1 - _OFF_TICK):
            continue
        fewest = math.ceil(ticks / (1 + _OFF_TICK))
        most_ticks = math.floor(ticks / (1 - _OFF_TICK))
        steps, counts, off = _fitted(times, np.arange(float(fewest), most_ticks + 1))
        agree.append(bool(((off <= _OFF_TICK * steps) & (counts.min(axis=1) >= 1)).any()))
    return 2 * sum(agree) >= len(agree)


@dataclass(frozen=True)
class Figures:
    """Figures of one cell in one metric, trial by trial. steps: their smallest steps, 0 where none is known."""

    values: Array
    steps: Array


def resolutions_of(
    cells: Mapping[str, Figures], margin: float, *, is_time: bool, is_rate: bool
) -> dict[str, Resolution]:
    """Return the resolution of every cell of a point in one metric.

    The step that a tool prints is that of most trials. A timer that the times of one cell show holds for all cells:
    they do the same work with the same client. A trial of any cell that is shorter than the step refutes it, and so
    do most of the cells when they do not end on it.

    cells: name -> figures.
    margin: of equivalence, against which steps are looked for.
    is_time, is_rate: whether figures are times, or work over times.
    """
    resolutions = {name: _printed(figures) for name, figures in cells.items()}
    if not (is_time or is_rate):
        return resolutions
    times, steps = {}, []
    for name, figures in cells.items():
        values = figures.values
        if values.size and (values > 0).all():
            with np.errstate(over="ignore"):
                times[name] = values if is_time else 1 / values
            step = timer_step(times[name], margin / 2)
            if step is not None:
                steps.append(step)
    shortest = min((float(of_cell.min()) for of_cell in times.values()), default=0.0)
    of_cells = list(times.values())
    steps = [
        step for step in steps if step <= _LONGEST_STEP * shortest and is_shared(step, of_cells)
    ]
    if not steps:
        return resolutions
    for name, of_cell in times.items():
        timer = Resolution(max(steps) / float(np.median(of_cell)), is_timer=True)
        if timer.share > _PRINTED * resolutions[name].share:  # else the tool prints these steps
            resolutions[name] = timer
    return resolutions


def _printed(figures: Figures) -> Resolution:
    """Return the resolution of what a tool prints: a last digit that is zero may be left out in some trials."""
    is_known = figures.values != 0
    if not is_known.any() or not figures.steps.any():
        return EXACT
    return Resolution(float(np.median(figures.steps[is_known] / np.abs(figures.values[is_known]))))
