"""How many times another a quantity is, from ratios formed within blocks.

What two platforms share in a block (the hour, the heat, the neighbours) cancels in the ratio. Noise of computers is
multiplicative, so ratios are averaged as logarithms: the estimate is the geometric mean of the blocks' ratios, and
swapping the two sides gives exactly the inverse. The difference of two logarithms with the same noise is symmetric
whatever that noise looks like, which is why Student's t holds here with ten blocks (docs/proof.md has the
figures).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from vtax.described import Means, Warnings
from vtax.messages import Note
from vtax.stats.assumptions import unequal_noise
from vtax.stats.checks import (
    Array,
    Better,
    StatsError,
    Values,
    as_array,
    check_confidence,
    check_positive,
    positive_logs,
    without_missing,
)
from vtax.stats.describe import OUTLIER_Z, modified_z, outlier_warnings
from vtax.stats.intervals import Interval, t_quantile, t_tail
from vtax.stats.means import sd_of

Indices = npt.NDArray[np.int64]

LARGEST_LOG = math.log(sys.float_info.max)


@dataclass(frozen=True)
class Nesting:
    """One level of blocks that are nested in sessions, and these in hosts."""

    unit: Annotated[str, Means("`host`, `session` or `block`")]
    count: Annotated[int, Means("how many there are")]
    sd: Annotated[
        float,
        Means("standard deviation of the logarithm from one to the next, what is below left out"),
    ]
    share: Annotated[float, Means("share of the sum of the variances of all levels")]
    se: Annotated[float, Means("standard error of the mean if the levels above did not differ")]
    df: Annotated[float, Means("degrees of freedom of that")]
    low: Annotated[float, Means("lower bound of the ratio then, never above that of a level below")]
    high: Annotated[float, Means("upper bound of it")]


@dataclass(frozen=True)
class Loss:
    """Bounds of a loss, as shares of the baseline's time or cost for the same work: 0.05 is 5 % more.

    A rate of 1 / 1.05 is a loss of 5 %, as is a time of 1.05. Negative: it gains.
    """

    at_least: Annotated[float, Means("lower bound of it, one-sided: 97.5 % by default")]
    at_most: Annotated[float | None, Means("upper bound of it, likewise; null without one")]
    at_most_family: Annotated[
        float | None,
        Means("upper bound that holds for all comparisons of the family at once; null without one"),
    ]


OfLoss = Annotated[
    Loss | None,
    Means("bounds of what it costs more than the baseline, as shares; null without a ratio"),
]
"""A loss beside its ratio."""


@dataclass(frozen=True)
class Ratio:
    """Treatment / baseline, by log-ratios of blocks.

    From a single block the interval is 0 to inf, the p-value 1 and the standard error nan. Interval and tests allow
    for a skewness that is not 0 (`skewed_t`); with several sessions or hosts they hold with and without differences
    of these (`sessions`).
    """

    estimate: Annotated[float, Means("geometric mean of the ratios within blocks")]
    low: Annotated[float, Means("bounds of its t-interval")]
    high: Annotated[float, Means("bounds of its t-interval")]
    confidence: Annotated[float, Means("confidence level of it")]
    n_blocks: Annotated[int, Means("blocks with both sides")]
    mean_log: Annotated[float, Means("mean of the logarithms")]
    se_log: Annotated[
        float, Means("standard error of it; with several sessions or hosts that between them")
    ]
    df: Annotated[float, Means("degrees of freedom of that")]
    p_value: Annotated[float, Means("of the t-test that the ratio is 1, two-sided")]
    outliers: Annotated[
        tuple[int, ...], Means("positions of blocks of modified z above 3.5, which are kept")
    ]
    warnings: Warnings
    skewness: Annotated[
        float, Means("skewness of the logarithms that the interval allows for, else 0")
    ] = 0.0
    effective_blocks: Annotated[
        float | None,
        Means("independent blocks that the blocks are worth; null where they are independent"),
    ] = None
    n_sessions: Annotated[
        int, Means("sessions that its blocks are of; with several they are the unit")
    ] = 1
    n_hosts: Annotated[
        int, Means("hosts that its blocks are of; with several they are the unit")
    ] = 1
    nesting: Annotated[
        tuple[Nesting, ...],
        Means("what its blocks are nested in, from the unit down; empty for one session"),
    ] = ()
    predicted_low: Annotated[
        float | None,
        Means(
            "lower bound of the ratio of one more session, or of one more host; null for one session"
        ),
    ] = None
    predicted_high: Annotated[float | None, Means("upper bound of it")] = None
    family_low: Annotated[
        float, Means("bounds that hold for all comparisons of its family at once (Bonferroni)")
    ] = 0.0
    family_high: Annotated[float, Means("bounds that hold for all comparisons of its family")] = (
        math.inf
    )

    @property
    def units(self) -> int:
        """How many of what is the unit there are."""
        return self.nesting[0].count if self.nesting else self.n_blocks

    @property
    def errors(self) -> tuple[tuple[float, float], ...]:
        """The standard error and degrees of freedom of the mean between units, and of each level below: all must hold."""
        return ((self.se_log, self.df), *((level.se, level.df) for level in self.nesting[1:]))

    @property
    def of_these_hosts(
        self,
    ) -> Annotated[
        Interval | None,
        Means("for these hosts alone; null for one host, and for one session a host"),
    ]:
        """The ratio with the interval over sessions; `low` and `high` are of hosts like these."""
        for level in self.nesting[1:]:
            if level.unit == "session" and self.n_hosts > 1:
                return Interval(self.estimate, level.low, level.high, self.confidence, ())
        return None

    @property
    def half_width(self) -> float:
        """Half the width of the interval relative to the estimate: what the rule `precision` looks at."""
        if not 0 < self.estimate < math.inf:  # beyond what a float holds
            return math.inf
        return (self.high - self.low) / (2 * self.estimate)

    @property
    def inverse(self) -> Ratio:
        """The ratio baseline / treatment."""
        nesting = []
        for level in self.nesting:
            nesting.append(replace(level, low=_inverse(level.high), high=_inverse(level.low)))
        return replace(
            self,
            estimate=exp(-self.mean_log),
            low=_inverse(self.high),
            high=_inverse(self.low),
            mean_log=-self.mean_log,
            skewness=-self.skewness,
            predicted_low=_inverse(self.predicted_high),
            predicted_high=_inverse(self.predicted_low),
            family_low=_inverse(self.family_high),
            family_high=_inverse(self.family_low),
            nesting=tuple(nesting),
        )

    def efficiency(self, better: Better) -> Interval:
        """Return the performance as a share of the baseline's: the ratio of a rate, the inverse ratio of a time."""
        share = self if better == "higher" else self.inverse
        return Interval(share.estimate, share.low, share.high, self.confidence, self.warnings)

    def overhead(self, better: Better) -> Interval:
        """Return 1 - efficiency: the share of the baseline's performance that is lost (negative: gained)."""
        e = self.efficiency(better)
        return Interval(1 - e.estimate, 1 - e.high, 1 - e.low, self.confidence, self.warnings)

    def loss(self, better: Better) -> Loss:
        """Return the bounds of what the treatment costs more than the baseline: the ends of its intervals."""
        cost = self.inverse if better == "higher" else self
        return Loss(cost.low - 1, _loss(cost.high), _loss(cost.family_high))


