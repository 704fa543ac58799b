"""What blocks show against Student's t widens intervals, withholds verdicts, or is named beside them."""

import math

import numpy as np
import pytest
from scipy import stats

from vtax.messages import Note
from vtax.stats.assumptions import (
    allow_for_dependence,
    dependence,
    effective_blocks,
    plausible_correlation,
    unequal_noise,
)
from vtax.stats.judge import Contrast, analyse, missed_of
from vtax.stats.ratio import (
    BlockMeans,
    noise_ratio,
    p_above,
    ratio_of_logs,
    skewed_t,
    unskewed_t,
    widened,
)
from vtax.stats.rules import RULES, FixedRule, PrecisionRule, VerdictRule
from vtax.stats.stopping import decide, half_width
from vtax.stats.withholding import room_of

rng = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def reseeded(monkeypatch):
    """Every test sees the same noise, alone or after others."""
    monkeypatch.setitem(globals(), "rng", np.random.default_rng(5))


def following(correlation, blocks, contrasts=6):
    noise = rng.standard_normal((contrasts, blocks))
    for k in range(1, blocks):
        noise[:, k] = correlation * noise[:, k - 1] + math.sqrt(1 - correlation**2) * noise[:, k]
    return list(noise)


def test_blocks_that_follow_one_another_are_seen_and_independent_ones_rarely():
    assert np.mean([np.mean(dependence(following(0.6, 20))) > 0 for _ in range(100)]) > 0.9
    alone = [dependence(following(0.0, 20, contrasts=1))[0] > 0 for _ in range(1000)]
    assert 0.02 < np.mean(alone) < 0.08
    assert np.mean([dependence(following(0.6, 40))[0] for _ in range(100)]) == pytest.approx(
        0.6, abs=0.1
    )


def test_fewer_than_eight_blocks_say_nothing_of_dependence():
    assert dependence([np.arange(7.0)]) == [0.0]
    assert dependence([np.zeros(20)]) == [0.0]


def test_dependent_blocks_are_worth_fewer():
    assert effective_blocks(20, 0.0) == 20
    assert effective_blocks(20, 0.6) == 5
    assert allow_for_dependence(0.1, 19, 20, 0.0) == pytest.approx((0.1, 19))
    se, df = allow_for_dependence(0.1, 19, 20, 0.5)
    assert se > 0.1 * math.sqrt(3)
    assert 2 <= df < 19


def test_noise_of_one_side_is_distinguished_from_noise_of_both():
    shared, quiet, loud = 0.02 * rng.standard_normal(20), *rng.standard_normal((2, 20))
    assert unequal_noise(shared + 0.1 * loud, shared + 0.01 * quiet) > 3
    assert unequal_noise(shared + 0.01 * quiet, shared + 0.1 * loud) < 1 / 3
    assert unequal_noise(shared + 0.01 * loud, shared + 0.01 * quiet) == 1
    assert unequal_noise(loud[:4], 0.001 * quiet[:4]) == 1


def test_noise_is_compared_over_the_blocks_that_both_sides_have():
    blocks = np.arange(20)
    loud = BlockMeans(blocks, np.exp(0.2 * rng.standard_normal(20)))
    quiet = BlockMeans(blocks[5:], np.exp(0.01 * rng.standard_normal(15)))
    assert noise_ratio(loud, quiet) > 5
    assert noise_ratio(quiet, BlockMeans(blocks[:2], np.ones(2))) == 1


@pytest.mark.parametrize("skewness", [-2.0, -0.1, 0.0, 0.5, 3.0])
def test_halls_transformation_is_undone(skewness):
    for t in (-4.0, -0.3, 0.0, 2.0):
        assert unskewed_t(skewed_t(t, skewness, 10), skewness, 10) == pytest.approx(t, abs=1e-5)


def test_skewness_widens_the_interval_towards_the_long_tail():
    ratio = ratio_of_logs(0.1 * rng.standard_exponential(12))
    allowed = widened(ratio, 0.95, ratio.se_log, ratio.df, skewness=1.5)
    assert allowed.low <= ratio.low
    assert allowed.high > 1.05 * ratio.high
    assert allowed.inverse.low == pytest.approx(1 / allowed.high)
    assert p_above(allowed.inverse, 0.0) == pytest.approx(1 - p_above(ratio, 0.0), abs=0.1)
    same = widened(ratio, 0.95, ratio.se_log, ratio.df)
    assert (same.low, same.high, same.p_value) == pytest.approx(
        (ratio.low, ratio.high, ratio.p_value)
    )


