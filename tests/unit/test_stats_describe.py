"""What a cell's summary promises."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from vtax.messages import Note
from vtax.stats.checks import StatsError
from vtax.stats.describe import describe, effective_size, modified_z
from vtax.stats.intervals import median_interval
from vtax.stats.means import average_of, block_means, grouped, median_of, medians_of, sd_of
from vtax.stats.steadiness import find_drift

numbers = st.floats(-1e9, 1e9, allow_nan=False)
positive = st.floats(1e-6, 1e6)


def test_the_papers_numbers_agree_with_scipy():
    values = [3.1, 2.9, 3.4, 3.0, 3.3, 2.8]
    found = describe(values)
    reference = scipy_stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(reference))
    assert found.sd == pytest.approx(np.std(values, ddof=1))
    assert found.cv == pytest.approx(found.sd / found.mean)
    assert found.warnings == ()


def test_the_interval_rests_on_blocks_not_on_trials():
    blocks = np.repeat(np.arange(4), 50)
    values = blocks + np.tile(np.linspace(-0.01, 0.01, 50), 4)
    found = describe(values, blocks=blocks)
    assert (found.n, found.blocks) == (200, 4)
    assert (found.low, found.high) == pytest.approx(
        tuple(scipy_stats.ttest_1samp(range(4), 0).confidence_interval())
    )


def test_the_medians_interval_rests_on_blocks_not_on_trials():
    values = np.array([1, 2, 9, 4, 5, 6, 7, 0])
    found = describe(values, blocks=[3, 1, 1, 2, 2, 2, 3, 3])  # medians 5.5, 5, 1
    assert (found.median, found.median_low, found.median_high, found.median_confidence) == (
        5,
        1,
        5.5,
        0.75,
    )


@given(st.lists(st.tuples(st.integers(0, 5), numbers), min_size=1, max_size=40))
def test_values_in_the_order_of_their_blocks_are_grouped_as_others(pairs):
    labels, values = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    order = np.argsort(labels, kind="stable")
    for each in (labels, labels[order]):
        for found, expected in zip(
            grouped(each), np.unique(each, return_inverse=True, return_counts=True), strict=True
        ):
            assert found.tolist() == expected.tolist()
    expected = [np.median(values[labels == label]) for label in np.unique(labels)]
    assert medians_of(grouped(labels), values).tolist() == expected
    assert median_of(values) == np.median(values)


def test_no_labels_are_grouped_into_none():
    assert [each.tolist() for each in grouped(np.array([], dtype=np.int64))] == [[], [], []]


@pytest.mark.slow
@pytest.mark.parametrize("trials", [3, 10])
def test_the_medians_interval_covers_as_often_as_it_says_with_several_trials_a_block(trials):
    """1000 studies of 10 blocks whose shared noise is as large as a trial's: chance is +-1.3 %."""
    rng, labels = np.random.default_rng(8), np.repeat(np.arange(10), trials)
    covered = 0
    for _ in range(1000):
        values = 100 + rng.normal(size=10)[labels] + rng.normal(size=labels.size)
        found = describe(values, blocks=labels)
        covered += found.median_low <= 100 <= found.median_high
    assert found.median_confidence > 0.95
    assert covered / 1000 == pytest.approx(found.median_confidence, abs=0.02)


@pytest.mark.parametrize(("n", "ranks"), [(6, (0, 5)), (10, (1, 8)), (20, (5, 14))])
def test_the_median_lies_between_the_tabled_order_statistics(n, ranks):
    """Ranks of Le Boudec's table for 95 %."""
    found = median_interval(np.arange(n))
    assert (found.low, found.high) == ranks
    assert found.confidence >= 0.95


def test_few_values_cannot_give_a_median_interval_and_say_so():
    found = median_interval([1.0, 2.0, 3.0])
    assert (found.low, found.high, found.confidence) == (1.0, 3.0, 0.75)
    assert "75.0\N{NO-BREAK SPACE}%" in found.warnings[0]


def test_one_value_has_a_mean_and_an_endless_interval():
    found = describe([5.0])
    assert (found.mean, found.low, found.high) == (5.0, -math.inf, math.inf)
    assert any("no interval" in text for text in found.warnings)


def test_equal_values_are_warned_about():
    assert any("equal" in text for text in describe([7.0] * 8).warnings)


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.inf], ["a"], [[1.0, 2.0]]])
def test_values_without_an_answer_are_refused(values):
    with pytest.raises(StatsError):
        describe(values)


