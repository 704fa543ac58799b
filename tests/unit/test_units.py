"""Bounds as they are printed."""

from __future__ import annotations

import math

import pytest

from vtax.units import safe_bound


@pytest.mark.parametrize(
    ("share", "least", "most"),
    [(0.1823, 0.18, 0.19), (0.07, 0.07, 0.07), (1.31, 1.3, 1.4), (-0.0333, -0.034, -0.033)],
)
def test_a_bound_is_true_as_it_is_printed(share, least, most):
    assert safe_bound(share, is_most=False) == pytest.approx(least)
    assert safe_bound(share, is_most=True) == pytest.approx(most)


def test_a_bound_that_is_no_number_of_digits_stays():
    assert safe_bound(0.0, is_most=True) == 0.0
    assert safe_bound(math.inf, is_most=True) == math.inf