def test_a_verdict_for_the_far_noisier_side_is_withheld_and_one_against_it_is_not():
    logs = -0.05 + 0.01 * rng.standard_normal(10)
    for noise in (8.0, 1.0, 1 / 8):
        found = analyse(FixedRule(), {"a": Contrast(logs, "lower", noise)})["a"]
        assert found.verdict.kind == "faster"
    near = logs + 0.035
    found = analyse(FixedRule(margin=0.001), {"a": Contrast(near, "lower", 8.0)})["a"]
    assert found.verdict.kind == "undecided"
    assert "no verdict" in " ".join(found.verdict.warnings)
    many = -0.05 + 0.01 * rng.standard_normal(20)
    assert analyse(FixedRule(), {"a": Contrast(many, "lower", 8.0)})["a"].verdict.kind == "faster"


@pytest.mark.parametrize(
    ("mean", "sd", "kind"),
    [
        (-0.2, 0.01, "faster"),
        (0.0, 0.001, "equivalent"),
        (0.015, 0.004, "slower"),
        (0.0, 0.014, "undecided"),
    ],
)
def test_noise_of_one_side_is_no_objection_where_the_bound_is_far(mean, sd, kind):
    logs = mean + sd * stats.zscore(rng.standard_normal(10))
    [found] = analyse(FixedRule(), {"a": Contrast(logs, "lower", 20.0)}).values()
    assert found.verdict.kind == kind


def family(blocks, contrasts=6, spread=0.01):
    base = rng.standard_normal(blocks)
    return [spread * (rng.standard_normal(blocks) - base) for _ in range(contrasts)]


def test_runner_and_result_agree_on_verdicts():
    rule = VerdictRule(min_blocks=5, max_blocks=20)
    logs = {str(k): math.log(0.9) + row for k, row in enumerate(family(20))}
    for blocks in (5, 6, 20):
        seen = {name: row[:blocks] for name, row in logs.items()}
        found = analyse(rule, {name: Contrast(row, "higher") for name, row in seen.items()})
        undecided = tuple(name for name, each in found.items() if each.verdict.kind == "undecided")
        assert decide(rule, seen, blocks).open == undecided


@pytest.mark.parametrize(
    ("failed", "kind"),
    [((0, 0), "faster"), ((3, 0), "undecided"), ((0, 3), "faster"), ((3, 3), "faster")],
)
def test_no_verdict_favours_the_side_of_which_more_trials_failed(failed, kind):
    logs = -0.2 + 0.01 * rng.standard_normal(10)
    contrast = Contrast(logs, "lower", failed=failed, tried=(10, 10))
    found = analyse(FixedRule(), {"a": contrast})["a"]
    assert found.verdict.kind == kind
    assert any("trials failed" in text for text in found.ratio.warnings) == (failed[0] != failed[1])


def test_a_platform_that_is_lost_for_good_does_not_keep_a_run_going():
    wide = np.array([0.1, -0.1, 0.12, -0.08, 0.1, -0.1])
    lost = np.array([0.1, -0.1, 0.12, np.nan, np.nan, np.nan])
    for stop in ("precision", "verdict"):
        rule = RULES[stop](max_blocks=30)
        decision = decide(rule, {"a": lost, "b": 0.001 * wide}, 6)
        assert (decision.stop, decision.reached, decision.open) == (True, False, ("a",))
        assert decision.reason == Note("contrasts-lost", count=1, total=2, last=3)
        assert decide(rule, {"a": lost, "b": wide}, 6).open == ("b",)
        assert not decide(rule, {"a": np.array([0.1, -0.1, 0.12, np.nan, np.nan, 0.1])}, 6).stop


