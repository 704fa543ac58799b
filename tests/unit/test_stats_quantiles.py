"""Intervals of quantiles: exact for independent values, wider for values of blocks, open where no value can bound."""

import math

import numpy as np
import pytest
from scipy import stats

from vtax.stats.intervals import Interval
from vtax.stats.quantiles import fewest_values, quantile_interval, ratio_of_quantiles, worth


@pytest.mark.parametrize("n", [20, 100, 500])
@pytest.mark.parametrize("p", [0.5, 0.95, 0.99])
def test_ranks_of_independent_values_are_those_of_the_binomial(n, p):
    found = quantile_interval(np.arange(1.0, n + 1), np.arange(n), p)
    below = [rank for rank in range(1, n + 1) if stats.binom.cdf(rank - 1, n, p) <= 0.025]
    above = [rank for rank in range(1, n + 1) if stats.binom.sf(rank - 1, n, p) <= 0.025]
    assert found.low == (below[-1] if below else -math.inf)
    assert found.high == (above[0] if above else math.inf)
    assert found.low <= found.estimate <= found.high


@pytest.mark.parametrize(("p", "fewest"), [(0.5, 6), (0.95, 72), (0.99, 368)])
def test_an_upper_bound_needs_enough_values(p, fewest):
    assert fewest_values(p) == fewest
    enough, few = (
        quantile_interval(np.arange(n, dtype=float), np.arange(n), p) for n in (fewest, fewest - 1)
    )
    assert math.isfinite(enough.high)
    assert math.isinf(few.high) or math.isinf(few.low)


def test_values_that_are_alike_in_blocks_are_worth_fewer():
    blocks = np.repeat(np.arange(10), 20)
    alike = (blocks >= 5).astype(float)
    assert worth(alike, blocks, 0.5, 0.95) < 10
    mixed = np.tile([0.0, 1.0], 100)
    assert worth(mixed, blocks, 0.5, 0.95) == 200


def test_a_ratio_of_quantiles_is_as_in_zou_and_donner_and_swaps():
    a, b = Interval(4.0, 2.0, 8.0, 0.95), Interval(1.0, 0.5, 4.0, 0.95)
    found, back = ratio_of_quantiles(a, b), ratio_of_quantiles(b, a)
    assert found.estimate == pytest.approx(4.0)
    assert np.log(4 / found.low) == pytest.approx(np.hypot(np.log(2), np.log(4)))
    assert np.log(found.high / 4) == pytest.approx(np.hypot(np.log(2), np.log(2)))
    assert (back.low, back.high) == pytest.approx((1 / found.high, 1 / found.low))
    assert ratio_of_quantiles(Interval(4.0, 2.0, math.inf, 0.95), b).high == math.inf
    assert ratio_of_quantiles(a, Interval(1.0, 0.5, math.inf, 0.95)).low == 0
