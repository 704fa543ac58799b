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

Where sessions are of pairs of hosts, each host stands in several pairs, and adds to all of them. Pairs count alike,
and above them stands the standard error of their mean over hosts, clustered by both ends (Fafchamps & Gubert, The
formation of risk sharing networks, J. Dev. Econ. 2007): of each host the sum of the residuals of its pairs. Its
factor and degrees of freedom are those of chi-squared of its mean and variance where hosts alone differ (Bell &
McCaffrey, Bias reduction in standard errors, Surv. Methodol. 2002; Imbens & Kolesar, Robust standard errors in small
samples, Rev. Econ. Stat. 2016): at both ends alike, at the near or at the far one, whichever is widest. Where every
pair was measured that is the jackknife over hosts (Arvesen, Jackknifing U-statistics, Ann. Math. Stat. 1969); two
pairs without a common host have one degree, in both directions too. A host in every pair is no unit: the others are,
and of a single pair the sessions.

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
"""Number of the session of each block, or (shape: blocks, 2) those of its host and of its session, or (blocks, 3)
those of both hosts of its pair and of its session; no two hosts or pairs have a session of one number."""
Unit = int | tuple[int, ...]
"""A session, or its host or its pair with it: one line of Labels."""
Confidence = float | Callable[[int], float]
"""The level of an interval, or that of an interval over so many units."""
UNITS = ("block", "session", "host")
"""The units that blocks are nested in, from below."""
PAIR = "pair"
"""The unit in the place of the host where sessions are of pairs of hosts."""


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
    ends, labels = _pairs(sessions)
    parents = parents_of(labels)
    units = (*UNITS[:-1], UNITS[-1] if ends is None else PAIR)
    levels: list[Scatter] = []
    values, noise = (
        logs,
        np.zeros(logs.size),
    )  # of each value around what the units below would show in the long run
    next_variance = math.nan
    for unit, of, weights in zip(units, parents, _weights(parents), strict=False):
        size = np.bincount(of).astype(float)
        means = np.bincount(of, values) / size
        if unit == PAIR and ends is not None:
            crossed = _over_hosts(values, ends)
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
    if ends is not None:
        pair, *below = levels
        alone = replace(pair, sd=math.sqrt(max(0.0, pair.sd**2 - 2 * crossed.sd**2)))
        levels, hosts = [crossed, alone, *below], crossed.count
    return Nested(float(values[0]), logs.size, sessions_there, hosts, tuple(levels), next_variance)


def _pairs(sessions: Labels) -> tuple[npt.NDArray[np.int64] | None, Labels]:
    """Return (both hosts of each pair, in the order of its number; the pair and the session of each block).

    None and the other host in its place where one is in all of them; None and the sessions of a single pair.
    """
    if sessions.ndim < 2 or sessions.shape[1] < 3:
        return None, sessions
    ends = sessions[:, :2]
    common = [host for host in np.unique(ends[0]) if (ends == host).any(axis=1).all()]
    if len(common) > 1:
        return None, sessions[:, 2]
    if common:
        return None, np.column_stack(
            [np.where(ends[:, 0] == common[0], ends[:, 1], ends[:, 0]), sessions[:, 2]]
        )
    pairs, of = np.unique(ends, axis=0, return_inverse=True)
    return pairs, np.column_stack([of.ravel(), sessions[:, 2]])


def _over_hosts(means: Array, ends: npt.NDArray[np.int64]) -> Scatter:
    """Return how pairs scatter by the hosts at their ends. means: of each pair. ends: its two hosts."""
    hosts, at = np.unique(ends, return_inverse=True)
    at, count, pairs = at.reshape(ends.shape), hosts.size, means.size
    residuals = means - means.mean()
    sums = np.bincount(at.ravel(), np.repeat(residuals, 2))
    factor, df = _clustered(at, count)
    variance = factor * float((sums**2).sum()) / pairs**2
    alone = float((residuals**2).sum()) / (pairs - 1) / pairs  # if hosts did not differ
    sd = math.sqrt(max(0.0, variance - alone) / float((np.bincount(at.ravel()) ** 2).sum())) * pairs
    return Scatter("host", count, sd, math.sqrt(variance), df)


def _clustered(ends: npt.NDArray[np.intp], count: int) -> tuple[float, float]:
    """Return the factor and the degrees of freedom of the variance clustered by hosts, numbered from 0 to count.

    Where hosts add a, of variance 1, the sums over hosts are G'a, and the mean is d'a / pairs: d counts the pairs of
    each. So the factor is d'd / tr(GG'), the degrees of freedom tr(GG')^2 / tr(GG'GG'). d > 0, and no host is in all
    pairs, so G is not zero.
    """
    near = np.zeros((count, count))  # how many pairs have these two at their ends
    np.add.at(near, (ends[:, 0], ends[:, 1]), 1.0)
    pairs_of = near.sum(axis=0) + near.sum(axis=1)
    found: list[tuple[float, float]] = []
    own, sums = np.zeros(count), np.zeros((count, count))
    for side in (near, near.T):
        of_side = side.sum(axis=1)
        at_side = np.diag(of_side) + side - np.outer(of_side, pairs_of) / len(ends)
        found.append(_moments(of_side, at_side))
        own, sums = own + of_side, sums + at_side
    return max(
        [_moments(own, sums), *found],
        key=lambda each: t_quantile(0.975, each[1]) * math.sqrt(each[0]),
    )


def _moments(pairs_of: Array, sums: Array) -> tuple[float, float]:
    """Return (factor, degrees of freedom) of `_clustered`. sums: G there."""
    trace = float((sums**2).sum())
    return float((pairs_of**2).sum()) / trace, trace**2 / float(((sums @ sums.T) ** 2).sum())


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
    tops = [each.se for each in found.levels if each.unit in (found.levels[0].unit, PAIR)]
    notes = [] if any(tops) else [alike]
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
    pairs = [tops]
    if any(
        PAIR in of for of in below
    ):  # hosts of one side may agree by chance: its pairs meet the other side's unit
        x, y = (of.get(PAIR, replace(top, unit=PAIR)) for of, top in zip(below, tops, strict=True))
        pairs.append((x, y))
    pairs += [
        (x, below[1][unit]) for unit, x in below[0].items() if unit in below[1] and unit != PAIR
    ]
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
