"""Blocks nested in sessions: what a boot of the host and its hour add to every block measured in them.

Blocks of one session share its boot, its hour and its neighbours. Their scatter says nothing of what another session
would show, so with several sessions the session is the unit: every session counts alike, by the mean of its blocks,
and the interval is Student's t of these means. Of sessions of as many blocks each, that is the interval of Hartung
and Knapp (On tests of the overall treatment effect in meta-analysis with normally distributed responses, Statist.
Med. 2001). Of unequal sessions their weights, which few sessions hardly tell, gave up to 6.7 % false alarms where 5
are meant; t of normal means of any variances errs on the safe side up to a level of 8 % (Ibragimov & Müller,
t-Statistic based correlation and heterogeneity robust inference, J. Bus. Econ. Stat. 2010).

Two or three sessions can agree by chance, and that interval is then narrower than the blocks themselves allow. So an
interval is the wider of that one and of the blocks' as if sessions did not differ, and a test passes both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vtax.messages import Note
from vtax.stats.checks import Array, Values, as_array, check_confidence
from vtax.stats.intervals import t_quantile
from vtax.stats.ratio import Ratio, exp, p_above, p_below, ratio_of_logs

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Nested:
    """A mean over sessions. mean: of logarithms. sessions, blocks: their numbers.

    se, df: of the mean, between sessions; se is nan for a single session. within_se, within_df: the same if sessions
    did not differ, from the scatter of blocks; nan and 0 where every session has one block. between_sd: standard
    deviation from session to session, scatter of blocks left out. next_variance: of the mean of one further session
    of as many blocks.
    """

    mean: float
    sessions: int
    blocks: int
    se: float
    df: float
    within_se: float
    within_df: float
    between_sd: float
    next_variance: float


def nested_mean(logs: Array, sessions: Labels) -> Nested:
    """The mean of one logarithm per block. sessions: the session of each. Without NaN, at least one block."""
    labels, of = np.unique(sessions, return_inverse=True)
    blocks = np.bincount(of).astype(float)
    means = np.bincount(of, logs) / blocks
    k, n = labels.size, logs.size
    spare = n - k
    within = float(((logs - means[of]) ** 2).sum()) / spare if spare else math.nan
    if k == 1:
        se = math.sqrt(within / n) if spare else math.nan
        return Nested(float(means[0]), 1, n, math.nan, 0.0, se, float(spare), math.nan, math.nan)
    noise = within if within > 0 else 0.0
    sampling = noise * float((1 / blocks).mean())
    spread = float(means.var(ddof=1))
    between = max(0.0, spread - sampling)
    within_se = math.sqrt(sampling / k) if spare else math.nan
    return Nested(
        mean=float(means.mean()), sessions=k, blocks=n, se=math.sqrt(spread / k), df=k - 1.0, within_se=within_se,
        within_df=float(spare), between_sd=math.sqrt(between), next_variance=between + sampling,
    )  # fmt: skip


def ratio_over_sessions(
    logs: Values, sessions: Values, confidence: float = 0.95, *, within_confidence: float | None = None
) -> Ratio:
    """Ratio from one log-ratio per block (NaN: no such block) and the session of each. within_confidence: that of
    the interval of the blocks alone, of which the wider counts; absent, the same.

    Of a single session it is `ratio_of_logs`: nothing is known of another. Raises StatsError when no block is left.
    """
    check_confidence(confidence)
    given, labels = as_array(logs, "log-ratios"), np.asarray(sessions, dtype=np.int64)
    base = ratio_of_logs(given, confidence)
    there = ~np.isnan(given)
    found = nested_mean(given[there], labels[there])
    if found.sessions == 1:
        return base
    notes = [Note("sessions-alike")] if found.se == 0.0 else []
    warnings = (*(text for text in base.warnings if getattr(text, "code", "") != "one-block"), *notes)
    return _answer(replace(base, warnings=warnings), found, confidence, within_confidence)


def half_width_over_sessions(means: Array, sessions: Labels, confidence: float = 0.95) -> float | None:
    """Half the width of the interval of a mean of blocks' means, in their unit; None of a single session."""
    found = nested_mean(means, sessions)
    return None if found.sessions == 1 else _half(found, confidence)


def unpaired_over_sessions(
    treatment: tuple[Values, Values], baseline: tuple[Values, Values], confidence: float = 0.95
) -> Ratio | None:
    """Ratio treatment / baseline of two samples of sessions that share no block; None where a side has only one.

    Each side: (logarithms of its blocks, session of each). Welch's degrees of freedom (1947). n_sessions, n_blocks:
    of the smaller side. Raises StatsError when a side has no block.
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
    se, df = _welch((a.se, a.df), (b.se, b.df))
    within_se, within_df = _welch((a.within_se, a.within_df), (b.within_se, b.within_df))
    joint = Nested(
        a.mean - b.mean, min(a.sessions, b.sessions), min(a.blocks, b.blocks), se, df, within_se, within_df,
        math.hypot(a.between_sd, b.between_sd), a.next_variance + b.next_variance,
    )  # fmt: skip
    empty = Ratio(
        estimate=1.0, low=0.0, high=math.inf, confidence=confidence, n_blocks=joint.blocks, mean_log=0.0, se_log=0.0,
        df=0.0, p_value=1.0, outliers=(), warnings=(),
    )  # fmt: skip
    return _answer(empty, joint, confidence)


def _welch(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    """(standard error of the difference, degrees of freedom) of two means; one without noise adds nothing."""
    known = [each for each in (a, b) if each[1] > 0 and not math.isnan(each[0])]
    total = sum(se**2 for se, _ in known)
    if len(known) < 2:
        return math.nan, 0.0
    if total == 0.0:
        return 0.0, known[0][1] + known[1][1]
    return math.sqrt(total), total**2 / sum(se**4 / df for se, df in known)


def _half(found: Nested, confidence: float, within_confidence: float | None = None) -> float:
    """Half the width of the interval: the wider of that between sessions and that of the blocks."""
    half = t_quantile((1 + confidence) / 2, found.df) * found.se
    if found.within_df > 0:
        half = max(half, t_quantile((1 + (within_confidence or confidence)) / 2, found.within_df) * found.within_se)
    return half


def _answer(base: Ratio, found: Nested, confidence: float, within_confidence: float | None = None) -> Ratio:
    """The ratio with interval, test and prediction of a mean over sessions."""
    half = _half(found, confidence, within_confidence)
    within = (found.within_se, found.within_df) if found.within_df > 0 else None
    t = t_quantile((1 + confidence) / 2, found.df)
    reach = max(half, t * math.sqrt(found.next_variance + found.se**2))
    moved: dict[str, Any] = {
        "estimate": exp(found.mean), "low": exp(found.mean - half), "high": exp(found.mean + half),
        "mean_log": found.mean, "se_log": found.se, "df": found.df, "n_sessions": found.sessions, "within": within,
        "between_sd": found.between_sd, "predicted_low": exp(found.mean - reach),
        "predicted_high": exp(found.mean + reach),
    }  # fmt: skip
    ratio = replace(base, **moved)
    return replace(ratio, p_value=min(1.0, 2 * min(p_above(ratio, 0.0), p_below(ratio, 0.0))))
