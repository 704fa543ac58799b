"""Blocks nested in sessions, and these in hosts: what a boot, its hour and a machine add to every block there.

Blocks of one session share its boot, its hour and its neighbours. Their scatter says nothing of what another session
would show, so with several sessions the session is the unit: every session counts alike, by the mean of its blocks,
and the interval is Student's t of these means. Of sessions of as many blocks each, that is the interval of Hartung
and Knapp (On tests of the overall treatment effect in meta-analysis with normally distributed responses, Statist.
Med. 2001). Of unequal sessions their weights, which few sessions hardly tell, gave up to 6.7 % false alarms where 5
are meant; t of normal means of any variances errs on the safe side up to a level of 8 % (Ibragimov & Müller,
t-Statistic based correlation and heterogeneity robust inference, J. Bus. Econ. Stat. 2010).

Sessions of one host share the machine. With several hosts the host is the unit in the same way: every host counts
alike, by the mean of its sessions, and the interval is t of these, for hosts like these. Constant weights and moments
are also what three levels are best given (Kulinskaya & Hoaglin, arXiv 2411.00795, 2024). The interval over sessions
within hosts is for these hosts alone.

Two or three units can agree by chance, and their interval is then narrower than the level below allows. So an
interval is the widest of all levels', each as if those above did not differ, and a test passes all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from vtax.messages import Note
from vtax.stats.checks import Array, Values, as_array, check_confidence
from vtax.stats.intervals import t_quantile
from vtax.stats.ratio import Nesting, Ratio, exp, p_above, p_below, quantiles, ratio_of_logs

Labels = npt.NDArray[np.int64]
"""Number of the session of each block, or (shape: blocks, 2) those of its host and of its session; no two hosts have a
session of one number."""
Confidence = float | Callable[[int], float]
"""The level of an interval, or that of an interval over so many units."""
UNITS = ("block", "session", "host")
"""The units that blocks are nested in, from below."""


class Units:
    """The host and the session of every block.

    blocks: ascending, each once.
    labels: a line for each.
    """

    def __init__(self, blocks: Labels, labels: Labels) -> None:
        self.blocks = blocks
        self.labels = labels
        self.are_several = bool((labels != labels[:1]).any())

    def of(self, blocks: Labels) -> Labels:
        """Return the lines of some blocks. Raises KeyError for one that is not there."""
        place = np.searchsorted(self.blocks, blocks)
        if blocks.size and (
            place.max() >= self.blocks.size or (self.blocks[place] != blocks).any()
        ):
            raise KeyError("a block is of no session")
        return self.labels[place]


@dataclass(frozen=True)
class Scatter:
    """How units of one level scatter.

    unit: name of the level.
    count: of the units.
    sd: from one unit to the next, without the scatter of the levels below.
    se, df: standard error and degrees of freedom of the mean of all, if the levels above did not differ.
    """

    unit: str
    count: int
    sd: float
    se: float
    df: float


@dataclass(frozen=True)
class Nested:
    """A mean over units.

    mean: of logarithms.
    blocks, sessions, hosts: their numbers.
    levels: the scatter at each level that shows any, the topmost first.
    next_variance: of the mean of one further unit of as many blocks; that of a block where there is one session.
    """

    mean: float
    blocks: int
    sessions: int
    hosts: int
    levels: tuple[Scatter, ...]
    next_variance: float


def nested_mean(logs: Array, sessions: Labels) -> Nested:
    """Return the mean of one logarithm per block. Without NaN, at least one block."""
    parents = parents_of(sessions)
    levels: list[Scatter] = []
    values = logs
    noise = np.zeros(logs.size)  # variance of each value around the long-run mean of its unit
    next_variance = math.nan
    for unit, parent, weights in zip(UNITS, parents, _weights(parents), strict=False):
        size = np.bincount(parent).astype(float)
        means = np.bincount(parent, values) / size
        df = values.size - size.size
        variance = 0.0  # of units alone in their parents it is part of the level above
        if df:
            pooled = float(((values - means[parent]) ** 2).sum()) / df
            variance = max(0.0, pooled - float(((1 - 1 / size[parent]) * noise).sum()) / df)
            se = math.sqrt(pooled * float((weights**2).sum()))
            levels.insert(0, Scatter(unit, values.size, math.sqrt(variance), se, float(df)))
            next_variance = variance + float(noise.mean())
        values, noise = means, np.bincount(parent, variance + noise) / size**2
    count = int(parents[0].max()) + 1
    hosts = int(parents[1].max()) + 1 if len(parents) > 1 else 1
    return Nested(float(values[0]), logs.size, count, hosts, tuple(levels), next_variance)


def parents_of(sessions: Labels) -> list[npt.NDArray[np.intp]]:
    """Return the session of each block, the host of each session, and the one that holds all at the top.

    A level of one unit is left out.
    """
    rows = sessions if sessions.ndim > 1 else sessions[:, np.newaxis]
    parents: list[npt.NDArray[np.intp]] = []
    for column in reversed(range(rows.shape[1])):
        names, first, parent = np.unique(rows[:, column], return_index=True, return_inverse=True)
        if names.size == 1:
            break
        parents.append(parent)
        rows = rows[first]
    return [*parents, np.zeros(len(rows), np.intp)]


def _weights(parents: list[npt.NDArray[np.intp]]) -> list[Array]:
    """Weigh each value of a level in the mean of all: each unit counts as much as the others of its own."""
    weights, levels = np.ones(1), list[Array]()
    for parent in reversed(parents):
        weights = (weights / np.bincount(parent))[parent]
        levels.insert(0, weights)
    return levels


def ratio_over_sessions(logs: Values, sessions: Values, confidence: Confidence = 0.95) -> Ratio:
    """Return the ratio of log-ratios of blocks over several sessions; of a single session that of `ratio_of_logs`.

    logs: one for each block, NaN where there is none.
    sessions: the session, or host and session, of each.
    confidence: of the interval.

    Raises StatsError when no block is left.
    """
    array, labels = as_array(logs, "log-ratios"), np.asarray(sessions, dtype=np.int64)
    is_known = ~np.isnan(array)
    level = _level_of(confidence)
    base = ratio_of_logs(array, level(int(is_known.sum())))
    nested = nested_mean(array[is_known], labels[is_known])
    if nested.sessions == 1:
        return base
    warnings = [text for text in base.warnings if getattr(text, "code", "") != "one-block"]
    if not nested.levels[0].se:
        warnings.append(Note("hosts-alike" if nested.hosts > 1 else "sessions-alike"))
    return _ratio_of(replace(base, warnings=tuple(warnings)), nested, level)


def bounds_at(ratio: Ratio, level_of: Callable[[int], float]) -> tuple[float, float]:
    """Return the bounds of a ratio at another level, with all that its interval allows for.

    level_of: the level of an interval over so many units.

    Raises StatsError where an interval over its blocks has no level.
    """
    level = level_of(ratio.n_blocks)
    check_confidence(level)
    if ratio.n_blocks == 1:
        return 0.0, math.inf
    if ratio.nesting:
        below = above = half_widths(ratio.nesting, level_of)[0]
    else:
        below, above = quantiles(level, ratio.df, ratio.skewness, ratio.n_blocks)
        below, above = below * ratio.se_log, above * ratio.se_log
    return exp(ratio.mean_log - below), exp(ratio.mean_log + above)


def half_width_over_sessions(
    means: Array, sessions: Labels, confidence: float = 0.95
) -> float | None:
    """Return half the width of the interval of a mean of blocks' means, in their unit; None of a single session."""
    nested = nested_mean(means, sessions)
    return None if nested.sessions == 1 else half_widths(nested.levels, _level_of(confidence))[0]


