"""What trials that timed out bound. Figures here are invented."""

import math

import numpy as np
import pytest
from scipy import stats

from vtax.stats.censoring import Timeouts, floored, slower_at_least
from vtax.stats.ratio import BlockMeans


def durations(values, first=0):
    return BlockMeans(np.arange(first, first + len(values)), np.array(values, dtype=float))


def test_the_bound_is_the_lower_end_of_a_one_sided_t_interval():
    treatment, baseline = [60.0, 60.0, 60.0, 52.0, 60.0, 60.0], [20.0, 22.0, 19.0, 21.0, 20.5, 20.0]
    logs = np.log(treatment) - np.log(baseline)
    expected = logs.mean() - stats.t.ppf(0.95, 5) * logs.std(ddof=1) / math.sqrt(6)
    assert slower_at_least(durations(treatment), durations(baseline), 0.95) == pytest.approx(
        math.exp(expected)
    )


def test_equal_durations_bound_without_noise():
    assert slower_at_least(durations([60.0] * 5), durations([20.0] * 5), 0.95) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("treatment", "baseline"),
    [
        (durations([60.0] * 4), durations([20.0] * 4)),
        (durations([60.0] * 5), durations([])),
        (durations([60.0] * 5), durations([20.0] * 5, first=9)),
        (durations([60.0] * 5), durations([0.0] * 5)),
    ],
)
def test_no_bound_without_five_blocks_of_both(treatment, baseline):
    assert slower_at_least(treatment, baseline, 0.95) == 0.0


def test_a_bound_is_above_the_truth_in_at_most_one_of_twenty():
    """Lognormal durations twice as long on one side, of which the timeout cuts the slowest third."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(400):
        treatment, baseline = (
            2 * np.exp(0.1 * rng.standard_normal(10)),
            np.exp(0.1 * rng.standard_normal(10)),
        )
        bound = slower_at_least(durations(np.minimum(treatment, 2.1)), durations(baseline), 0.95)
        wrong += bound > 2
        assert bound > 1.5
    assert wrong <= 20


@pytest.mark.parametrize(
    ("times", "shown"), [(2.19, 2.1), (2.0, 2.0), (1.0801, 1.0), (12.9, 12.0), (137.0, 130.0)]
)
def test_a_bound_is_never_rounded_up(times, shown):
    assert floored(times) == shown


def test_a_bound_below_one_is_none():
    assert Timeouts(1, 10, 60.0, 0.98).note.code == "timed-out"
    assert Timeouts(9, 10, 60.0, 3.26).note.data["times"] == 3.2
