"""The trend functions give the numbers of scipy.stats, with and without ties, for few and many values."""

import numpy as np
import pytest
from scipy import stats

from vtax.stats.trend import kendall_p, theil_sen

rng = np.random.default_rng(20)
SAMPLES = {
    "few": (np.arange(4.0), np.array([3.0, 1.0, 4.0, 2.0])),
    "exact": (np.arange(12.0), rng.standard_normal(12)),
    "last exact": (np.arange(33.0), rng.standard_normal(33) + 0.05 * np.arange(33)),
    "first approximate": (np.arange(34.0), rng.standard_normal(34)),
    "long": (np.arange(300.0), rng.standard_normal(300)),
    "ties": (np.arange(20.0), rng.integers(0, 6, 20).astype(float)),
    "ties in both": (rng.integers(0, 6, 40).astype(float), rng.integers(0, 6, 40).astype(float)),
    "gaps": (np.sort(rng.choice(1000, 25, replace=False)).astype(float), rng.standard_normal(25)),
    "rising": (np.arange(60.0), np.arange(60.0) ** 2),
    "one pair out of order": (np.arange(60.0), np.r_[np.arange(58.0), 59.0, 58.0]),
    "falling": (np.arange(9.0), -np.arange(9.0)),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_slope_and_interval_are_those_of_scipy(name, confidence):
    x, y = SAMPLES[name]
    expected = stats.theilslopes(y, x, alpha=confidence)
    found = theil_sen(x, y, confidence)
    assert (found.estimate, found.low, found.high) == pytest.approx(
        (expected.slope, expected.low_slope, expected.high_slope), rel=1e-12, abs=1e-12
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_p_value_is_that_of_scipy(name):
    x, y = SAMPLES[name]
    assert kendall_p(x, y) == pytest.approx(stats.kendalltau(x, y).pvalue, rel=1e-12, abs=1e-300)


def test_p_values_of_many_short_series_are_those_of_scipy():
    for n in range(4, 40):
        y = rng.standard_normal(n)
        expected = stats.kendalltau(np.arange(n), y).pvalue
        assert kendall_p(np.arange(float(n)), y) == pytest.approx(expected, rel=1e-12)