def _loss(bound: float) -> float | None:
    """Return the loss at the bound of a cost; None without a bound."""
    return bound - 1 if math.isfinite(bound) else None


def _inverse(bound: Any) -> Any:
    """Return the inverse of a bound; None of None."""
    if bound is None:
        return None
    return 1 / bound if bound > 0 else math.inf


def paired_ratio(treatment: Values, baseline: Values, confidence: float = 0.95) -> Ratio:
    """Return the ratio of two arrays with one value per block, aligned: element i of both is from the same block.

    NaN marks a block without a value: the pair is left out, with a warning, as is one with a zero or a negative.
    Raises StatsError on unequal lengths, no pairs, infinities, and where half of a side or more are not positive.
    """
    return ratio_of_logs(log_ratios(treatment, baseline), confidence)


def log_ratios(treatment: Values, baseline: Values) -> Array:
    """Return the natural logarithm of treatment / baseline per block; NaN where either is NaN or not positive.

    Raises StatsError as `paired_ratio` does.
    """
    numerator = as_array(treatment, "values of the platform")
    denominator = as_array(baseline, "values of the baseline")
    if numerator.size != denominator.size:
        raise StatsError(
            f"{numerator.size} blocks of the platform do not pair with {denominator.size} of the baseline"
        )
    treatment_logs = positive_logs(numerator, "values of the platform")
    return np.asarray(treatment_logs - positive_logs(denominator, "values of the baseline"))