def test_a_difference_that_takes_independence_for_granted_stands_and_says_so():
    noise = 0.02 * np.array([1.0, -1.0, 0.5, -0.5, 0.0])

    def codes(mean: float, blocks: int) -> list[str]:
        logs = mean + np.tile(noise, blocks // 5)
        verdict = analyse(FixedRule(), {"a": Contrast(logs, "lower")})["a"].verdict
        assert verdict.kind == "slower"
        return [warning.code for warning in verdict.warnings]

    assert codes(0.014, 10) == ["assumes-independence"]
    assert codes(0.4, 10) == []
    assert codes(0.04, 5) == []  # nearly every true difference of five blocks would say so


def test_a_warning_says_what_dependent_blocks_are_worth():
    logs = 0.01 * following(0.7, 30, contrasts=1)[0]
    allowed = analyse(FixedRule(), {"0": Contrast(logs, "higher")})["0"].ratio
    assert allowed.half_width > 1.5 * ratio_of_logs(logs).half_width
    (note,) = (text for text in allowed.warnings if getattr(text, "code", "") == "dependent-blocks")
    assert note.data["blocks"] == 30
    assert note.data["effective"] == pytest.approx(allowed.effective_blocks, abs=0.05)


def test_a_plausible_correlation_lies_between_what_blocks_show_and_none():
    assert plausible_correlation(np.zeros(20), 1.0) == 0.0
    few, many = (
        [plausible_correlation(following(0.6, n, contrasts=1)[0], 0.0) for _ in range(200)]
        for n in (5, 100)
    )
    assert np.mean(few) < 0.15
    assert np.mean(many) > 0.4
    logs = following(0.3, 12, contrasts=1)[0]
    limits = [plausible_correlation(logs, errors) for errors in (0.0, 1.0, 3.0)]
    assert limits == sorted(limits)
    wide = [
        plausible_correlation(following(0.0, n, contrasts=1)[0], 1.0) for n in (5, 6, 7, 8, 9, 10)
    ]
    assert max(wide) < 0.5


def test_equivalence_must_stand_with_the_correlation_that_blocks_leave_plausible():
    values = 0.012 * np.array([1.0, 0.8, -0.2, -0.9, -1.0, 0.3, 0.9, 0.7, -0.6, -1.0])
    follow, apart = values[[2, 9, 3, 6, 0, 4, 8, 7, 5, 1]], values[[4, 6, 2, 7, 3, 5, 9, 0, 8, 1]]

    def judged(logs, margin):
        found = analyse(FixedRule(margin=margin), {"a": Contrast(logs, "lower")})["a"]
        assert found.ratio.effective_blocks is None
        return found.verdict.kind, [w.code for w in found.verdict.warnings]

    assert judged(follow, 0.007) == ("undecided", ["withheld-likely-dependent"])
    assert judged(apart, 0.007)[0] == "equivalent"
    assert judged(follow, 0.03) == ("equivalent", [])
    assert judged(follow, 0.012) == ("equivalent", ["assumes-independence"])


def test_a_run_goes_on_while_its_verdict_is_withheld_or_its_interval_is_widened():
    noisier = {"a": Contrast(-0.04 + 0.025 * stats.zscore(rng.standard_normal(10)), "lower", 8.0)}
    rule = VerdictRule()
    assert missed_of(rule, analyse(rule, noisier)) == {"a": True}
    plain, as_judged = (
        decide(rule, {"a": noisier["a"].logs}, 10, missed_by=by)
        for by in (
            None,
            lambda given: missed_of(rule, analyse(rule, {name: noisier[name] for name in given})),
        )
    )
    assert plain.reached
    assert as_judged.open == ("a",)
    following_blocks = {"a": Contrast(0.01 * following(0.7, 30)[0], "higher")}
    width = analyse(PrecisionRule(), following_blocks)["a"].ratio.half_width
    assert width > 1.2 * half_width(PrecisionRule(), following_blocks["a"].logs)
    for target, expected in ((width * 1.01, {}), (width * 0.99, {"a": True})):
        rule = PrecisionRule(precision=target)
        assert missed_of(rule, analyse(rule, following_blocks)) == expected


def test_few_blocks_need_more_room_for_the_noisier_side():
    assert [room_of(blocks) for blocks in (5, 10, 20)] == [4.0, 1.0, 1.0]
