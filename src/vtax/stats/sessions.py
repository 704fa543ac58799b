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
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from vtax.messages import Note
from vtax.stats.checks import Array, Values, as_array, check_confidence
from vtax.stats.intervals import t_quantile
from vtax.stats.ratio import Nesting, Ratio, exp, p_above, p_below, ratio_of_logs

Labels = npt.NDArray[np.int64]
"""Number of the session of each block, or (shape: blocks, 2) those of its host and of its session; no two hosts have a
session of one number."""
Unit = int | tuple[int, ...]
"""A session, or its host with it: one line of Labels."""
Confidence = float | Callable[[int], float]
"""The level of an interval, or that of an interval over so many units."""
UNITS = ("block", "session", "host")
"""The units that blocks are nested in, from below."""


@dataclass(frozen=True)
class Scatter:
    """How units of one level scatter. count: of them. sd: from one to the next, what is below left out.

    se, df: of the mean of all, if the levels above did not differ.
    """

    unit: str
    count: int
    sd: float
    se: float
    df: float


@dataclass(frozen=True)
class Nested:
    """A mean over units. mean: of logarithms. blocks, sessions, hosts: their numbers.

    levels: the scatter at each that can be seen, the units' first. next_variance: of the mean of one further unit of
    as many blocks; that of a block where there is one session.
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
    values, noise = (
        logs,
        np.zeros(logs.size),
    )  # of each value around what the units below would show in the long run
    next_variance = math.nan
    for unit, of, weights in zip(UNITS, parents, _weights(parents), strict=False):
        size = np.bincount(of).astype(float)
        means = np.bincount(of, values) / size
        df, variance = (
            values.size - size.size,
            0.0,
        )  # of units alone in theirs it is part of the level above
        if df:
            pooled = float(((values - means[of]) ** 2).sum()) / df
            variance = max(0.0, pooled - float(((1 - 1 / size[of]) * noise).sum()) / df)
            se = math.sqrt(pooled * float((weights**2).sum()))
            levels.insert(0, Scatter(unit, values.size, math.sqrt(variance), se, float(df)))
            next_variance = variance + float(noise.mean())
        values, noise = means, np.bincount(of, variance + noise) / size**2
    sessions_there = int(parents[0].max()) + 1
    hosts = int(parents[1].max()) + 1 if len(parents) > 1 else 1
    return Nested(float(values[0]), logs.size, sessions_there, hosts, tuple(levels), next_variance)


def parents_of(sessions: Labels) -> list[npt.NDArray[np.intp]]:
    """Return the session of each block, the host of each session, and the one that holds all at the top.

    A level of one unit is left out.
    """
    rows = sessions if sessions.ndim > 1 else sessions[:, np.newaxis]
    found: list[npt.NDArray[np.intp]] = []
    for column in reversed(range(rows.shape[1])):
        names, first, of = np.unique(rows[:, column], return_index=True, return_inverse=True)
        if names.size == 1:
            break
        found.append(of)
        rows = rows[first]
    return [*found, np.zeros(len(rows), np.intp)]


def _weights(parents: list[npt.NDArray[np.intp]]) -> list[Array]:
    """Weigh each value of a level in the mean of all: each unit counts as much as the others of its own."""
    weights, found = np.ones(1), list[Array]()
    for of in reversed(parents):
        weights = (weights / np.bincount(of))[of]
        found.insert(0, weights)
    return found


def ratio_over_sessions(logs: Values, sessions: Values, confidence: Confidence = 0.95) -> Ratio:
    """Ratio from one log-ratio per block (NaN: no such block) and the session, or host and session, of each.

    Of a single session it is `ratio_of_logs`: nothing is known of another. Raises StatsError when no block is left.
    """
    given, labels = as_array(logs, "log-ratios"), np.asarray(sessions, dtype=np.int64)
    there = ~np.isnan(given)
    at = _level_of(confidence)
    base = ratio_of_logs(given, at(int(there.sum())))
    found = nested_mean(given[there], labels[there])
    if found.sessions == 1:
        return base
    alike = Note("hosts-alike" if found.hosts > 1 else "sessions-alike")
    notes = [] if found.levels[0].se else [alike]
    warnings = (
        *(text for text in base.warnings if getattr(text, "code", "") != "one-block"),
        *notes,
    )
    return _answer(replace(base, warnings=warnings), found, at)


def half_width_over_sessions(
    means: Array, sessions: Labels, confidence: float = 0.95
) -> float | None:
    """Half the width of the interval of a mean of blocks' means, in their unit; None of a single session."""
    found = nested_mean(means, sessions)
    return None if found.sessions == 1 else _halves(found.levels, _level_of(confidence))[0]


