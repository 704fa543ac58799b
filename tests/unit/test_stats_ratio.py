"""Ratios within blocks, across runs, and what bad input gets."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from vtax.messages import Note
from vtax.stats.checks import StatsError
from vtax.stats.contrasts import ContrastSide, paired_contrast, unpaired_ratio_of_logs
from vtax.stats.judge import analyse, missed_of
from vtax.stats.judge import analyse as judge
from vtax.stats.ratio import BlockMeans, block_contrast, paired_ratio
from vtax.stats.rules import FixedRule, VerdictRule

positive = st.floats(1e-3, 1e6)


def test_the_ratio_is_scipys_paired_t_test_on_logarithms():
    a, b = np.array([95, 94, 97, 96.0, 93]), np.array([100, 99, 103, 100.0, 98])
    found = paired_ratio(a, b)
    reference = scipy_stats.ttest_rel(np.log(a), np.log(b))
    assert found.p_value == pytest.approx(reference.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(reference.confidence_interval())))
    assert found.n_blocks == 5


def test_what_both_share_in_a_block_cancels():
    hour = np.array([1.0, 3.0, 0.5, 7.0, 2.0])
    found = paired_ratio(95 * hour, 100 * hour)
    assert found.estimate == pytest.approx(0.95)
    assert found.high - found.low < 1e-12
    assert any("resolution" in text for text in found.warnings)


def test_overhead_of_a_rate_and_of_a_time_is_lost_performance():
    rate = paired_ratio([90, 91, 89.0], [100, 100, 100.0])
    assert rate.overhead("higher").estimate == pytest.approx(0.1, abs=1e-3)
    time = paired_ratio([125, 125.1, 124.9], [100, 100, 100.0])
    assert time.overhead("lower").estimate == pytest.approx(0.2, abs=1e-3)
    assert time.efficiency("lower").low < 0.8 < time.efficiency("lower").high


def test_one_block_has_a_ratio_and_an_endless_interval():
    found = paired_ratio([2.0], [4.0])
    assert (found.estimate, found.low, found.high, found.p_value) == (0.5, 0.0, math.inf, 1.0)
    assert any("one block" in text for text in found.warnings)
    assert found.overhead("lower").high == 1.0


@pytest.mark.parametrize(
    ("treatment", "baseline", "reason"),
    [
        ([1, 0.0], [1, 1.0], "zero or a negative"),
        ([1, 1.0], [1, -1.0], "baseline"),
        ([1, 2.0], [1.0], "do not pair"),
        ([], [], "no blocks"),
        ([math.nan], [1.0], "no blocks"),
        ([math.inf], [1.0], "infinite"),
    ],
)
def test_ratios_without_an_answer_are_refused_with_the_reason(treatment, baseline, reason):
    with pytest.raises(StatsError, match=reason):
        paired_ratio(treatment, baseline)


@pytest.mark.parametrize("nothing", [0.0, -1.0])
def test_a_block_of_zero_is_lost_and_not_the_comparison(nothing):
    good = paired_ratio([95, 94, 97, 96, 93], [100, 99, 103, 100, 98])
    for treatment, baseline in ((nothing, 100), (95, nothing)):
        found = paired_ratio([95, 94, 97, 96, 93, treatment], [100, 99, 103, 100, 98, baseline])
        assert (found.estimate, found.low, found.n_blocks) == (good.estimate, good.low, 5)
    with pytest.raises(StatsError) as refused:
        paired_ratio([95, 94, nothing, nothing], [100, 99, 103, 100])
    assert refused.value.args[0].code == "not-positive"


@pytest.mark.parametrize("value", [100.0, 50.0, 150.0])
def test_no_verdict_is_given_where_a_side_did_nothing_in_a_block(value):
    def side(means):
        return ContrastSide(BlockMeans(np.arange(9), np.array(means, dtype=float)))

    wobble = [0, 1, 2, 3, 4, 3, 2, 1]
    baseline = side([100 + each / 10 for each in (*wobble, 0)])
    treatment = [value + each / 12 for each in wobble]
    whole = paired_contrast(side([*treatment, value]), baseline, "higher")
    partly = paired_contrast(side([*treatment, 0.0]), baseline, "higher")
    answers = judge(FixedRule(margin=0.02), {"whole": whole, "partly": partly})
    assert answers["whole"].verdict.kind != "undecided"
    assert answers["partly"].verdict.kind == "undecided"
    assert "withheld-zeros" in [note.code for note in answers["partly"].verdict.warnings]
    assert "zeros-left-out" in [note.code for note in answers["partly"].ratio.warnings]
    assert answers["partly"].ratio.n_blocks == 8
    rule = VerdictRule(margin=0.02)
    assert missed_of(rule, analyse(rule, {"partly": partly})) == {"partly": False}


def test_a_missing_block_is_left_out_and_an_outlying_one_is_flagged_at_its_place():
    baseline = np.full(8, 100.0)
    treatment = np.array([95, np.nan, 95.1, 94.9, 95.2, 30, 94.8, 95.0])
    found = paired_ratio(treatment, baseline)
    assert found.n_blocks == 7
    assert found.outliers == (5,)
    assert len(found.warnings) == 1  # of seven blocks an outlier says too little for a warning
    more = paired_ratio(np.append(treatment, [94.7, 95.3, 95.0]), np.full(11, 100.0))
    assert more.outliers == (5,)
    assert Note("outliers", count=1, total=10, what="blocks") in more.warnings


def test_runs_without_common_blocks_are_compared_by_welch():
    rng = np.random.default_rng(1)
    a, b = rng.lognormal(0, 0.1, 12), rng.lognormal(0.2, 0.02, 5)
    reference = scipy_stats.ttest_ind(np.log(a), np.log(b), equal_var=False)
    found = unpaired_ratio_of_logs(np.log(a), np.log(b))
    assert found.p_value == pytest.approx(reference.pvalue)
    assert found.df == pytest.approx(reference.df)


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=40))
def test_swapping_the_sides_gives_the_inverse(pairs):
    a, b = zip(*pairs, strict=True)
    one, two = paired_ratio(a, b), paired_ratio(b, a)
    assert one.estimate * two.estimate == pytest.approx(1)
    assert math.log(one.low) == pytest.approx(-math.log(two.high), abs=1e-9)
    assert one.p_value == pytest.approx(two.p_value)


@pytest.mark.filterwarnings("error")
def test_a_ratio_beyond_all_floats_is_answered():
    side = np.array([1e80, 1.1e80, 0.9e80])
    for found in (
        paired_ratio(side, 1e-300 * side / 1e80),
        unpaired_ratio_of_logs(np.log(side), np.log(1e-300 * side / 1e80)),
    ):
        assert found.estimate == found.half_width == found.high == math.inf
        assert (
            found.inverse.estimate == found.efficiency("lower").estimate == found.inverse.low == 0.0
        )
        assert found.inverse.half_width == math.inf
        assert found.overhead("lower").estimate == 1.0


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=40), st.floats(0.1, 10))
def test_units_do_not_matter(pairs, factor):
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    one, two = paired_ratio(a, b), paired_ratio(a * factor, b * factor)
    assert one.low <= one.estimate <= one.high
    assert two.estimate == pytest.approx(one.estimate)


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=10),
    st.lists(st.floats(), max_size=10),
)
def test_anything_is_answered_or_refused(a, b):
    try:
        found = paired_ratio(a, b)
    except StatsError:
        return
    assert found.n_blocks >= 1
    assert 0 <= found.p_value <= 1


def test_a_contrast_pairs_blocks_by_their_numbers():
    left = BlockMeans(np.array([0, 2, 3]), np.array([2.0, 4.0, 8.0]))
    right = BlockMeans(np.array([0, 1, 3]), np.array([1.0, 5.0, 4.0]))
    found = block_contrast(left, right)
    assert np.exp(found[[0, 3]]) == pytest.approx([2.0, 2.0])
    assert np.isnan(found[[1, 2]]).all()
    assert block_contrast(left) == pytest.approx(np.log([2.0, 4.0, 8.0]))
    empty = BlockMeans(np.array([], dtype=np.int64), np.array([]))
    assert np.isnan(block_contrast(left, empty)).all()
    assert block_contrast(empty, empty).size == 0


def test_a_contrast_of_what_is_not_positive_is_refused():
    zero = BlockMeans(np.array([0]), np.array([0.0]))
    with pytest.raises(StatsError):
        block_contrast(zero)
    with pytest.raises(StatsError):
        block_contrast(BlockMeans(np.array([0]), np.array([1.0])), zero)
