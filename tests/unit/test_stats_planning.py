"""How small an overhead a number of blocks settles, and the other way round."""

import math

import numpy as np
import pytest
from scipy import stats

from vtax.stats.checks import StatsError
from vtax.stats.planning import blocks_for, noise_upper, smallest_overhead


def test_an_overhead_as_small_as_said_is_found_four_times_in_five():
    generator, noise, blocks = np.random.default_rng(7), 0.03, 10
    effect = smallest_overhead(noise, blocks)
    logs = generator.normal(math.log1p(-effect), noise, (4000, blocks))
    found = stats.ttest_1samp(logs, 0.0, axis=1).pvalue < 0.05
    assert 0.77 < found.mean() < 0.85


def test_blocks_for_the_smallest_overhead_of_a_number_of_blocks_is_that_number():
    for blocks in (5, 10, 30, 200):
        assert blocks_for(0.05, smallest_overhead(0.05, blocks)) == blocks


def test_more_than_the_most_blocks_is_said_as_none():
    assert blocks_for(0.5, 0.001) is None


def test_the_bound_of_the_noise_holds_in_95_of_100_calibrations():
    samples = np.random.default_rng(3).normal(0.0, 1.0, (4000, 7)).std(axis=1, ddof=1)
    assert 0.935 < np.mean([noise_upper(s, 7) > 1.0 for s in samples]) < 0.965


def test_one_block_says_nothing_of_noise():
    with pytest.raises(StatsError, match="at least two blocks"):
        smallest_overhead(0.1, 1)
