"""The word `at-most`, the bounds of a loss, and that a gate passes by the same test."""

import math
from dataclasses import replace

import numpy as np
import pytest

from vtax.stats.claims import RangeTest, judge_claims
from vtax.stats.judge import Contrast, analyse, missed_of
from vtax.stats.ranges import at_most
from vtax.stats.ratio import ratio_of_logs
from vtax.stats.rules import RULES, FixedRule

SPREAD = np.array([0.1, -0.8, 1.0, -1.5, 0.7, -0.3, 0.6, 0.2])
SPREAD = (SPREAD - SPREAD.mean()) / SPREAD.std(ddof=1)
RULE = FixedRule(blocks=8)


def contrast(mean: float, se: float, better: str = "higher", **options) -> Contrast:
    return Contrast(mean + se * math.sqrt(SPREAD.size) * SPREAD, better, **options)


def word(*given, **options) -> str:
    return analyse(RULE, {"a": contrast(*given, **options)})["a"].verdict.kind


@pytest.mark.parametrize(("sign", "better"), [(1, "higher"), (-1, "lower")])
def test_a_gain_that_is_not_shown_still_costs_at_most_the_margin(sign, better):
    assert word(sign * 0.015, 0.01, better) == "at-most"
    assert word(-sign * 0.015, 0.01, better) == "undecided"


def test_stronger_words_come_first():
    assert word(0.0, 0.001) == "equivalent"
    assert word(0.1, 0.01) == "faster"
    assert word(-0.1, 0.01) == "slower"


def test_it_rests_on_five_blocks_at_least():
    four = Contrast(0.02 + 0.001 * SPREAD[:4], "higher")
    assert analyse(RULE, {"a": four})["a"].verdict.kind == "undecided"


@pytest.mark.parametrize(
    "options",
    [{"clock_is_wrong": True}, {"zeros": 1}, {"failed": (4, 0), "tried": (8, 8)}, {"noise": 9.0}],
)
def test_it_is_withheld_as_every_word_is(options):
    assert word(0.015, 0.01) == "at-most"
    assert word(0.015, 0.01, **options) == "undecided"


def test_it_does_not_end_the_measuring_of_a_comparison():
    wide = {"a": contrast(0.015, 0.009)}
    for stop in ("open", "verdict"):
        rule = RULES[stop](blocks=8)
        at_margin = replace(rule, margin=0.1)
        assert analyse(at_margin, wide)["a"].verdict.kind == "equivalent"
        assert not missed_of(at_margin, analyse(at_margin, wide))
        assert missed_of(rule, analyse(rule, wide))


@pytest.mark.parametrize("stop", ["fixed", "budget", "precision", "open", "verdict"])
def test_a_gate_passes_by_the_same_test(stop):
    random = np.random.default_rng(44)
    rule = RULES[stop](blocks=12, budget_s=60.0)
    words = []
    for _ in range(20):
        family = {}
        for name in "abcde":
            logs = random.normal(random.normal(0, 0.02), 0.02, 12)
            better = "higher" if random.random() < 0.5 else "lower"
            noise = random.choice([1.0, 1.0, 1.0, 5.0])
            family[name] = Contrast(logs, better, noise)
        claims = {name: [RangeTest((at_most(each, rule.margin),))] for name, each in family.items()}
        gate = judge_claims(rule, claims, looks_ahead=False)
        for name, answer in analyse(rule, family).items():
            verdict = answer.verdict
            words.append(verdict.kind)
            assert verdict.p_at_most == pytest.approx(gate[name].p_reproduced)
            if verdict.kind in ("at-most", "undecided"):
                passes = gate[name].kind == "reproduced"
                assert passes == (verdict.kind == "at-most")
    assert {"at-most", "undecided", "slower"} <= set(words)


def test_a_loss_is_told_by_the_ends_of_its_interval():
    ratio = ratio_of_logs(-0.05 + 0.01 * SPREAD)
    loss = ratio.loss("higher")
    assert (loss.at_least, loss.at_most) == pytest.approx((1 / ratio.high - 1, 1 / ratio.low - 1))
    assert loss.at_most_family is None
    assert ratio.inverse.loss("lower") == loss
    gain = ratio.loss("lower")
    assert gain.at_most == pytest.approx(ratio.high - 1)
    assert gain.at_most < 0
    assert ratio_of_logs([0.1]).loss("higher").at_most is None


def test_a_large_family_of_few_blocks_has_no_bounds_and_still_answers():
    """Under `open` no interval of five blocks is as certain as one of thirty comparisons must be."""
    logs = 0.01 * np.array([1.0, -1, 2, -2, 0.5])
    contrasts = {str(n): Contrast(logs, "higher") for n in range(30)}
    ratio = analyse(RULES["open"](), contrasts)["0"].ratio
    assert (ratio.family_low, ratio.family_high) == (0, math.inf)
    assert 0 < ratio.low < ratio.high


@pytest.mark.parametrize("stop", ["fixed", "budget", "precision", "open", "verdict"])
def test_the_bounds_of_a_family_hold_for_all_at_once(stop):
    rule = RULES[stop](blocks=8, budget_s=60.0)
    alone = analyse(rule, {"a": contrast(-0.05, 0.01)})["a"].ratio
    assert (alone.family_low, alone.family_high) == pytest.approx((alone.low, alone.high))
    family = {name: contrast(-0.05, 0.01) for name in "abcde"}
    ratio = analyse(rule, family)["a"].ratio
    assert ratio.family_low < ratio.low
    assert ratio.high < ratio.family_high
    strict = replace(rule, confidence=0.99)
    assert analyse(strict, {"a": contrast(-0.05, 0.01)})["a"].ratio.low == pytest.approx(
        ratio.family_low
    )
