"""Rules that end a run, and the boundaries that let a run be looked at."""

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from vtax.messages import Note
from vtax.stats.checks import StatsError
from vtax.stats.judge import Contrast, analyse
from vtax.stats.rules import (
    RULES,
    BudgetRule,
    FixedRule,
    OpenRule,
    PrecisionRule,
    VerdictRule,
    rule_of,
)
from vtax.stats.sequential import Looks, decide_studies, nominal_levels, sequential_verdicts
from vtax.stats.stopping import decide, within_budget
from vtax.stats.terms import Stop

QUIET = 0.001 * np.array([1.0, -1, 2, -2, 0.5, -0.5, 1.5, -1.5])
LOUD = 100 * QUIET


def test_the_names_of_a_study_file_are_those_of_the_rules():
    assert get_args(Stop) == tuple(RULES)
    assert {rule.counted_as for rule in RULES.values()} <= {n for n in RULES if RULES[n].is_counted}
    assert {rule.timed_as for rule in RULES.values()} <= {*RULES}


@pytest.mark.parametrize("name", RULES)
def test_every_rule_says_what_was_declared_and_how_many_blocks_it_makes(name):
    rule = RULES[name](budget_s=60.0)
    assert all(note.code.startswith("rule-") for note in rule.declared())
    assert "block" in rule.planned("")
    assert rule.fewest_blocks <= rule.most_blocks
    assert rule.interval_confidence(9) >= rule.confidence
    assert rule.test_level(0.01, 9) <= 0.01
    assert rule.judged_once.margin == rule.margin


def test_fixed_stops_at_its_number():
    assert not decide(FixedRule(blocks=5), {}, 4).stop
    assert decide(FixedRule(blocks=5), {}, 5).reached


def test_precision_stops_when_every_interval_is_narrow():
    rule = PrecisionRule(precision=0.02)
    assert decide(rule, {"a": QUIET}, 8) == decide(rule, {"a": QUIET, "b": QUIET}, 8).__class__(
        True, True, "the contrast has an interval within ±2\N{NO-BREAK SPACE}% after 8 blocks"
    )
    loud = decide(rule, {"a": QUIET, "b": LOUD}, 8)
    assert (loud.stop, loud.open) == (False, ("b",))


def test_no_rule_judges_before_its_fewest_blocks():
    assert not decide(PrecisionRule(min_blocks=5), {"a": QUIET[:4]}, 4).stop
    assert not decide(VerdictRule(min_blocks=5), {"a": QUIET[:4]}, 4).stop


@pytest.mark.parametrize("stop", ["precision", "verdict"])
def test_a_target_missed_at_the_most_blocks_is_said(stop):
    found = decide(RULES[stop](max_blocks=8), {"a": LOUD}, 8)
    assert (found.stop, found.reached, found.open) == (True, False, ("a",))
    assert found.warnings


def test_a_contrast_that_lacks_blocks_is_not_judged_before_its_own_fewest():
    lacking = np.where(np.arange(8) < 4, math.nan, QUIET)
    assert decide(PrecisionRule(), {"a": QUIET, "b": lacking}, 8).open == ("b",)
    assert decide(PrecisionRule(min_blocks=4), {"a": QUIET, "b": lacking}, 8).reached


@pytest.mark.parametrize("stop", ["precision", "verdict"])
def test_a_contrast_that_cannot_be_judged_ends_the_wait_for_it_without_success(stop):
    refused = np.append(QUIET[:-1], math.inf)
    alone = decide(RULES[stop](), {"a": refused}, 8)
    assert (alone.stop, alone.reached, alone.open) == (True, False, ("a",))
    assert alone.reason == Note("contrast-refused")
    both = decide(RULES[stop](), {"a": refused, "b": QUIET}, 8)
    assert (both.stop, both.reached, both.open) == (True, False, ("a",))
    assert both.warnings == (Note("contrasts-refused", count=1, total=2),)
    loud = decide(RULES[stop](), {"a": refused, "b": LOUD}, 8)
    assert (loud.stop, loud.open) == (False, ("b",))
    last = decide(RULES[stop](max_blocks=8), {"a": refused, "b": LOUD}, 8)
    assert (last.stop, last.reached, last.open) == (True, False, ("a", "b"))


@pytest.mark.parametrize("stop", ["precision", "verdict"])
def test_a_contrast_without_data_keeps_the_target_open(stop):
    assert decide(RULES[stop](), {"a": QUIET, "b": np.full(8, np.nan)}, 8).open == ("b",)


def test_the_rule_verdict_looks_at_no_fewer_than_five_blocks():
    clear = math.log(0.5) + QUIET
    early = VerdictRule(min_blocks=2)
    assert [decide(early, {"a": clear[:n]}, n).stop for n in (2, 3, 4, 5)] == [
        False,
        False,
        False,
        True,
    ]
    assert [early.interval_confidence(n) for n in (2, 4, 5, 9)] == [
        VerdictRule().interval_confidence(n) for n in (2, 4, 5, 9)
    ]
    for blocks in (2, 3, 4):
        found = analyse(early, {"a": Contrast(clear[:blocks], "higher")})["a"]
        assert found.verdict.kind == "undecided"
        assert ("few-blocks", blocks) in [
            (note.code, note.data["count"]) for note in found.verdict.warnings
        ]
    missed = decide(VerdictRule(min_blocks=2, max_blocks=3), {"a": clear[:3]}, 3)
    assert (missed.stop, missed.reached) == (True, False)