def test_missing_values_are_left_out_and_outliers_keep_their_places():
    found = describe([1.0, math.nan, 1.1, 0.9, 1.0, 1.05, 50.0])
    assert found.n == 6
    assert found.outliers == (6,)
    assert any("missing" in text for text in found.warnings)
    assert found.mean > 9  # kept


def test_outliers_are_warned_of_where_there_are_values_enough_to_judge_by():
    values = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.02, 0.97, 50.0]
    assert describe(values).outliers == (8,)
    assert not any("far from" in text for text in describe(values).warnings)
    assert Note("outliers", count=1, total=10, what="values") in describe([*values, 1.03]).warnings


def test_modified_z_is_iglewicz_and_hoaglins():
    assert modified_z(np.array([1.0, 2, 3, 4, 100]))[4] == pytest.approx(0.6745 * 97 / 1)
    assert modified_z(np.array([1.0, 1, 1, 1, 5]))[4] == pytest.approx(4 * 0.7979 / 0.8)


def test_the_standard_deviation_is_numpys_to_the_last_digit():
    rng = np.random.default_rng(1)
    for n in (*range(2, 300), 100_000):
        values = rng.lognormal(3, 1, n)
        assert sd_of(values) == values.std(ddof=1)


def test_autocorrelated_values_are_worth_fewer():
    rng = np.random.default_rng(1)
    z = rng.standard_normal(4000)
    for k in range(1, z.size):
        z[k] = 0.8 * z[k - 1] + 0.6 * z[k]
    assert effective_size(z) == pytest.approx(4000 * 0.2 / 1.8, rel=0.3)
    assert effective_size(rng.standard_normal(4000)) > 3000


@pytest.mark.parametrize("values", [np.arange(19.0), np.ones(40)])
def test_autocorrelation_that_cannot_be_estimated_gives_no_effective_size(values):
    assert effective_size(values) is None
    assert describe(values).effective_n is None
    assert effective_size(np.tile([1.0, 2.0], 10)) is not None


def test_numbers_too_large_to_square_are_refused():
    with pytest.raises(StatsError, match="beyond 1e90"):
        describe([1e300, 2e300])


def test_rates_over_fixed_work_average_to_total_work_over_total_time():
    times = np.array([1.0, 2.0, 4.0])
    assert average_of(100 / times, "harmonic") == pytest.approx(300 / times.sum())
    assert average_of([2, 8], "geometric") == pytest.approx(4)
    with pytest.raises(StatsError, match="negative"):
        average_of([1.0, -1.0], "harmonic")
    with pytest.raises(StatsError, match="negative"):
        average_of([1.0, 0.0], "geometric")
    assert average_of([1.0, 0.0], "harmonic") == 0  # the work of the second never ended


def test_blocks_are_averaged_each_by_itself():
    labels, means = block_means([2, 1, 1, 2, 3], [4, 1, 3, 6, math.nan])
    assert labels.tolist() == [1, 2]
    assert means.tolist() == [2, 5]


@given(st.lists(numbers, min_size=2, max_size=60))
def test_every_list_of_numbers_has_a_summary_in_order(values):
    found = describe(values)
    slack = 1e-6 * max(1.0, *(abs(v) for v in values))
    assert found.minimum - slack <= found.mean <= found.maximum + slack
    assert found.minimum <= found.median_low <= found.median <= found.median_high <= found.maximum
    assert found.low <= found.mean <= found.high
    assert (found.effective_n is None) == (found.n < 20 or found.minimum == found.maximum)
    assert found.effective_n is None or 0 < found.effective_n <= found.n


def test_nothing_positive_can_drift_by_more_than_all_of_it():
    noisy = [3.0, 200.0, 8.0, 900.0, 1.0, 40.0]
    found = find_drift(noisy)
    assert -1 < found.low < found.change < found.high
    inverse = find_drift(
        [1 / value for value in noisy]
    )  # a time and its rate drift by the same factor
    assert 1 + inverse.low == pytest.approx(1 / (1 + found.high))
    assert 1 + inverse.change == pytest.approx(1 / (1 + found.change))
    assert find_drift([100 * 1.1 ** (n / 9) for n in range(10)]).change == pytest.approx(0.1)
    assert find_drift([-2.0, -1.0, 1.0, 2.0, 3.0, 4.0]).change > 1  # relative to the median