def unpaired_over_sessions(
    treatment: tuple[Values, Values], baseline: tuple[Values, Values], confidence: float = 0.95
) -> Ratio | None:
    """Ratio treatment / baseline of two samples of sessions that share no block; None where a side has only one.

    Each side: (logarithms of its blocks, session, or host and session, of each). Welch's degrees of freedom (1947).
    Numbers of hosts, sessions and blocks: of the smaller side. Raises StatsError when a side has no block.
    """
    sides = []
    for logs, sessions in (treatment, baseline):
        given, labels = as_array(logs, "logarithms"), np.asarray(sessions, dtype=np.int64)
        there = ~np.isnan(given)
        ratio_of_logs(given, confidence)  # raises StatsError for what has no mean
        sides.append(nested_mean(given[there], labels[there]))
        if sides[-1].sessions == 1:
            return None
    a, b = sides
    below = [{each.unit: each for each in side.levels} for side in sides]
    tops = (a.levels[0], b.levels[0])
    pairs = [tops, *((x, below[1][unit]) for unit, x in below[0].items() if unit in below[1])]
    levels = [_welch(*pair) for pair in pairs if pair is tops or pair != tops]
    joint = Nested(
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
        n_blocks=joint.blocks,
        mean_log=0.0,
        se_log=0.0,
        df=0.0,
        p_value=1.0,
        outliers=(),
        warnings=(),
    )
    return _answer(empty, joint, _level_of(confidence))


def _welch(a: Scatter, b: Scatter) -> Scatter:
    """Return the scatter of the difference of two means."""
    total = a.se**2 + b.se**2
    df = total**2 / (a.se**4 / a.df + b.se**4 / b.df) if total else a.df + b.df
    return Scatter(b.unit, min(a.count, b.count), math.hypot(a.sd, b.sd), math.sqrt(total), df)


def _level_of(confidence: Confidence) -> Callable[[int], float]:
    """Return the level of an interval over so many units. Raises StatsError for one that is none."""
    if callable(confidence):
        return confidence
    check_confidence(confidence)
    return lambda _: confidence


def _halves(levels: tuple[Scatter, ...], at: Callable[[int], float]) -> list[float]:
    """Half the width of the interval at each level: the widest of its own and of those below."""
    found: list[float] = []
    for level in reversed(levels):
        own = t_quantile((1 + at(level.count)) / 2, level.df) * level.se
        found.insert(0, max([own, *found[:1]]))
    return found


def _answer(base: Ratio, found: Nested, at: Callable[[int], float]) -> Ratio:
    """Return the ratio with interval, test and prediction of a mean over units."""
    halves, top = _halves(found.levels, at), found.levels[0]
    t = t_quantile((1 + at(top.count)) / 2, top.df)
    reach = max(halves[0], t * math.sqrt(found.next_variance + top.se**2))
    total = sum(level.sd**2 for level in found.levels)
    nesting = tuple(
        Nesting(
            each.unit,
            each.count,
            each.sd,
            each.sd**2 / total if total else 0.0,
            each.se,
            each.df,
            exp(found.mean - half),
            exp(found.mean + half),
        )
        for each, half in zip(found.levels, halves, strict=True)
    )
    ratio = replace(
        base,
        estimate=exp(found.mean),
        low=nesting[0].low,
        high=nesting[0].high,
        mean_log=found.mean,
        se_log=top.se,
        df=top.df,
        n_sessions=found.sessions,
        n_hosts=found.hosts,
        nesting=nesting,
        predicted_low=exp(found.mean - reach),
        predicted_high=exp(found.mean + reach),
    )
    return replace(ratio, p_value=min(1.0, 2 * min(p_above(ratio, 0.0), p_below(ratio, 0.0))))
