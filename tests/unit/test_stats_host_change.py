"""A change of hosts: difference in differences against formulas by hand and scipy; which hosts change first."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from vtax.stats.checks import StatsError
from vtax.stats.host_change import effect_of_change, random_half

CHANGED, CONTROLS = np.array([-0.04, -0.02, -0.05, -0.03]), np.array([0.01, 0.02, 0.00, 0.03])


def test_a_half_against_the_other_is_students_t_of_two_samples():
    found = effect_of_change(CHANGED, CONTROLS)
    expected = stats.ttest_ind(CHANGED, CONTROLS)
    assert found.p_value == pytest.approx(expected.pvalue)
    bounds = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.exp(bounds.low), math.exp(bounds.high)))
    assert (found.estimate, found.df) == (pytest.approx(math.exp(-0.05)), 6)
    assert (found.changed, found.controls) == (4, 4)


@pytest.mark.parametrize("scatter", [0.2, 5.0])
def test_unequal_sides_have_the_wider_of_the_pooled_interval_and_one_of_the_smaller_sides_freedom(
    scatter,
):
    changed = CHANGED[:2] * scatter
    found = effect_of_change(changed, CONTROLS, 0.9)
    mean, se = changed.mean() - CONTROLS.mean(), math.hypot(stats.sem(changed), stats.sem(CONTROLS))
    pooled = stats.ttest_ind(changed, CONTROLS)
    assert found.p_value == pytest.approx(max(pooled.pvalue, 2 * stats.t.sf(abs(mean) / se, 1)))
    half = stats.t.ppf(0.95, 1) * se
    assert math.log(found.high) == pytest.approx(
        max(pooled.confidence_interval(0.9).high, mean + half)
    )
    assert math.log(found.low) == pytest.approx(
        min(pooled.confidence_interval(0.9).low, mean - half)
    )


def test_the_halves_of_an_odd_number_have_welchs_freedom():
    changed = CHANGED[:3] * 5
    found, expected = (
        effect_of_change(changed, CONTROLS),
        stats.ttest_ind(changed, CONTROLS, equal_var=False),
    )
    assert (found.p_value, found.df) == pytest.approx((expected.pvalue, expected.df))


@pytest.mark.slow
@pytest.mark.parametrize("hosts", [(2, 8), (8, 2), (2, 28)])
@pytest.mark.parametrize("scatter", [0.3, 2.0, 5.0])
def test_unequal_sides_are_covered_however_each_scatters(hosts, scatter):
    rng, studies = np.random.default_rng(7), 1000
    covered = 0
    for _ in range(studies):
        found = effect_of_change(
            scatter * rng.standard_normal(hosts[0]), rng.standard_normal(hosts[1])
        )
        covered += found.low <= 1 <= found.high
    assert covered / studies > 0.935  # 0.95, and chance


def test_what_all_hosts_share_between_the_windows_cancels():
    plain, shifted = (
        effect_of_change(CHANGED, CONTROLS),
        effect_of_change(CHANGED + 0.3, CONTROLS + 0.3),
    )
    assert (plain.low, plain.high, plain.p_value) == pytest.approx(
        (shifted.low, shifted.high, shifted.p_value)
    )


def test_without_controls_it_is_after_and_before_alone():
    found = effect_of_change(CHANGED, [])
    assert found.p_value == pytest.approx(stats.ttest_1samp(CHANGED, 0.0).pvalue)
    assert (found.df, found.controls) == (3, 0)


@pytest.mark.parametrize(
    ("changed", "controls"), [(CHANGED[:1], CONTROLS), (CHANGED, CONTROLS[:1]), ([0.1], [])]
)
def test_one_host_on_a_side_shows_no_scatter_and_so_has_no_interval(changed, controls):
    found = effect_of_change(changed, controls)
    assert (found.low, found.high, found.p_value) == (0.0, math.inf, 1.0)


def test_hosts_that_all_agree_have_an_interval_without_a_width():
    found = effect_of_change([0.1, 0.1], [0.0, 0.0])
    assert (found.low, found.high, found.p_value) == (found.estimate, found.estimate, 0.0)
    assert effect_of_change([0.1, 0.1], [0.1, 0.1]).p_value == 1.0


def test_no_changed_host_is_refused():
    with pytest.raises(StatsError):
        effect_of_change([], CONTROLS)


def test_performance_is_the_inverse_where_less_is_better():
    found = effect_of_change(CHANGED, CONTROLS)
    lower = found.efficiency("lower")
    assert (lower.estimate, lower.low, lower.high) == pytest.approx(
        (1 / found.estimate, 1 / found.high, 1 / found.low)
    )
    assert found.efficiency("higher").low == found.low


def test_half_of_the_hosts_is_drawn_by_the_seed_in_every_group():
    hosts = {f"host{number}": "amd" if number < 6 else "intel" for number in range(10)}
    found = random_half(hosts, 7)
    assert found == random_half(dict(reversed(hosts.items())), 7)[::-1]
    assert [name for name in hosts if name in found] == list(found)
    for seed in range(40):
        assert Counter(hosts[name] for name in random_half(hosts, seed)) == {"amd": 3, "intel": 2}
    assert len({random_half(hosts, seed) for seed in range(40)}) > 20


def test_every_host_is_as_likely_as_the_others_and_an_odd_one_goes_to_either_side():
    names = [f"host{number}" for number in range(5)]
    drawn = [random_half(names, seed) for seed in range(1000)]
    often = Counter(name for each in drawn for name in each)
    assert {len(each) for each in drawn} == {2, 3}
    assert all(440 < often[name] < 560 for name in names)
