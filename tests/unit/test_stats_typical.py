"""The ratio of typical trials: its arithmetic, when it is given, and what it finds. Figures here are invented."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from vtax.stats.judge import Contrast, analyse
from vtax.stats.ratio import ratio_of_logs
from vtax.stats.rules import FixedRule
from vtax.stats.typical import FEWEST_BLOCKS, trimmed_mean, typical_ratio

RULE = FixedRule()


def comparison(logs, medians, better="higher", rule=RULE, trials=8):
    found = analyse(rule, {"a": Contrast(logs, better, medians=medians, trials=trials)})["a"]
    return found


def pausing(blocks=20, seed=1):
    """Log-ratios of a rate: averages and medians of eight trials of CV 1 %, one of eight taking twice as long."""
    rng = np.random.default_rng(seed)
    platform, baseline = np.exp(0.01 * rng.standard_normal((2, blocks, 8)))
    platform = np.where(rng.random(platform.shape) < 1 / 8, platform / 2, platform)
    averages = np.log(platform.mean(axis=1)) - np.log(baseline.mean(axis=1))
    return averages, np.log(np.median(platform, axis=1)) - np.log(np.median(baseline, axis=1))


def test_the_trimmed_mean_is_scipys_and_its_interval_is_yuens():
    values = np.random.default_rng(3).standard_normal(13) ** 3
    mean, se, contributions = trimmed_mean(values)
    assert mean == pytest.approx(stats.trim_mean(values, 0.2))
    kept = np.sort(values)[2:-2]
    winsorized = np.concatenate([[kept[0]] * 2, kept, [kept[-1]] * 2])
    assert se == pytest.approx(math.sqrt(winsorized.var() * 13 / (9 * 8)))
    assert contributions.mean() == pytest.approx(mean)


def test_yuens_test_of_scipy_for_two_samples_agrees_when_one_is_constant():
    values = np.random.default_rng(4).standard_normal(20)
    mean, se, _ = trimmed_mean(values)
    almost_constant = 1e-9 * np.random.default_rng(5).standard_normal(20)
    found = stats.ttest_ind(values, almost_constant, equal_var=False, trim=0.2)
    assert found.statistic == pytest.approx(mean / se, rel=1e-6)
    assert 2 * stats.t.sf(abs(mean / se), 11) == pytest.approx(found.pvalue, rel=1e-6)


def test_blocks_and_trials_must_suffice():
    logs = 0.01 * np.random.default_rng(6).standard_normal(FEWEST_BLOCKS)
    assert comparison(logs, logs).typical is not None
    assert comparison(logs, logs, trials=2).typical is None
    assert comparison(logs[:-1], logs[:-1]).typical is None
    assert comparison(logs, None).typical is None
    assert comparison(np.zeros(12), np.zeros(12)).typical is None


def test_a_block_without_a_value_is_left_out():
    averages, medians = pausing()
    averages[3] = medians[3] = np.nan
    found = comparison(averages, medians).typical
    assert found.n_blocks == 19
    kept = medians[~np.isnan(medians)]
    assert found.mean_log == pytest.approx(stats.trim_mean(kept, 0.2))


def test_a_platform_that_pauses_in_one_of_eight_trials_is_found_and_its_typical_trials_are_unharmed():
    averages, medians = pausing()
    found = comparison(averages, medians)
    assert found.ratio.estimate == pytest.approx(1 - 1 / 16, abs=0.02)
    assert found.ratio.high < 0.99
    assert found.verdict.kind == "slower"
    assert found.typical.low < 1 < found.typical.high
    assert found.typical.high - found.typical.low < 0.5 * (found.ratio.high - found.ratio.low)
    assert found.typical.pauses == "treatment"
    (warning,) = found.typical.warnings
    assert warning.code == "pauses"
    assert warning.data["percent"] == pytest.approx(6, abs=2)


@pytest.mark.parametrize(
    ("sign", "better", "pauses"),
    [
        (1, "higher", "treatment"),
        (-1, "lower", "treatment"),
        (-1, "higher", "baseline"),
        (1, "lower", "baseline"),
    ],
)
def test_the_side_that_pauses_is_the_one_whose_average_is_worse(sign, better, pauses):
    averages, medians = pausing()
    found = comparison(sign * averages, sign * medians, better).typical
    assert found.pauses == pauses


def test_a_pause_within_the_margin_is_none():
    averages, medians = pausing()
    found = comparison(averages, medians, rule=FixedRule(margin=0.2)).typical
    assert found.pauses == ""
    assert found.warnings == ()


def test_efficiency_turns_a_time_round():
    averages, medians = pausing()
    ratio = ratio_of_logs(averages)
    found = typical_ratio(ratio, averages, medians, 8, 0.95)
    turned = found.efficiency("lower")
    assert (turned.low, turned.estimate, turned.high) == pytest.approx(
        (1 / found.high, 1 / found.estimate, 1 / found.low)
    )
    assert found.efficiency("higher").low == found.low


def test_blocks_that_follow_one_another_widen_it_too():
    averages, medians = pausing(blocks=30)
    ratio = ratio_of_logs(averages)
    alone = typical_ratio(ratio, averages, medians, 8, 0.95)
    together = typical_ratio(replace(ratio, effective_blocks=10.0), averages, medians, 8, 0.95)
    assert together.high / together.low > (alone.high / alone.low) ** math.sqrt(2)
