"""Change points: the statistic against its definition, p-values against counting, several series as one family."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from vtax.stats.change_points import FEWEST, ChangePoint, _gains, change_points_of
from vtax.stats.checks import StatsError

pytestmark = pytest.mark.slow


def energy(a: list[float], b: list[float]) -> float:
    """n m / (n + m) times the energy distance as Matteson & James write it."""
    between = sum(abs(x - y) for x in a for y in b) * 2 / (len(a) * len(b))
    inner = [
        sum(abs(x - y) for x, y in combinations(part, 2)) * 2 / (len(part) * (len(part) - 1))
        for part in (a, b)
    ]
    return (between - sum(inner)) * len(a) * len(b) / (len(a) + len(b))


def test_the_statistic_is_the_scaled_energy_distance_in_any_order():
    values = np.random.default_rng(5).normal(size=9)
    order = np.random.default_rng(6).permutation(9)
    found = _gains(np.abs(values[:, None] - values), order[None, :])[0]
    there = values[order].tolist()
    assert found == pytest.approx([energy(there[:k], there[k:]) for k in range(2, 8)])


def test_eight_values_halved_have_the_p_value_of_two_in_seventy():
    ((found,),) = change_points_of([[0, 1, 2, 3, 100, 101, 102, 103]])
    assert found.index == 4
    assert found.p_value == pytest.approx(2 / 70, abs=0.012)


def test_fewer_values_have_no_change_point_whatever_they_are():
    assert change_points_of([[0.0] * 3 + [100.0] * 4, [0.0] * (FEWEST - 1), [], [1.0]]) == [
        (),
        (),
        (),
        (),
    ]


def test_several_changes_are_found_in_order():
    random = np.random.default_rng(7)
    values = np.concatenate([random.normal(level, 1, 15) for level in (0, 8, 3)])
    (found,) = change_points_of([values])
    assert [point.index for point in found] == [15, 30]
    assert all(isinstance(point, ChangePoint) and point.p_value <= 0.05 for point in found)


def test_equal_values_have_none():
    assert change_points_of([[2.0] * 12]) == [()]


def test_a_change_that_is_enough_for_one_series_is_not_for_one_of_many():
    change = [0, 1, 2, 3, 100, 101, 102, 103]
    random = np.random.default_rng(9)
    assert change_points_of([change])[0]
    assert change_points_of([change, *(random.normal(size=8) for _ in range(4))])[0] == ()


def test_the_same_values_give_the_same_answer():
    values = np.random.default_rng(10).normal(size=25) + np.repeat([0, 2], [12, 13])
    assert change_points_of([values]) == change_points_of([values])


@pytest.mark.parametrize("values", [[1.0, np.nan] * 5, [1.0, np.inf] * 5])
def test_what_is_no_number_is_refused(values):
    with pytest.raises(StatsError):
        change_points_of([values])


def test_where_neighbours_correlate_one_is_not_found_or_has_a_warning():
    random, found, sure = np.random.default_rng(10), 0, 0
    for _ in range(30):
        values = random.normal(size=20)
        for n in range(1, 20):
            values[n] = 0.6 * values[n - 1] + 0.8 * values[n]
        (points,) = change_points_of([values])
        found += bool(points)
        sure += any(point.is_sure for point in points)
    assert found <= 8  # of random orders alone about 15
    assert sure <= 4  # 2 expected


def test_a_clear_step_stands_without_a_warning():
    random = np.random.default_rng(11)
    values = random.normal(size=20) + np.repeat([0.0, 6.0], 10)
    (points,) = change_points_of([values])
    assert [(point.index, point.is_sure) for point in points] == [(10, True)]