def test_a_budget_ends_a_run_before_the_block_that_would_break_it():
    rule = BudgetRule(budget_s=100)
    goal = decide(rule, {}, 3)
    assert not within_budget(rule, goal, 3, elapsed_s=70, next_block_s=25).stop
    assert within_budget(rule, goal, 3, elapsed_s=80, next_block_s=25).reached
    fixed = FixedRule(blocks=9, budget_s=100)
    bounded = within_budget(fixed, decide(fixed, {}, 3), 3, elapsed_s=80, next_block_s=25)
    assert (bounded.stop, bounded.reached) == (True, False)


@pytest.mark.parametrize(
    ("rule", "rows", "blocks", "reason"),
    [
        (FixedRule(blocks=1), [], 1, "1 of 1 block is made"),
        (FixedRule(blocks=5), [], 1, "1 of 5 blocks is made"),
        (FixedRule(blocks=5), [], 5, "5 of 5 blocks are made"),
        (PrecisionRule(), [QUIET], 1, "1 of at least 5 blocks is made"),
        (VerdictRule(), [LOUD], 8, "the contrast misses a verdict after 8 blocks"),
        (VerdictRule(), [LOUD, QUIET], 8, "1 of 2 contrasts misses a verdict after 8 blocks"),
        (VerdictRule(), [LOUD, LOUD], 8, "2 of 2 contrasts miss a verdict after 8 blocks"),
        (
            VerdictRule(max_blocks=8),
            [LOUD],
            8,
            "the contrast misses a verdict after 8 blocks, the most allowed",
        ),
    ],
)
def test_reasons_are_sentences(rule, rows, blocks, reason):
    assert decide(rule, {str(i): row for i, row in enumerate(rows)}, blocks).reason == reason


@pytest.mark.parametrize(
    ("budget_s", "blocks", "printed"),
    [
        (7200, 1, "2 h ends before another block would, after 1 block"),
        (5400, 2, "90 min"),
        (100, 2, "100 s"),
        (0.5, 2, "0.5 s"),
    ],
)
def test_a_budget_is_reported_as_people_write_it(budget_s, blocks, printed):
    rule = BudgetRule(budget_s=budget_s)
    found = within_budget(
        rule, decide(rule, {}, blocks), blocks, elapsed_s=budget_s, next_block_s=1
    )
    assert f"budget of {printed}" in found.reason


def test_time_alone_looks_at_no_figure():
    rule = BudgetRule(budget_s=100)
    assert decide(rule, {"quiet": QUIET, "loud": LOUD}, 8).open == ()
    assert rule.interval_confidence(8) == 0.95
    assert rule.look_level(8) == pytest.approx(0.05)


def test_what_is_decided_under_open_is_measured_no_more():
    rule, contrasts = OpenRule(blocks=20), {"quiet": QUIET, "loud": LOUD}

    def found_with(missing):
        return decide(rule, contrasts, 8, missed_by=lambda _: missing)

    assert (found_with({"loud": True}).stop, found_with({"loud": True}).open) == (False, ("loud",))
    assert (found_with({}).stop, found_with({}).reached) == (True, True)
    assert decide(rule, contrasts, 8).open == ()  # of several sessions, and of one platform
    assert decide(rule, contrasts, 2, missed_by=lambda _: {"loud": True}).open == ()
    early = decide(rule, contrasts, 3, missed_by=lambda _: {"loud": True})
    assert (early.stop, early.open) == (False, ("loud",))
    assert decide(rule, contrasts, 20, missed_by=lambda _: {"loud": True}).stop


@pytest.mark.parametrize(
    "settings_",
    [
        {"blocks": 0},
        {"min_blocks": 9, "max_blocks": 8},
        {"precision": 0},
        {"margin": 1},
        {"confidence": 1},
    ],
)
def test_rules_that_cannot_be_followed_are_refused(settings_):
    with pytest.raises(StatsError):
        FixedRule(**settings_)
    with pytest.raises(StatsError):
        BudgetRule()


def test_boundaries_agree_with_published_pocock_and_obrien_fleming_like_ones():
    """Two looks at half and all of the data, one-sided 0.025, Hwang-Shih-DeCani 1 and -4 (as gsDesign gives)."""
    early = scipy_stats.norm.isf(nominal_levels(0.025, 1, 2, shape=1.0))
    late = scipy_stats.norm.isf(nominal_levels(0.025, 1, 2, shape=-4.0))
    assert nominal_levels(0.025, 1, 2, shape=1.0)[0] == pytest.approx(
        0.025 * (1 - math.exp(-0.5)) / (1 - math.exp(-1))
    )
    assert early[0] == pytest.approx(2.155, abs=2e-3)
    assert late == pytest.approx([2.750, 1.981], abs=2e-3)


