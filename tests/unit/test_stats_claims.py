"""Words about published findings: ranges, several comparisons, families, and how often a word is false."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vtax.stats.checks import StatsError
from vtax.stats.claims import (
    Claimed,
    Judgement,
    RangeTest,
    judge_claims,
    p_values,
    partial_conjunction,
)
from vtax.stats.contrasts import Contrast
from vtax.stats.outlook import range_outlook
from vtax.stats.ratio import ratio_of_logs
from vtax.stats.rules import FixedRule, OpenRule
from vtax.stats.spread import spread_over_blocks, spread_over_points

RULE = FixedRule(blocks=10)


def logs(ratio: float, blocks: int = 10, noise: float = 0.01, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    found = random.normal(0, noise, blocks)
    return math.log(ratio) + found - found.mean()


def claimed(ratio: float, low: float = 0.0, high: float = math.inf, **changes: float) -> Claimed:
    return Claimed(Contrast(logs(ratio, **changes), "higher"), low, high)


def word(*compared: Claimed, needs: str = "each") -> str:
    return judge_claims(RULE, {"one": [RangeTest(tuple(compared), needs)]})["one"].kind


def test_p_values_say_what_the_interval_says():
    for estimate in (0.7, 0.88, 0.9, 0.92, 1.0, 1.08, 1.1, 1.12, 1.5):
        ratio = ratio_of_logs(logs(estimate, noise=0.03))
        inside, outside = p_values(ratio, claimed(1.0, 0.9, 1.1), RULE)
        assert (inside <= 0.05) == (ratio.low >= 0.9 and ratio.high <= 1.1)
        assert (outside <= 0.05) == (ratio.high <= 0.9 or ratio.low >= 1.1)


def test_under_the_rule_open_a_word_needs_what_holds_at_every_look():
    near = RangeTest((claimed(0.93, noise=0.026, high=0.95),), "each")
    assert judge_claims(RULE, {"one": [near]})["one"].kind == "reproduced"
    rule = OpenRule(blocks=10)
    found = judge_claims(rule, {"one": [near]})["one"]
    assert (found.kind, found.alpha) == ("inconclusive", rule.alpha)
    far = RangeTest((claimed(0.8, noise=0.02, high=0.95),), "each")
    assert judge_claims(rule, {"one": [far]})["one"].kind == "reproduced"


@pytest.mark.parametrize(
    ("ratio", "low", "high", "expected"),
    [
        (0.5, 0.4, 0.6, "reproduced"),
        (0.7, 0.4, 0.6, "contradicted"),
        (0.3, 0.4, 0.6, "contradicted"),
        (0.6, 0.4, 0.6, "inconclusive"),
        (1.2, 1.0, math.inf, "reproduced"),
        (0.8, 1.0, math.inf, "contradicted"),
        (1.0, 1.0, math.inf, "inconclusive"),
        (0.8, 0.0, 1.0, "reproduced"),
        (1.2, 0.0, 1.0, "contradicted"),
    ],
)
def test_a_range_is_reproduced_inside_contradicted_outside_inconclusive_at_its_bound(
    ratio, low, high, expected
):
    assert word(claimed(ratio, low, high)) == expected


def test_each_needs_all_inside_and_one_outside_contradicts():
    inside, outside, open_ = (claimed(r, 0.9, 1.1) for r in (1.0, 1.5, 1.1))
    assert word(inside, inside) == "reproduced"
    assert word(inside, open_) == "inconclusive"
    assert word(inside, open_, outside) == "contradicted"


def test_most_needs_more_than_half():
    inside, outside = claimed(1.0, 0.9, 1.1), claimed(1.5, 0.9, 1.1)
    assert word(inside, inside, outside, needs="most") == "reproduced"
    assert word(inside, outside, needs="most") == "contradicted"
    assert word(inside, outside, outside, needs="most") == "contradicted"


def test_partial_conjunction_is_a_union_and_an_intersection_at_its_ends():
    assert partial_conjunction([0.01, 0.2, 0.04], 3) == pytest.approx(0.2)
    assert partial_conjunction([0.01, 0.2, 0.04], 1) == pytest.approx(0.03)
    assert partial_conjunction([0.01, 0.2, 0.04], 2) == pytest.approx(0.08)


def test_all_checks_of_a_claim_must_hold():
    good, bad = RangeTest((claimed(1.2, 1.0),)), RangeTest((claimed(0.8, 1.0),))
    found = judge_claims(RULE, {"both": [good, good], "one": [good, bad]})
    assert (found["both"].kind, found["one"].kind) == ("reproduced", "contradicted")
    assert found["one"].family == 2


def test_words_are_corrected_for_their_number_by_holm():
    weak = [RangeTest((claimed(1.01, 1.0, noise=0.015),))]
    alone = judge_claims(RULE, {"weak": weak})["weak"]
    assert alone.kind == "reproduced"
    among = judge_claims(
        RULE, {"weak": weak, **{f"at {n}": [RangeTest((claimed(1.0, 1.0),))] for n in range(9)}}
    )
    assert among["weak"].kind == "inconclusive"
    assert among["weak"].p_reproduced == pytest.approx(10 * alone.p_reproduced)
    after = judge_claims(
        RULE, {"weak": weak, **{f"sure {n}": [RangeTest((claimed(2.0, 1.0),))] for n in range(9)}}
    )
    assert after["weak"].kind == "reproduced", (
        "findings that are certain cost those after them nothing"
    )


def test_few_blocks_judge_nothing_and_say_how_many_more():
    found = judge_claims(RULE, {"a": [RangeTest((claimed(2.0, 1.0, blocks=3),))]})["a"]
    assert found.kind == "inconclusive"
    assert (found.warnings[0].code, found.warnings[0].data["count"]) == ("few-blocks-for-claim", 3)
    assert found.blocks_needed == 2


def test_what_is_open_has_a_range_of_further_blocks_that_decides_it():
    open_ones = {f"{n}": [RangeTest((claimed(1.0, 1.0),))] for n in range(19)}
    found = judge_claims(RULE, {"a": [RangeTest((claimed(1.08, 1.0, noise=0.1),))], **open_ones})[
        "a"
    ]
    assert found.kind == "inconclusive"
    assert found.blocks_low is not None
    assert found.blocks_needed is not None
    assert 0 < found.blocks_low <= found.blocks_needed < 200
    at_its_bound = judge_claims(RULE, {"a": [RangeTest((claimed(1.0, 1.0, noise=0.02),))]})["a"]
    assert at_its_bound.blocks_needed is None


def test_the_range_of_blocks_shrinks_with_noise_and_distance():
    def high(mean: float, sd: float) -> int:
        found = range_outlook(mean, sd, 10, 9, (0.0, math.inf), (0.005, 0.005)).high
        assert found is not None
        return found

    assert high(0.1, 0.02) < high(0.1, 0.1)
    assert high(0.2, 0.1) < high(0.1, 0.1)


def test_a_wrong_clock_withholds_an_equivalence_and_no_difference():
    contrast = Contrast(logs(1.0), "higher")
    assert word(Claimed(contrast, 0.9, 1.1, is_withheld=True)) == "inconclusive"
    assert word(Claimed(contrast, 0.5, math.inf, is_withheld=True)) == "reproduced"


def test_a_claim_that_favours_the_side_with_failed_trials_is_withheld():
    lost = Contrast(logs(1.5), "higher", failed=(5, 0), tried=(10, 10))
    found = judge_claims(RULE, {"a": [RangeTest((Claimed(lost, 1.0, math.inf),))]})["a"]
    assert found.kind == "inconclusive"
    assert "no verdict" in found.warnings[0]
    against = Contrast(logs(0.5), "higher", failed=(5, 0), tried=(10, 10))
    assert word(Claimed(against, 0.0, 1.0)) == "reproduced"


def test_a_claim_of_absence_must_stand_against_plausible_dependence_and_says_what_it_assumes():
    def judged(ratio: float, low: float) -> Judgement:
        contrast = Contrast(logs(ratio, blocks=5, noise=0.02), "higher")
        return judge_claims(RULE, {"a": [RangeTest((Claimed(contrast, low, math.inf),))]})["a"]

    passed = np.array([judged(ratio, 0.95).kind for ratio in np.arange(0.96, 1.02, 0.002)])
    first = int(np.argmax(passed == "reproduced"))
    found = judged(0.96 + 0.002 * (first - 1), 0.95)
    assert found.kind == "inconclusive"
    assert [note.code for note in found.warnings] == ["withheld-likely-dependent"]
    assert min(found.p_reproduced, found.p_contradicted) < 0.05
    assert found.assumptions == ()
    barely = judged(0.96 + 0.002 * first, 0.95)
    assert barely.assumptions == ()  # five blocks are too few to tell
    difference = judged(
        found.answers[0][0].ratio.estimate / 0.95, 1.0
    )  # as far from its bound, but no absence
    assert difference.kind == "reproduced"
    assert judged(1.2, 0.95).assumptions == ()


def test_sides_that_share_no_block_are_withheld_for_failed_trials():
    random = np.random.default_rng(1)
    sides = tuple(
        (mean + random.normal(0, 0.01, 12), np.repeat(np.arange(4), 3)) for mean in (0.2, 0.0)
    )
    empty = Contrast(np.full(1, np.nan), "higher", failed=(5, 0), tried=(20, 20))
    found = judge_claims(RULE, {"a": [RangeTest((Claimed(empty, 0.95, math.inf, apart=sides),))]})[
        "a"
    ]
    assert [note.code for note in found.warnings] == ["withheld-failures"]
    assert [note.code for note in found.answers[0][0].ratio.warnings] == ["failures-differ"]


def test_a_comparison_without_values_is_a_reason_and_no_word():
    empty = Claimed(Contrast(np.full(3, np.nan), "higher"), 1.0, math.inf)
    found = judge_claims(RULE, {"a": [RangeTest((empty, claimed(1.5, 1.0)))]})["a"]
    assert found.kind == "inconclusive"
    assert isinstance(found.answers[0][0], StatsError)


def test_successive_differences_give_the_ratio_of_standard_deviations_and_cover_it():
    random = np.random.default_rng(7)
    covered, estimates = 0, []
    for _ in range(400):
        wide, narrow = random.normal(0, 0.05, 20), random.normal(0, 0.01, 20)
        found = ratio_of_logs(spread_over_blocks(wide) - spread_over_blocks(narrow))
        covered += found.low <= 5 <= found.high
        estimates.append(found.mean_log)
    assert covered >= 0.93 * 400
    assert math.exp(np.mean(estimates)) == pytest.approx(5, rel=0.1)
    with pytest.raises(StatsError):
        spread_over_blocks(np.zeros(5))
    with pytest.raises(StatsError):
        spread_over_blocks(np.array([1.0, 2.0]))


def test_rare_slow_blocks_do_not_make_a_spread_of_equals():
    """Where the F-test and a jackknife of variances are false in more than a tenth."""
    random = np.random.default_rng(2)
    false = 0
    for _ in range(400):
        sides = random.normal(0, 0.03, (2, 24)) - 0.3 * (random.random((2, 24)) < 0.05)
        found = ratio_of_logs(spread_over_blocks(sides[0]) - spread_over_blocks(sides[1]))
        false += not found.low <= 1 <= found.high
    assert false <= 0.05 * 400 + 2 * math.sqrt(0.05 * 0.95 * 400)


def test_spread_over_points_is_one_number_for_every_block():
    points = np.log(np.array([[1.0, 1.0], [2.0, 1.1], [4.0, 1.2]]))
    assert spread_over_points(points) == pytest.approx(np.log(points.std(axis=0, ddof=1)))
    with pytest.raises(StatsError):
        spread_over_points(points[:2])