@dataclass(frozen=True)
class BlockMeans:
    """Means of a cell: one for every block that it has. blocks: their numbers, ascending."""

    blocks: Indices
    means: Array


def block_contrast(treatment: BlockMeans, baseline: BlockMeans | None = None) -> Array:
    """Return one log-ratio for every block that either side has, NaN where a block has only one of the two.

    Without a baseline, the logarithms of the means themselves. The one way from block means to what a stopping rule
    and a report judge. Raises StatsError for means that are too large, and as `log_ratios` does; without a baseline
    for every mean that is not positive.
    """
    if baseline is None:
        means = as_array(treatment.means)
        check_positive(means, "values")
        return np.asarray(np.log(means))
    if np.array_equal(treatment.blocks, baseline.blocks):
        return log_ratios(treatment.means, baseline.means)
    blocks = np.union1d(treatment.blocks, baseline.blocks)
    sides = np.full((2, blocks.size), np.nan)
    for line, side in zip(sides, (treatment, baseline), strict=True):
        line[np.searchsorted(blocks, side.blocks)] = side.means
    return log_ratios(sides[0], sides[1])


def noise_ratio(treatment: BlockMeans, baseline: BlockMeans) -> float:
    """Return how many times noisier the treatment is than the baseline, over the blocks that both have.

    It is 1 where the difference may be chance (`unequal_noise`). Raises StatsError for means that are not positive or
    too large.
    """
    sides = _common_logs(treatment, baseline)
    return unequal_noise(*sides) if sides[0].size else 1.0


def _common_logs(treatment: BlockMeans, baseline: BlockMeans) -> tuple[Array, Array]:
    """Return the logarithms of both sides over the blocks that both have."""
    a, b = as_array(treatment.means), as_array(baseline.means)
    if not np.array_equal(treatment.blocks, baseline.blocks):
        _, left_places, right = np.intersect1d(
            treatment.blocks, baseline.blocks, return_indices=True
        )
        a, b = a[left_places], b[right]
    a_logs, b_logs = positive_logs(a, "values"), positive_logs(b, "values")
    is_known = ~np.isnan(a_logs + b_logs)
    return a_logs[is_known], b_logs[is_known]


def ratio_of_logs(logs: Values, confidence: float = 0.95) -> Ratio:
    """Return the ratio of one log-ratio per block. NaN: no such block."""
    check_confidence(confidence)
    all_logs = as_array(logs, "log-ratios")
    array, warnings = without_missing(all_logs, "blocks")
    positions = np.flatnonzero(~np.isnan(all_logs))
    n, mean = array.size, float(array.mean())
    outlying = positions[:0]
    if n >= 5:
        outlying = positions[np.abs(modified_z(array)) > OUTLIER_Z]
    warnings = (*warnings, *outlier_warnings(outlying.size, n, "blocks"))
    if n == 1:
        return of_one_block(mean, confidence, warnings)
    se = standard_error(array)
    if se == 0.0:
        warnings = (*warnings, Note("equal-ratios"))
    outliers = tuple(outlying.tolist())
    return ratio_of_mean(mean, se, n - 1, confidence, n, warnings, outliers)


def ratio_of_mean(
    mean: float,
    se: float,
    df: float,
    confidence: float,
    n_blocks: int,
    warnings: tuple[str, ...],
    outliers: tuple[int, ...] = (),
) -> Ratio:
    """Return the ratio of a mean of logarithms with its standard error, by Student's t."""
    half_width = t_quantile((1 + confidence) / 2, df) * se
    return Ratio(
        estimate=exp(mean),
        low=exp(mean - half_width),
        high=exp(mean + half_width),
        confidence=confidence,
        n_blocks=n_blocks,
        mean_log=mean,
        se_log=se,
        df=df,
        p_value=min(1.0, 2 * tail(abs(mean), se, df)),
        outliers=outliers,
        warnings=warnings,
    )


