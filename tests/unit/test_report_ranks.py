"""Drift of a run: an answer where there is one, else its reason. Figures are invented."""

import math
import tracemalloc

import numpy as np
import pytest
from a_run import measured, noisy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from shown import english

from vtax.report.analysis.drift import caution, drift_warnings
from vtax.report.answers.variance.compute import drifting, variance
from vtax.report.document import Count, WarnedPlace

WANDER = "a trend or slow wander"


def test_drift_is_measured_and_warned_of():
    data, analysis = measured(noisy(0.0, 0.001, drift=0.01), blocks=12)
    found = drifting(variance(data, analysis), 0.05)
    assert len(found) == 6
    drift = found[0].drift
    assert drift.low < math.exp(0.11) - 1 < drift.high * 1.05
    (warning,) = [warning for warning in analysis.warnings if warning.code.startswith("drift")]
    assert (warning.code, warning.data["cells"]) == ("drift-of-cells-between", Count(6))
    assert 0.11 <= warning.data["low"].value <= warning.data["high"].value < 0.13
    assert warning.data["p"].value < 0.001
    assert english(warning.data["cause"]) == WANDER
    assert (len(warning.places), warning.times) == (6, 1)


def test_drift_is_reported_in_words():
    blocks = np.arange(12)
    falling = 100 * 0.97**blocks + 0.1 * (-1.0) ** blocks
    (one,) = drift_warnings([(WarnedPlace("here"), blocks, falling)], 0.95)
    assert (one.code, one.data["p"].value < 0.001) == ("drift", True)
    assert -0.3 < one.data["change"].value < -0.2
    assert english(one.data["cause"]) == WANDER
    (both,) = drift_warnings(
        [(WarnedPlace("here"), blocks, falling), (WarnedPlace("there"), blocks, falling**0.5)], 0.95
    )
    assert (both.code, both.data["cells"]) == ("drift-of-cells-between", Count(2))
    assert both.data["p"].value < 0.001
    assert -0.3 < both.data["low"].value < -0.2 < both.data["high"].value < -0.1
    assert english(both.data["cause"]) == WANDER
    (same,) = drift_warnings(
        [
            (WarnedPlace("here"), blocks[:6], falling[:6]),
            (WarnedPlace("there"), blocks[:6], 2 * falling[:6]),
        ],
        0.95,
    )
    assert (same.code, same.data["cells"]) == ("drift-of-cells", Count(2))
    assert same.data["change"].value < 0 < same.data["p"].value < 0.05
    assert english(same.data["cause"]) == WANDER


def test_drift_over_the_blocks_of_many_hosts_needs_little_memory():
    random = np.random.default_rng(1)
    noise = random.normal(100, 1, 20_000)  # whose pairs fill 3 GB
    series = [
        (WarnedPlace("here"), np.arange(noise.size), noise * (1 + np.linspace(0, 0.01, noise.size)))
    ]
    (found,) = drift_warnings(series, 0.95)
    assert (found.code, found.data["p"].value < 0.001) == ("drift", True)
    assert 0 < found.data["change"].value < 0.02
    tracemalloc.start()
    assert drift_warnings([(WarnedPlace("here"), np.arange(noise.size), noise)], 0.95) == ()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20


@pytest.mark.parametrize("cells", [1, 20, 500, 10_000])
@pytest.mark.parametrize("blocks", [5, 8, 12, 19, 20, 25, 33])
def test_the_cheap_look_at_drift_is_as_cautious_as_the_exact_test_needs(blocks, cells):
    """Kendall's distribution of inversions: the nearest z that the exact test calls drift among so many cells."""
    chances = np.ones(1)
    for size in range(2, blocks + 1):
        chances = np.convolve(chances, np.ones(size) / size)
    level = 0.025 / cells
    inversions = int(np.searchsorted(np.cumsum(chances), level, side="right")) - 1
    if inversions >= 0:  # else nothing is drift
        pairs, variance = blocks * (blocks - 1) // 2, blocks * (blocks - 1) * (2 * blocks + 5) / 18
        assert (pairs - 2 * inversions) / variance**0.5 >= -caution(blocks) * special.ndtri(level)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0]), min_size=1, max_size=14))
def test_the_cheap_look_at_drift_misses_nothing_the_test_finds(values):
    from vtax.stats.steadiness import find_drift

    series = [(WarnedPlace("place"), np.arange(len(values)), np.array(values))]
    assert bool(drift_warnings(series, 0.95)) == (find_drift(values).p_value <= 0.05)
