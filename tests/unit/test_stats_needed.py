"""Blocks in all that a comparison takes: against simulated studies that have them, and what they depend on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from vtax.stats.judge import Contrast, analyse
from vtax.stats.needed import SIZE, needed
from vtax.stats.ratio import ratio_of_logs
from vtax.stats.rules import FixedRule, OpenRule, PrecisionRule, VerdictRule

FIXED = FixedRule()


def at_sd(sd: float, blocks: int = 5000):
    """A ratio whose noise is known for certain."""
    logs = sd * np.array([1.0, -1.0] * (blocks // 2))
    return ratio_of_logs(logs / logs.std(ddof=1) * sd)


@pytest.mark.parametrize(("truth", "sd"), [(0.0, 0.02), (math.log1p(SIZE), 0.06)])
def test_so_many_blocks_decide_in_four_of_five_studies(truth, sd):
    found = needed(FIXED, at_sd(sd), 0.02, 1)
    (low, high), kind = (found.equal, "equivalent") if truth == 0 else (found.different, "faster")
    assert high is not None
    assert high - low <= 1
    rng, decided = np.random.default_rng(4), 0
    for _ in range(400):
        (answer,) = analyse(
            FIXED, {"a": Contrast(truth + sd * rng.standard_normal(high), "higher")}
        ).values()
        decided += answer.verdict.kind == kind
    assert 0.72 <= decided / 400 <= 0.93  # numbers are whole, and equality's is guarded


def test_noise_that_few_blocks_leave_open_makes_a_range():
    few = needed(FIXED, ratio_of_logs([0.02, -0.03, 0.01, -0.02, 0.03]), 0.02, 5)
    many = needed(FIXED, at_sd(0.026), 0.02, 5)
    assert few.equal[1] is not None
    assert few.equal[0] < many.equal[0] < few.equal[1]


@pytest.mark.parametrize("rule", [OpenRule(), VerdictRule(), PrecisionRule()])
def test_looks_and_families_cost_blocks(rule):
    alone, looked, family = (
        needed(r, at_sd(0.03), 0.02, n) for r, n in ((FIXED, 1), (rule, 1), (rule, 20))
    )
    assert alone.equal[0] < looked.equal[0] < family.equal[0]


def test_a_wide_margin_asks_for_a_larger_difference():
    found = needed(FIXED, at_sd(0.02), 0.1, 1)
    assert found.size == pytest.approx(0.25)


def test_no_number_without_noise_or_of_sessions():
    assert needed(FIXED, ratio_of_logs([0.1]), 0.02, 1) is None
    assert needed(FIXED, ratio_of_logs([0.1] * 6), 0.02, 1) is None
    assert needed(FIXED, replace(at_sd(0.02), n_sessions=2), 0.02, 1) is None
    assert needed(FIXED, at_sd(90.0), 0.02, 1) is None