def of_one_block(mean: float, confidence: float, warnings: tuple[str, ...]) -> Ratio:
    """Return the ratio of a single block, which has an estimate and no interval.

    mean: its logarithm.
    confidence: level that an interval would have.
    warnings: about the block, which get one more.
    """
    warnings = (*warnings, Note("one-block"))
    return Ratio(exp(mean), 0.0, math.inf, confidence, 1, mean, math.nan, 0.0, 1.0, (), warnings)


def widened(ratio: Ratio, level: float, se: float, df: float, skewness: float = 0.0) -> Ratio:
    """Return the ratio with another standard error and degrees of freedom, and its interval of that level.

    skewness: allow for it as well. The interval is then the hull of Student's and of Hall's (On the removal of
    skewness by transformation, J. R. Statist. Soc. B 1992): his alone covers too little of heavy tails.
    """
    if not (ratio.n_blocks > 1 and se > 0):
        return ratio
    below, above = quantiles(level, df, skewness, ratio.n_blocks)
    widened_ratio = replace(
        ratio,
        low=exp(ratio.mean_log - below * se),
        high=exp(ratio.mean_log + above * se),
        se_log=se,
        df=df,
        skewness=skewness,
    )
    return replace(
        widened_ratio,
        p_value=min(1.0, 2 * min(1.0, p_above(widened_ratio, 0.0), p_below(widened_ratio, 0.0))),
    )


def quantiles(level: float, df: float, skewness: float, n: int) -> tuple[float, float]:
    """Return how many standard errors an interval of n values reaches below their mean, and above it; see `widened`."""
    t = t_quantile((1 + level) / 2, df)
    return max(t, unskewed_t(t, skewness, n)), max(t, -unskewed_t(-t, skewness, n))


def p_above(ratio: Ratio, point: float) -> float:
    """Return the one-sided p-value against a log-ratio of `point` or less: small when the ratio is above it."""
    return _p(ratio.mean_log - point, ratio, ratio.skewness)


def p_below(ratio: Ratio, point: float) -> float:
    """Return the one-sided p-value against a log-ratio of `point` or more."""
    return _p(point - ratio.mean_log, ratio, -ratio.skewness)


def _p(distance: float, ratio: Ratio, skewness: float) -> float:
    if ratio.nesting:
        return max(tail(distance, *error) for error in ratio.errors)
    if ratio.se_log == 0.0 or not skewness:
        return tail(distance, ratio.se_log, ratio.df)
    t = distance / ratio.se_log
    return t_tail(min(t, skewed_t(t, skewness, ratio.n_blocks)), ratio.df)


def skewed_t(t: float, skewness: float, n: int) -> float:
    """Return Hall's transformation of t, which makes Student's t of n skewed values nearly symmetric."""
    a = skewness / math.sqrt(n)
    return t + a * t * t / 3 + a * a * t**3 / 27 + a / 6


def unskewed_t(t: float, skewness: float, n: int) -> float:
    """Return the inverse of `skewed_t`."""
    a = skewness / math.sqrt(n)
    if abs(a) < 1e-6:
        return t
    return 3 / a * (math.cbrt(1 + a * (t - a / 6)) - 1)


def exp(logarithm: float) -> float:
    """Return e to the power of a logarithm; infinity where a float cannot hold it."""
    return math.exp(logarithm) if logarithm < LARGEST_LOG else math.inf


def standard_error(logs: Array) -> float:
    """Return the standard error of the mean of log-ratios; exactly 0 when they differ by no more than rounding does."""
    if float(np.ptp(logs)) <= 1e-13 * max(1.0, float(np.abs(logs).max())):
        return 0.0
    return sd_of(logs) / math.sqrt(logs.size)


def tail(distance: float, se: float, df: float) -> float:
    """Return P(T >= distance / se) of df degrees of freedom; without noise 0 beyond zero, 1 below it, 0.5 at it."""
    if se == 0.0:
        return 0.5 if abs(distance) <= 1e-13 else float(distance < 0)
    return t_tail(distance / se, df)
