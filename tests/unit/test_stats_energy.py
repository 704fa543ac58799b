"""Energy distance: against a case by hand, the definition, and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import energy_distance

from vtax.stats.checks import StatsError
from vtax.stats.energy import one_against_the_rest


def test_a_case_by_hand():
    # X = {0, 1}, Y = {3}: 2 E|X - Y| = 2 (3 + 2) / 2 = 5; E|X - X'| = (0 + 1 + 1 + 0) / 4 = 1/2; E|Y - Y'| = 0
    assert one_against_the_rest([[0, 1], [3]]) == pytest.approx([math.sqrt(4.5)] * 2)
    shift = math.log(1.1)
    assert one_against_the_rest([[shift] * 5, [0.0], [0.0, 0.0]])[0] == pytest.approx(
        math.sqrt(2 * shift)
    )


def test_it_is_that_of_scipy_with_every_other_sample_of_one_weight():
    draw = np.random.default_rng(29)
    samples = [
        draw.normal(0, 1, 40),
        draw.normal(0.3, 2, 25),
        np.round(draw.normal(1, 1, 60), 1),
        np.array([0.5]),
    ]
    found = one_against_the_rest(samples)
    for i, own in enumerate(samples):
        rest = [each for j, each in enumerate(samples) if j != i]
        weights = np.concatenate([np.full(each.size, 1 / each.size) for each in rest])
        assert found[i] == pytest.approx(
            energy_distance(own, np.concatenate(rest), v_weights=weights)
        )


@pytest.mark.parametrize(
    "samples", [[[1.0]], [[1.0], []], [[1.0], [math.nan]], [[1.0], [math.inf]]]
)
def test_what_has_no_distance_is_refused(samples):
    with pytest.raises(StatsError):
        one_against_the_rest(samples)


def test_alike_samples_are_near_and_another_one_is_far():
    draw = np.random.default_rng(3)
    samples = [draw.normal(0, 0.02, 100) for _ in range(9)]
    found = one_against_the_rest([*samples, draw.normal(0.2, 0.02, 100)])
    assert found[:9].max() < 0.2 < 0.5 < found[9]