def unpaired_over_sessions(
    treatment: tuple[Values, Values], baseline: tuple[Values, Values], confidence: float = 0.95
) -> Ratio | None:
    """Return the ratio of two samples of sessions that share no block; None where a side has only one session.

    Degrees of freedom are Welch's (1947); numbers of hosts, sessions and blocks are those of the smaller side.

    treatment, baseline: (logarithms of the blocks of a side, session, or host and session, of each).
    confidence: of the interval.

    Raises StatsError when a side has no block.
    """
    sides = []
    for logs, sessions in (treatment, baseline):
        array, labels = as_array(logs, "logarithms"), np.asarray(sessions, dtype=np.int64)
        is_known = ~np.isnan(array)
        ratio_of_logs(array, confidence)  # raises StatsError for a side without a mean
        sides.append(nested_mean(array[is_known], labels[is_known]))
        if sides[-1].sessions == 1:
            return None
    a, b = sides
    top = (a.levels[0], b.levels[0])
    levels = [_welch(*top)]
    levels_of_b = {level.unit: level for level in b.levels}
    for level in a.levels:
        if level.unit in levels_of_b and (level, levels_of_b[level.unit]) != top:
            levels.append(_welch(level, levels_of_b[level.unit]))
    joint_nested = Nested(
        a.mean - b.mean,
        min(a.blocks, b.blocks),
        min(a.sessions, b.sessions),
        min(a.hosts, b.hosts),
        tuple(levels),
        a.next_variance + b.next_variance,
    )
    empty = Ratio(
        estimate=1.0,
        low=0.0,
        high=math.inf,
        confidence=confidence,
        n_blocks=joint_nested.blocks,
        mean_log=0.0,
        se_log=0.0,
        df=0.0,
        p_value=1.0,
        outliers=(),
        warnings=(),
    )
    return _ratio_of(empty, joint_nested, _level_of(confidence))


