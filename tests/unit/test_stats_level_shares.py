"""Intervals of shares of variance: against the exact interval of one level, and in what they must contain."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from vtax.stats.checks import StatsError
from vtax.stats.level_shares import share_intervals
from vtax.stats.sessions import nested_mean

RANDOM = np.random.default_rng(29)


def exact(groups: np.ndarray, confidence: float) -> tuple[float, float]:
    """The exact interval of the intraclass correlation (Searle, Casella & McCulloch, Variance Components, 1992)."""
    hosts, blocks = groups.shape
    between = blocks * groups.mean(axis=1).var(ddof=1)
    within = groups.var(axis=1, ddof=1).mean()
    ratio = between / within
    tails = (1 + confidence) / 2, (1 - confidence) / 2
    bounds = [ratio / stats.f.ppf(tail, hosts - 1, hosts * (blocks - 1)) for tail in tails]
    low, high = ((f - 1) / (f + blocks - 1) for f in bounds)
    return max(0.0, low), max(0.0, high)


@pytest.mark.parametrize("between", [0.0, 0.01, 0.05])
def test_two_levels_have_the_exact_interval(between):
    groups = between * RANDOM.standard_normal((8, 1)) + 0.01 * RANDOM.standard_normal((8, 5))
    found = share_intervals(groups.ravel(), np.repeat(np.arange(8), 5))
    assert found["session"] == pytest.approx(exact(groups, 0.95), abs=0.02)
    assert found["block"] == pytest.approx([1 - bound for bound in reversed(found["session"])])


def test_the_estimate_of_three_levels_is_inside_and_more_confidence_is_wider():
    hosts, sessions = np.repeat(np.arange(6), 15), np.repeat(np.arange(18), 5)
    logs = 0.03 * RANDOM.standard_normal(6)[hosts] + 0.02 * RANDOM.standard_normal(18)[sessions]
    logs += 0.01 * RANDOM.standard_normal(90)
    labels = np.column_stack([hosts, sessions])
    levels = nested_mean(logs, labels).levels
    total = sum(level.sd**2 for level in levels)
    found, wide = share_intervals(logs, labels), share_intervals(logs, labels, 0.99)
    assert set(found) == {level.unit for level in levels} == {"host", "session", "block"}
    for level in levels:
        low, high = found[level.unit]
        assert low <= level.sd**2 / total <= high
        assert wide[level.unit][0] <= low < high <= wide[level.unit][1]


def test_a_level_that_cannot_be_seen_has_no_share():
    logs = RANDOM.standard_normal(12)
    alone = np.column_stack([np.arange(12) // 2, np.arange(12)])  # one block a session
    assert set(share_intervals(logs, alone)) == {"session", "host"}
    assert share_intervals(np.zeros(12), alone) == {}
    with pytest.raises(StatsError):
        share_intervals(logs, alone, 1.0)
