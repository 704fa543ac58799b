"""Fairness: Jain's index by its definition, and the lowest share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtax.stats.checks import StatsError
from vtax.stats.fairness import jain, lowest_share

shares = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=16)


@given(shares)
def test_the_index_is_one_over_one_plus_the_squared_variation(values):
    """Jain, Chiu and Hawe 1984: f = 1 / (1 + COV^2), an independent way to compute it."""
    variation = np.std(values) / np.mean(values)
    assert jain(values) == pytest.approx(1 / (1 + variation**2))


def test_known_cases():
    assert jain([5.0, 5.0, 5.0]) == pytest.approx(1)
    assert jain([1.0, 1e-12, 1e-12, 1e-12]) == pytest.approx(0.25)
    assert jain([1e90, 1e90]) == pytest.approx(1)
    assert lowest_share([2.0, 8.0]) == 0.25


@given(shares)
def test_both_are_between_zero_and_one(values):
    assert 1 / len(values) - 1e-9 <= jain(values) <= 1 + 1e-9
    assert 0 < lowest_share(values) <= 1


@pytest.mark.parametrize("function", [jain, lowest_share])
def test_nothing_and_zero_have_no_share(function):
    with pytest.raises(StatsError):
        function([1.0, 0.0])
