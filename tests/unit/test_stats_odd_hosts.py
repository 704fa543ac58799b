"""Hosts against the others: the deleted residual of one, the difference of means of several."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from vtax.stats.checks import StatsError
from vtax.stats.odd_hosts import against_the_others, p_of_hosts

OTHERS = np.array([0.01, -0.02, 0.03, 0.00, -0.01])


@pytest.mark.slow
def test_one_host_is_judged_by_the_scatter_of_the_others_alone():
    found = against_the_others([0.2], OTHERS)
    import statsmodels.api as sm

    values = np.append(OTHERS, 0.2)
    residual = sm.OLS(values, np.ones(6)).fit().get_influence().resid_studentized_external[-1]
    assert found.p_value == pytest.approx(2 * stats.t.sf(residual, 4))
    half = stats.t.ppf(0.975, 4) * OTHERS.std(ddof=1) * math.sqrt(1 + 1 / 5)
    assert math.log(found.high) == pytest.approx(0.2 - OTHERS.mean() + half)


def test_several_are_the_difference_of_two_means():
    found, expected = against_the_others([0.2, 0.22], OTHERS), stats.ttest_ind([0.2, 0.22], OTHERS)
    bounds = expected.confidence_interval(0.95)
    assert math.log(found.estimate) == pytest.approx(0.21 - np.mean(OTHERS))
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((bounds.low, bounds.high))


def test_a_false_alarm_is_as_rare_as_it_says():
    draw = np.random.default_rng(3)
    found = [
        against_the_others(draw.standard_normal(1), draw.standard_normal(5)).p_value
        for _ in range(800)
    ]
    assert 0.03 < np.mean(np.array(found) < 0.05) < 0.07


def test_performance_is_the_inverse_where_less_is_better():
    found = against_the_others([0.2], OTHERS)
    assert found.efficiency("lower").high == pytest.approx(1 / found.low)
    assert found.efficiency("higher").low == found.low


def test_too_few_others_show_nothing():
    with pytest.raises(StatsError):
        against_the_others([0.2], OTHERS[:2])


ROSNER = (
    -0.25, 0.68, 0.94, 1.15, 1.20, 1.26, 1.26, 1.34, 1.38, 1.43, 1.49, 1.49, 1.55, 1.56, 1.58, 1.65, 1.69, 1.70,
    1.76, 1.77, 1.81, 1.91, 1.94, 1.96, 1.99, 2.06, 2.09, 2.10, 2.14, 2.15, 2.23, 2.24, 2.26, 2.35, 2.37, 2.40,
    2.47, 2.54, 2.62, 2.64, 2.90, 2.92, 2.92, 2.93, 3.21, 3.26, 3.30, 3.59, 3.68, 4.30, 4.64, 5.34, 5.42, 6.01,
)  # fmt: skip
"""The vitamin E example of Rosner (Technometrics 1983), in which three values are outliers at 5 %."""


def test_the_example_of_rosner_has_its_three_outliers():
    odd = [value for value, p in zip(ROSNER, p_of_hosts(ROSNER), strict=True) if p <= 0.05]
    assert odd == [5.34, 5.42, 6.01]


def test_odd_hosts_do_not_hide_one_another_up_to_a_third():
    alike = [0.01, -0.02, 0.03, 0.0, -0.01, 0.02, -0.03]
    found = p_of_hosts([-0.3, -0.31, -0.29, *alike])
    assert max(found[:3]) <= 0.05 < min(found[3:])
    found = p_of_hosts([-0.3, -0.31, -0.29, -0.32, *alike])
    assert min(found) > 0.05


def test_alike_hosts_have_no_odd_one_and_equal_ones_neither():
    assert p_of_hosts([0.5] * 6) == [1.0] * 6
    draw = np.random.default_rng(5)
    found = [min(p_of_hosts(draw.standard_normal(10))) <= 0.05 for _ in range(800)]
    assert 0.03 < np.mean(found) < 0.07


def test_the_only_other_host_among_equal_ones_is_odd():
    assert p_of_hosts([0.0, 0.0, 0.0, 0.0, 0.2])[-1] < 1e-9


def test_four_hosts_are_too_few():
    with pytest.raises(StatsError):
        p_of_hosts([0.0, 0.1, 0.2, 0.9])
