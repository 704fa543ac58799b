"""Words about ratios: differences, families, equality, and how much more is needed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from vtax.stats.checks import StatsError
from vtax.stats.judge import Contrast, analyse
from vtax.stats.ratio import ratio_of_logs
from vtax.stats.rules import RULES
from vtax.stats.verdict import holm, judge, judge_family, p_equivalence

rng = np.random.default_rng(7)
SPREAD = np.array([-1.5, -0.8, -0.3, 0.1, 0.2, 0.6, 0.7, 1.0])
SPREAD = SPREAD - SPREAD.mean()


def ratio(true, noise, blocks=8):
    return ratio_of_logs(math.log(true) + noise * SPREAD[:blocks])


def test_verdicts_name_the_direction_that_hurts():
    assert judge(ratio(0.9, 0.005), 0.02, "higher").kind == "slower"
    assert judge(ratio(0.9, 0.005), 0.02, "lower").kind == "faster"
    assert judge(ratio(1.1, 0.005), 0.02, "lower").kind == "slower"


def test_equality_is_shown_not_assumed():
    assert judge(ratio(1.0, 0.005), 0.02, "higher").kind == "equivalent"
    assert judge(ratio(1.0, 0.1), 0.02, "higher").kind == "undecided"


def test_a_small_difference_however_significant_is_not_slower():
    found = judge(ratio(0.99, 0.0005), 0.02, "higher")
    assert found.p_difference < 1e-6
    assert found.kind == "equivalent"


def test_fewer_than_five_blocks_never_give_a_verdict():
    found = judge(ratio(0.5, 0.001, blocks=4), 0.02, "higher")
    assert (found.kind, found.blocks_needed) == ("undecided", 1)
    assert found.text == "undecided (about 1 more block)"
    assert judge(ratio(0.5, 0.001, blocks=1), 0.02, "higher").blocks_needed is None


def test_the_two_one_sided_tests_are_statsmodels():
    logs = 0.005 + 0.01 * SPREAD
    expected = ttost_paired(logs, np.zeros(logs.size), -math.log(1.02), math.log(1.02))[0]
    assert p_equivalence(ratio_of_logs(logs), 0.02) == pytest.approx(expected)


def test_where_noise_leaves_everything_open_no_number_of_blocks_is_stated():
    found = judge(ratio(1.0, 0.08), 0.001, "higher")
    assert (found.kind, found.blocks_needed, found.blocks_needed_low) == ("undecided", None, None)
    assert found.text == "undecided"


def test_a_difference_is_slower_by_what_its_bound_says():
    found = ratio(0.985, 0.0125)
    assert judge(found, 0.02, "higher").kind == "slower"
    assert 0 < found.loss("higher").at_least < 0.015
    assert judge(found, 0.05, "higher").kind == "equivalent"


@pytest.mark.parametrize("margin", [0, 1, -0.1, math.nan])
def test_a_margin_out_of_range_is_refused(margin):
    with pytest.raises(StatsError):
        judge(ratio(1, 0.1), margin, "higher")


@given(st.floats(-0.05, 0.05), st.floats(0.0001, 0.05), st.sampled_from(["higher", "lower"]))
def test_two_sides_that_are_swapped_have_the_mirrored_verdict(mean, spread, better):
    found = ratio_of_logs(mean + spread * SPREAD)
    (forth,), (back,) = (judge_family([each], [0.02], [better]) for each in (found, found.inverse))
    assert back.kind == {"slower": "faster", "faster": "slower"}.get(forth.kind, forth.kind)
    assert (forth.blocks_needed, forth.p_equivalence) == (
        back.blocks_needed,
        pytest.approx(back.p_equivalence),
    )


def test_a_rate_and_its_time_have_one_margin():
    below = ratio_of_logs(math.log(0.9802) + 1e-6 * SPREAD)
    assert judge(below, 0.02, "higher").kind == "slower"
    assert judge(below.inverse, 0.02, "lower").kind == "slower"
    inside = ratio_of_logs(math.log(0.9805) + 1e-6 * SPREAD)
    assert judge(inside, 0.02, "higher").kind == "equivalent"
    assert judge(inside.inverse, 0.02, "lower").kind == "equivalent"


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 7, 30])
def test_holm_is_statsmodels(size):
    p = rng.random(size).round(1) ** 3  # with ties
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


def test_a_family_makes_each_member_harder_to_decide():
    borderline = ratio(0.965, 0.035)
    assert judge(borderline, 0.02, "higher").kind == "slower"
    family = judge_family([borderline] + [ratio(1.0, 0.2)] * 30, [0.02] * 31, ["higher"] * 31)
    assert family[0].kind == "undecided"
    assert family[0].family == 31


def test_a_contrast_without_an_answer_does_not_spoil_the_family():
    contrasts = {
        "good": Contrast(math.log(0.9) + 0.01 * SPREAD, "higher"),
        "bad": Contrast(np.full(8, np.nan), "lower"),
    }
    for stop in ("fixed", "precision", "verdict"):
        found = analyse(RULES[stop](), contrasts)
        assert isinstance(found["bad"], StatsError)
        good = found["good"]
        assert good.verdict.kind == "slower"


def test_intervals_are_wider_under_rules_that_look():
    contrasts = {"a": Contrast(math.log(0.9) + 0.01 * SPREAD, "higher")}
    half = {
        stop: analyse(RULES[stop](), contrasts)["a"].ratio.half_width
        for stop in ("fixed", "precision", "verdict")
    }
    assert half["fixed"] < half["precision"] < half["verdict"]


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=30), st.sampled_from(["higher", "lower"]))
def test_every_ratio_has_exactly_one_verdict(logs, better):
    found = judge(ratio_of_logs(logs), 0.02, better)
    assert found.kind in ("slower", "faster", "equivalent", "undecided")
    assert (found.kind == "undecided") == (found.blocks_needed != 0)
