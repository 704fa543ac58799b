"""Scores of platforms over several resources with weights, and how sure their order is.

A score is a weighted mean of log efficiencies, so the logarithm of a weighted geometric mean of ratios. All figures
of one block share its hour, so their errors are joint: they are kept by unit (block, or session), for every platform
and every resource at once, and the interval of a difference is Student's t of the paired values, as in `ratio`.
A platform that was measured in fewer units has an error of its own units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from vtax.stats.assumptions import allow_for_dependence, dependence
from vtax.stats.checks import Array
from vtax.stats.intervals import Interval, t_quantile

FEWEST_UNITS = 2
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Effects:
    """Means of what is weighted, with their joint error.

    means: shape (resources, platforms), log efficiencies. errors: shape (units, resources, platforms), the part of
    each unit in the error: the standard error of a mean is the root of its sum of squares. counts: shape (resources,
    platforms), units of the item that has the fewest. correlation: of units that follow one another, else 0.
    """

    means: Array
    errors: Array
    counts: Ints
    correlation: float = 0.0

    def score(self, weights: Array) -> Array:
        """Return the score of every platform. weights: of the resources, with a sum of 1."""
        return np.asarray(weights @ self.means)

    def fewest_units(self, weights: Array, platforms: Sequence[int]) -> int:
        """Return the fewest units that a figure of some platforms is from. weights: as of `score`."""
        return int(self.counts[weights > 0][:, list(platforms)].min())

    def interval(
        self, weights: Array, platform: int, other: int | None, confidence: float
    ) -> Interval:
        """Student's interval of a platform's score, or of its difference to another's; infinite from a single unit.

        The two may have different units: what both share cancels, as far as they share it.
        """
        side = np.zeros(self.means.shape[1])
        side[platform] = 1.0
        if other is not None:
            side[other] -= 1.0
        estimate = float(weights @ self.means @ side)
        count = self.fewest_units(weights, np.flatnonzero(side).tolist())
        if count < FEWEST_UNITS:
            return Interval(estimate, -math.inf, math.inf, confidence)
        df = count - 1
        error = float(np.linalg.norm(np.einsum("urp,r,p->u", self.errors, weights, side)))
        if self.correlation > 0:
            error, wider_df = allow_for_dependence(error, float(df), count, self.correlation)
            df = min(df, math.floor(wider_df))
        half_width = t_quantile((1 + confidence) / 2, df) * error
        return Interval(estimate, estimate - half_width, estimate + half_width, confidence)


@dataclass(frozen=True)
class Item:
    """One figure of one resource. values: shape (platforms, units), log efficiencies; NaN where a unit lacks it.

    share: of the resource; those of a resource have a sum of 1.
    """

    resource: int
    share: float
    values: Array


def effects_of(items: Sequence[Item], resources: int) -> Effects:
    """Return the effects of items that all have the same platforms and units.

    Every platform has a value of every item in at least one unit. Its mean is of the units that it has: one that left
    a run early takes none from the others.
    """
    platforms, units = items[0].values.shape
    means, errors = np.zeros((resources, platforms)), np.zeros((units, resources, platforms))
    counts = np.full((resources, platforms), units)
    for item in items:
        has_value = ~np.isnan(item.values)
        count = has_value.sum(axis=1)
        mean = np.nanmean(item.values, axis=1)
        deviations = np.where(has_value, item.values - mean[:, None], 0.0)
        scale = np.sqrt(count * np.maximum(count - 1, 1))
        means[item.resource] += item.share * mean
        errors[:, item.resource] += item.share * (deviations / scale[:, None]).T
        counts[item.resource] = np.minimum(counts[item.resource], count)
    return Effects(means, errors, counts)


def allow_for_order(effects: Effects, items: Sequence[Item], weights: Array) -> Effects:
    """Return the effects with the correlation of neighbouring units, which widens their intervals.

    It is that of `assumptions.dependence`, for the differences of the scores to the first place, each over the units
    that have all values of both; of a single platform, for its score.
    """
    scores = np.asarray(sum(weights[item.resource] * item.share * item.values for item in items))
    first = int(np.argmax(effects.score(weights)))
    series = scores
    if len(scores) > 1:
        series = np.delete(scores - scores[first], first, axis=0)
    correlation = max(dependence([logs[~np.isnan(logs)] for logs in series]))
    return replace(effects, correlation=correlation)


@dataclass(frozen=True)
class Crossing:
    """The weight of a resource, the others as they are, at which another platform overtakes the first one.

    above: whether it is ahead with more weight than that, or with less. low, high: the weights between which neither
    is ahead with the confidence that was asked for; None where no weight decides.
    """

    resource: int
    platform: int
    weight: float
    above: bool


def crossings(means: Array, weights: Array) -> list[Crossing]:
    """For every resource the nearest weight above and below its own that changes the first place.

    means: shape (resources, platforms). weights: as they were given, not as shares. The score of a platform is linear
    in one weight, so its lead is, and crosses zero once at most.
    """
    first = int(np.argmax(weights @ means))
    leads = means[:, [first]] - means  # of the first one over each platform
    nearest_crossings: list[Crossing] = []
    for resource in np.flatnonzero(
        weights < weights.sum()
    ).tolist():  # alone, a weight changes nothing
        rest_of_lead = (weights @ leads) - weights[resource] * leads[resource]
        nearest: dict[bool, Crossing] = {}
        for platform in range(means.shape[1]):
            slope = leads[resource, platform]
            if platform == first or abs(slope) < 1e-12:
                continue
            at = float(-rest_of_lead[platform] / slope)
            above = slope < 0
            if at < 0 or (at < weights[resource]) == above:
                continue
            nearest_crossing = nearest.get(above)
            if nearest_crossing is None or abs(at - weights[resource]) < abs(
                nearest_crossing.weight - weights[resource]
            ):
                nearest[above] = Crossing(resource, platform, at, above)
        nearest_crossings += nearest.values()
    return nearest_crossings
