"""How small an overhead a number of blocks settles."""

import math

import numpy as np
import pytest
from scipy import stats

from vtax.messages import Note
from vtax.stats.checks import StatsError
from vtax.stats.planning import smallest_overhead


def test_an_overhead_as_small_as_said_is_found_four_times_in_five():
    generator, noise, blocks = np.random.default_rng(7), 0.03, 10
    effect = smallest_overhead(noise, blocks)
    logs = generator.normal(math.log1p(-effect), noise, (4000, blocks))
    found = stats.ttest_1samp(logs, 0.0, axis=1).pvalue < 0.05
    assert 0.77 < found.mean() < 0.85


def test_one_block_says_nothing_of_noise():
    with pytest.raises(StatsError) as refused:
        smallest_overhead(0.1, 1)
    assert refused.value.args == (Note("plan-needs-blocks"),)
