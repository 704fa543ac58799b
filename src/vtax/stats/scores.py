"""Scores of platforms over several resources with weights, and how sure their order is.

A score is a weighted mean of log efficiencies, so the logarithm of a weighted geometric mean of ratios. All figures
of one block share its hour, so their errors are joint: they are kept by unit (block, or session), for every platform
and every resource at once, and the interval of a difference is Student's t of the paired values, as in `ratio`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vtax.stats.assumptions import allow_for_dependence, dependence
from vtax.stats.checks import Array
from vtax.stats.intervals import Interval, t_quantile

FEWEST_UNITS = 2


@dataclass(frozen=True)
class Effects:
    """Means of what is weighted, with their joint error.

    means: shape (resources, platforms), log efficiencies. errors: shape (units, resources, platforms), the part of
    each unit in the error: the standard error of a mean is the root of its sum of squares. df: degrees of freedom.
    widening: factor of all errors for units that follow one another.
    """

    means: Array
    errors: Array
    df: int
    widening: float = 1.0

    def score(self, weights: Array) -> Array:
        """Return the score of every platform. weights: of the resources, with a sum of 1."""
        return np.asarray(weights @ self.means)

    def interval(
        self, weights: Array, platform: int, other: int | None, confidence: float
    ) -> Interval:
        """Student's interval of a platform's score, or of its difference to another's; infinite without errors."""
        side = np.zeros(self.means.shape[1])
        side[platform] = 1.0
        if other is not None:
            side[other] -= 1.0
        estimate = float(weights @ self.means @ side)
        if self.df < 1:
            return Interval(estimate, -math.inf, math.inf, confidence)
        error = self.widening * float(
            np.linalg.norm(np.einsum("urp,r,p->u", self.errors, weights, side))
        )
        half_width = t_quantile((1 + confidence) / 2, self.df) * error
        return Interval(estimate, estimate - half_width, estimate + half_width, confidence)


@dataclass(frozen=True)
class Item:
    """One figure of one resource. values: shape (platforms, units), log efficiencies; NaN where a unit lacks it.

    share: of the resource; those of a resource have a sum of 1.
    """

    resource: int
    share: float
    values: Array

    @property
    def complete(self) -> Array:
        """Which units have a value of every platform."""
        return np.asarray(~np.isnan(self.values).any(axis=0))


def effects_of(items: Sequence[Item], resources: int) -> Effects:
    """Return the effects of items that all have the same platforms and units; every item has at least one complete
    unit.

    df is that of the item with the fewest complete units, 0 where that is one.
    """
    platforms, units = items[0].values.shape
    means, errors = np.zeros((resources, platforms)), np.zeros((units, resources, platforms))
    counts = [int(item.complete.sum()) for item in items]
    for item, count in zip(items, counts, strict=True):
        complete_values = item.values[:, item.complete]
        mean = complete_values.mean(axis=1)
        means[item.resource] += item.share * mean
        if count >= FEWEST_UNITS:
            part = (complete_values - mean[:, None]) / math.sqrt(count * (count - 1))
            errors[item.complete, item.resource] += item.share * part.T
    return Effects(means, errors, min(counts) - 1)


def allow_for_order(
    effects: Effects, items: Sequence[Item], weights: Array
) -> tuple[Effects, float]:
    """Return the effects with errors widened where neighbouring units correlate, and that correlation, else 0.

    It is that of `assumptions.dependence`, for the differences of the scores to the first place, over the units that
    have all values.
    """
    complete = np.logical_and.reduce([item.complete for item in items])
    first = int(np.argmax(effects.score(weights)))
    total = sum(weights[item.resource] * item.share * item.values[:, complete] for item in items)
    differences = np.delete(np.asarray(total) - total[first], first, axis=0)
    correlation = max(dependence(list(differences)), default=0.0)
    if correlation <= 0:
        return effects, 0.0
    widening, df = allow_for_dependence(1.0, float(effects.df), int(complete.sum()), correlation)
    return Effects(effects.means, effects.errors, max(1, math.floor(df)), widening), correlation


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