def test_boundaries_spend_what_was_allowed():
    levels = np.array(nominal_levels(0.05, 3, 12))
    sums = np.cumsum(np.random.default_rng(1).standard_normal((60_000, 12)), axis=1)[:, 2:]
    crossed = sums / np.sqrt(np.arange(3, 13)) >= scipy_stats.norm.isf(levels)
    assert crossed.any(axis=1).mean() == pytest.approx(
        0.05, abs=3 * math.sqrt(0.05 * 0.95 / 60_000)
    )


def test_a_decision_once_made_stands():
    clear = math.log(0.8) + 0.01 * np.array([1, -1, 0.5, -0.5, 1, -1.0])
    later = np.concatenate([clear, np.tile([2.0, -2.0], 10)])
    assert sequential_verdicts([clear], 0.02, 0.05, [Looks(5, 30)]) == ("below",)
    assert sequential_verdicts([later], 0.02, 0.05, [Looks(5, 30)]) == ("below",)


def test_blocks_beyond_the_last_are_not_looked_at():
    quiet = 0.3 * np.array([1.0, -1, 2, -2, 1, -1])
    assert sequential_verdicts(
        [np.concatenate([quiet, np.full(50, 0.5)])], 0.02, 0.05, [Looks(5, 6)]
    ) == ("undecided",)


def test_the_look_at_which_a_time_ends_a_run_spends_what_is_left():
    """Of any false word in families of three, of which none differs, ended after 7 of 30 blocks."""
    levels, open_ = (
        np.array(nominal_levels(0.05, 5, 30, ended=7)),
        np.array(nominal_levels(0.05, 5, 30)),
    )
    assert levels[:2].tolist() == open_[:2].tolist()
    sums = np.cumsum(np.random.default_rng(2).standard_normal((60_000, 7)), axis=1)[:, 4:]
    crossed = sums / np.sqrt(np.arange(5, 8)) >= scipy_stats.norm.isf(levels)
    assert crossed.any(axis=1).mean() == pytest.approx(
        0.05, abs=3 * math.sqrt(0.05 * 0.95 / 60_000)
    )
    sides = np.random.default_rng(3).standard_normal((10_000, 4, 7))
    codes, _ = decide_studies(
        0.05 * (sides[:, 1:] - sides[:, :1]), 0.02, 0.05, [Looks(5, 30, ended=7)] * 3
    )
    assert 0.03 < (codes != 0).any(axis=1).mean() < 0.05


def test_a_run_that_its_time_ended_decides_more_and_only_of_what_stood_to_the_end():
    apart = math.log(0.9) + 0.1 * np.array([1.0, -1, 1, -1, 0.5, -0.5, 0.2, -0.2])
    over = within_budget(
        VerdictRule(budget_s=60), decide(VerdictRule(), {"a": apart}, 8), 8, 55, 9
    ).reason
    rule = rule_of({"stop": "verdict", "budget": 60.0}, over)
    assert (rule.ended, rule_of({"stop": "verdict"}, "interrupted").ended) == (8, None)
    assert rule.interval_confidence(8) < rule.going_on.interval_confidence(8)
    assert rule.interval_confidence(7) == rule.going_on.interval_confidence(7)
    lost, left = apart.copy(), apart.copy()
    lost[2], left[7] = (
        np.nan,
        np.nan,
    )  # a trial that failed; a cell that was left out of the last block
    assert (rule.of(lost).ended, rule.of(left).ended) == (7, None)
    widths = [
        a.ratio.half_width
        for a in analyse(
            rule, {"a": Contrast(lost, "higher"), "b": Contrast(left, "higher")}
        ).values()
    ]
    assert widths[0] < 0.8 * widths[1]
    assert analyse(rule, {"a": Contrast(apart, "higher")})["a"].verdict.kind == "slower"
    assert analyse(rule.going_on, {"a": Contrast(apart, "higher")})["a"].verdict.kind == "undecided"
    patient = replace(rule, min_blocks=10)  # its time was over before its fewest blocks
    assert analyse(patient, {"a": Contrast(apart, "higher")})["a"].verdict.kind == "slower"
    early = replace(rule, ended=4)  # before its first look: no verdict
    assert analyse(early, {"a": Contrast(apart[:4], "higher")})["a"].verdict.kind == "undecided"


def test_sequential_levels_are_stricter_than_a_single_look():
    rule = VerdictRule(min_blocks=5, max_blocks=30)
    assert all(rule.interval_confidence(n) > 0.95 for n in range(5, 31))
    assert PrecisionRule(min_blocks=20).interval_confidence(
        20
    ) < PrecisionRule().interval_confidence(20)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.floats(-1, 1) | st.just(math.nan), min_size=8, max_size=8),
        min_size=1,
        max_size=4,
    )
)
def test_any_blocks_give_a_decision(rows):
    contrasts = {str(i): np.array(row) for i, row in enumerate(rows)}
    for stop in ("precision", "verdict"):
        found = decide(RULES[stop](max_blocks=8), contrasts, 8)
        assert found.stop
        assert found.reached == (not found.open)
    found = decide(BudgetRule(budget_s=60), contrasts, 8)
    assert (found.stop, found.open) == (False, ())
