"""Hosts against the others: the deleted residual of one, the difference of means of several."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from vtax.stats.checks import StatsError
from vtax.stats.odd_hosts import against_the_others

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