def _welch(a: Scatter, b: Scatter) -> Scatter:
    """Return the scatter of the difference of two means."""
    total = a.se**2 + b.se**2
    df = total**2 / (a.se**4 / a.df + b.se**4 / b.df) if total else a.df + b.df
    return Scatter(b.unit, min(a.count, b.count), math.hypot(a.sd, b.sd), math.sqrt(total), df)


def _level_of(confidence: Confidence) -> Callable[[int], float]:
    """Return a function from a number of units to the level of their interval. Raises StatsError for no confidence."""
    if callable(confidence):
        return confidence
    check_confidence(confidence)
    return lambda _: confidence


def half_widths(
    levels: Sequence[Scatter | Nesting], level_of: Callable[[int], float]
) -> list[float]:
    """Return half the width of the interval at each level: the widest of its own and of those below."""
    halves: list[float] = []
    for level in reversed(levels):
        own_half_width = t_quantile((1 + level_of(level.count)) / 2, level.df) * level.se
        halves.insert(0, max([own_half_width, *halves[:1]]))
    return halves


def _ratio_of(base: Ratio, nested: Nested, level_of: Callable[[int], float]) -> Ratio:
    """Return a ratio with interval, test and prediction of a mean over units.

    base: its other fields.
    nested: the mean.
    level_of: the level of an interval over so many units.
    """
    halves, top, mean = half_widths(nested.levels, level_of), nested.levels[0], nested.mean
    t = t_quantile((1 + level_of(top.count)) / 2, top.df)
    reach = max(halves[0], t * math.sqrt(nested.next_variance + top.se**2))
    total = sum(level.sd**2 for level in nested.levels)
    nesting = []
    for level, half_width in zip(nested.levels, halves, strict=True):
        share = level.sd**2 / total if total else 0.0
        numbers = (level.count, level.sd, share, level.se, level.df)
        nesting.append(
            Nesting(level.unit, *numbers, exp(mean - half_width), exp(mean + half_width))
        )
    ratio = replace(
        base,
        estimate=exp(mean),
        low=nesting[0].low,
        high=nesting[0].high,
        mean_log=mean,
        se_log=top.se,
        df=top.df,
        n_sessions=nested.sessions,
        n_hosts=nested.hosts,
        nesting=tuple(nesting),
        predicted_low=exp(mean - reach),
        predicted_high=exp(mean + reach),
    )
    return replace(ratio, p_value=min(1.0, 2 * min(p_above(ratio, 0.0), p_below(ratio, 0.0))))
