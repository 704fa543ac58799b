"""Scores of weighted resources: their intervals are Student's t, weights switch places where they cross."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from vtax.stats.scores import (
    Item,
    allow_for_order,
    crossings,
    effects_of,
)

EQUAL = np.array([0.5, 0.5])


def items(*values: list[list[float]]) -> list[Item]:
    return [Item(resource, 1.0, np.array(each)) for resource, each in enumerate(values)]


def noise(platforms: int, units: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, (platforms, units))


@pytest.mark.parametrize("units", [2, 3, 5, 12])
def test_the_difference_of_two_platforms_is_that_of_students_t(units):
    values = [noise(2, units, seed) + np.array([[0.05], [0.0]]) for seed in (1, 2)]
    effects = effects_of([Item(n, 1.0, each) for n, each in enumerate(values)], 2)
    difference = (values[0][0] - values[0][1] + values[1][0] - values[1][1]) / 2
    interval = effects.interval(EQUAL, 0, 1, 0.95)
    assert interval.estimate == pytest.approx(difference.mean())
    half = special.stdtrit(units - 1, 0.975) * difference.std(ddof=1) / math.sqrt(units)
    assert (interval.high - interval.low) / 2 == pytest.approx(half)


def test_what_a_block_does_to_all_platforms_cancels():
    hour = 10 * noise(1, 8)
    alone = effects_of([Item(0, 1.0, noise(3, 8, 2))], 1)
    together = effects_of([Item(0, 1.0, noise(3, 8, 2) + hour)], 1)
    one = np.ones(1)
    assert together.interval(one, 0, 1, 0.95).high == pytest.approx(
        alone.interval(one, 0, 1, 0.95).high
    )


def test_what_resources_of_a_block_share_does_not_average_out():
    same = noise(2, 6)
    twice = effects_of([Item(0, 1.0, same), Item(1, 1.0, same)], 2)
    once = effects_of([Item(0, 1.0, same)], 1)
    assert twice.interval(EQUAL, 0, 1, 0.95).high == pytest.approx(
        once.interval(np.ones(1), 0, 1, 0.95).high
    )


def test_an_item_without_some_units_uses_the_others():
    first, second = noise(2, 6, 1), noise(2, 6, 2)
    second[1, 4] = np.nan
    effects = effects_of([Item(0, 1.0, first), Item(1, 1.0, second)], 2)
    assert effects.counts.tolist() == [[6, 6], [6, 5]]
    assert effects.means[1] == pytest.approx([second[0].mean(), np.delete(second[1], 4).mean()])
    assert effects.means[0] == pytest.approx(first.mean(axis=1))


def test_a_platform_that_left_early_changes_nothing_of_the_others():
    """Walks, so that the correlation of neighbours widens intervals: it is found without the one that left."""
    walk, one = np.cumsum(noise(4, 24), axis=1), np.ones(1)
    walk[0] -= walk[0].mean() + 1
    walk[3, 3:] = np.nan
    together, without = [Item(0, 1.0, walk)], [Item(0, 1.0, walk[:3])]
    effects = allow_for_order(effects_of(together, 1), together, one)
    others = allow_for_order(effects_of(without, 1), without, one)
    assert effects.correlation == others.correlation > 0
    for other in (None, 1):
        interval, expected = (each.interval(one, 0, other, 0.95) for each in (effects, others))
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert effects.interval(one, 3, None, 0.95).estimate == pytest.approx(walk[3, :3].mean())


@pytest.mark.parametrize(("left", "correlation"), [(3, 0.0), (6, 0.0), (3, 0.9), (6, 0.9)])
def test_the_interval_of_a_difference_to_one_that_left_early_holds(left, correlation):
    """correlation: of the platforms within a unit, by what their ratios to the baseline share."""
    random, held, runs, one = np.random.default_rng(5), 0, 2000, np.ones(1)
    for _ in range(runs):
        shared = math.sqrt(correlation) * random.normal(0, 1, (1, 12))
        values = shared + math.sqrt(1 - correlation) * random.normal(0, 1, (2, 12))
        values[1, left:] = np.nan
        interval = effects_of([Item(0, 1.0, values)], 1).interval(one, 0, 1, 0.95)
        held += interval.low <= 0 <= interval.high
    assert held / runs > 0.94


def test_platforms_that_share_no_unit_are_two_samples():
    values = noise(2, 8)
    values[0, :4] = values[1, 4:] = np.nan
    interval = effects_of([Item(0, 1.0, values)], 1).interval(np.ones(1), 0, 1, 0.95)
    first, second = values[0, 4:], values[1, :4]
    assert interval.estimate == pytest.approx(first.mean() - second.mean())
    error = math.sqrt(first.var(ddof=1) / 4 + second.var(ddof=1) / 4)
    assert interval.high - interval.estimate == pytest.approx(special.stdtrit(3, 0.975) * error)


def test_one_unit_has_a_score_and_no_interval():
    effects = effects_of(items([[0.1], [0.2]]), 1)
    assert effects.fewest_units(np.ones(1), [1]) == 1
    assert effects.interval(np.ones(1), 1, None, 0.95).estimate == pytest.approx(0.2)
    assert math.isinf(effects.interval(np.ones(1), 1, None, 0.95).high)


def test_dependent_units_widen():
    random = np.random.default_rng(3)
    walk = np.cumsum(random.normal(0, 0.1, (2, 20)), axis=1)
    values = [Item(0, 1.0, walk)]
    plain = effects_of(values, 1)
    widened = allow_for_order(plain, values, np.ones(1))
    assert widened.correlation > 0.3
    assert (
        widened.interval(np.ones(1), 0, 1, 0.95).high > plain.interval(np.ones(1), 0, 1, 0.95).high
    )
    independent = [Item(0, 1.0, noise(2, 20, 7))]
    of_independent = allow_for_order(effects_of(independent, 1), independent, np.ones(1))
    assert of_independent.correlation == 0.0


def test_a_weight_switches_the_first_place_where_scores_cross():
    means = np.array(
        [[0.0, -0.1, -3.0], [-0.3, 0.0, -3.0]]
    )  # the first wins resource 0, the second resource 1
    weights = np.array([4.0, 1.0])
    found = {(each.resource, each.above): each for each in crossings(means, weights)}
    assert set(found) == {(0, False), (1, True)}
    assert found[(0, False)].weight == pytest.approx(3.0)
    assert found[(1, True)].weight == pytest.approx(4 / 3)
    for (resource, above), each in found.items():
        for factor in (0.99, 1.01):
            moved = weights.copy()
            moved[resource] = each.weight * factor
            assert int(np.argmax(moved @ means)) == (each.platform if (factor > 1) == above else 0)


def test_no_weight_changes_what_is_best_everywhere_or_alone():
    assert crossings(np.array([[0.0, -0.1], [0.0, -0.2]]), EQUAL) == []
    assert crossings(np.array([[0.0, -0.1], [0.0, 0.3]]), np.array([1.0, 0.0]))[0].resource == 1
