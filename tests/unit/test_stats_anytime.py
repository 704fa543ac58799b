"""The test that may be looked at after any block, and the rule `open` that uses it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from vtax.stats import anytime
from vtax.stats.contrasts import Contrast
from vtax.stats.judge import Comparison, analyse
from vtax.stats.rules import FixedRule, OpenRule, Rule, takes_more_blocks
from vtax.stats.stopping import decide


@pytest.mark.parametrize("blocks", [2, 5, 12, 100])
@pytest.mark.parametrize("t", [0.5, 2.0, 4.0])
def test_the_error_is_that_of_the_bayes_factor_by_its_definition(blocks, t):
    prior = stats.norm(scale=anytime.PRIOR**0.5)

    def likelihood(effect: float) -> float:
        return float(stats.nct.pdf(t, blocks - 1, effect * blocks**0.5) * prior.pdf(effect))

    marginal, _ = integrate.quad(likelihood, -9, 9, points=[t / blocks**0.5], limit=500)
    factor = marginal / stats.t.pdf(t, blocks - 1)
    assert anytime.p_value(float(stats.t.sf(t, blocks - 1)), blocks) == pytest.approx(
        min(1, 0.5 / factor), rel=1e-3
    )


@pytest.mark.parametrize("alpha", [0.05, 0.025, 0.005])
@pytest.mark.parametrize("blocks", [6, 10, 60, 1000])
def test_levels_and_p_values_are_inverse(alpha, blocks):
    assert anytime.p_value(anytime.level(alpha, blocks), blocks) == pytest.approx(alpha)
    assert anytime.level(alpha, blocks) < alpha / 4


def test_too_few_blocks_never_reject():
    assert anytime.level(0.025, 1) == anytime.level(0.025, 2) == 0.0
    assert anytime.p_value(1e-300, 2) > 0.05
    assert anytime.p_value(0.5, 10) == anytime.p_value(0.9, 10) == 1.0


def contrast(seed: int, blocks: int, sessions: int = 1) -> Contrast:
    logs = np.random.default_rng(seed).normal(0.0, 0.01, blocks)
    return Contrast(logs, "higher", sessions=np.arange(blocks) % sessions if sessions > 1 else None)


def compared(rule: Rule, of: Contrast) -> Comparison:
    found = analyse(rule, {"a": of})["a"]
    return found


@pytest.mark.parametrize("sessions", [1, 4])
def test_an_interval_of_the_rule_is_that_of_its_p_value(sessions):
    """Its end is where the two-sided test of that value has an error of 5 %."""
    rule = OpenRule(margin=0.02)
    found = compared(rule, contrast(1, 12, sessions)).ratio
    t = (np.log(found.high) - found.mean_log) / found.se_log
    number = sessions if sessions > 1 else 12
    by_blocks = sessions > 1 and anytime.p_value(float(stats.t.sf(t, number - 1)), number) < 0.02499
    assert by_blocks or anytime.p_value(float(stats.t.sf(t, number - 1)), number) == pytest.approx(
        0.025
    )
    assert found.high > compared(FixedRule(), contrast(1, 12, sessions)).ratio.high


def test_words_need_more_than_at_a_single_look_and_come():
    rule, single = OpenRule(margin=0.02), FixedRule(margin=0.02)
    of = Contrast(np.random.default_rng(2).normal(0.0, 0.009, 6), "higher")
    assert compared(single, of).verdict.kind == "equivalent"
    assert compared(rule, of).verdict.kind == "undecided"
    assert compared(rule, contrast(2, 30)).verdict.kind == "equivalent"
    slow = Contrast(np.random.default_rng(3).normal(-0.2, 0.02, 8), "higher")
    assert compared(rule, slow).verdict.kind == "slower"


def test_it_ends_after_its_blocks_and_takes_more():
    rule = OpenRule(blocks=6)
    assert not decide(rule, {}, 5).stop
    assert decide(rule, {}, 6).reached
    assert takes_more_blocks(rule, "randomized", 1)
