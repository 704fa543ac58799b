"""Variance components, plans, drift, and ranks find what was put in."""

import math

import numpy as np
import pytest
from scipy.stats import t

from vtax.stats.checks import StatsError
from vtax.stats.planning import of_ratio
from vtax.stats.steadiness import find_drift
from vtax.stats.variance import components, plan

rng = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def reseeded(monkeypatch):
    """Every test sees the same noise, alone or after others."""
    monkeypatch.setitem(globals(), "rng", np.random.default_rng(11))


def nested(between, trial, sample, blocks=300, trials=5, samples=4):
    shape = (blocks, trials, samples)
    block, number, _ = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    values = 100 * (
        1
        + between * rng.standard_normal((blocks, 1, 1))
        + trial * rng.standard_normal((blocks, trials, 1))
        + sample * rng.standard_normal(shape)
    )
    return values.ravel(), block.ravel(), number.ravel()


def test_three_levels_of_noise_are_reported_apart():
    found = components(*nested(0.03, 0.02, 0.01))
    assert math.sqrt(found.between_blocks) == pytest.approx(0.03, rel=0.15)
    assert math.sqrt(found.between_trials) == pytest.approx(0.02, rel=0.15)
    assert math.sqrt(found.within_trial) == pytest.approx(0.01, rel=0.15)
    assert sum(found.shares) == pytest.approx(1)


def test_levels_that_occur_once_are_merged_with_a_warning():
    values, blocks, _ = nested(0.03, 0.01, 0.0, trials=1, samples=1)
    found = components(values, blocks)
    assert found.between_trials == 0
    assert math.sqrt(found.between_blocks) == pytest.approx(math.hypot(0.03, 0.01), rel=0.15)
    assert any("one trial per block" in text for text in found.warnings)


def test_no_noise_and_one_block_are_answered():
    assert components([5.0, 5, 5, 5], [0, 0, 1, 1]).shares == (0, 0, 0)
    assert any("one block" in text for text in components([1.0, 2.0], [0, 0]).warnings)
    with pytest.raises(StatsError):
        components([1.0, -1.0], [0, 1])


def test_costly_blocks_get_more_trials_and_the_plan_is_the_cheapest():
    noise = components(*nested(0.01, 0.05, 0.0, samples=1)[:2])
    cheap, dear = plan(noise, 1, 10, 0.02), plan(noise, 100, 10, 0.02)
    assert dear.trials > cheap.trials
    assert cheap.half_width <= 0.02

    def time_with(trials):
        variance = 2 * (noise.between_blocks + noise.between_trials / trials)
        blocks = next(
            n for n in range(5, 400) if t.ppf(0.975, n - 1) * math.sqrt(variance / n) <= 0.02
        )
        return blocks * (100 + 10 * trials)

    one_block_s = (
        100 + 10 * dear.trials
    )  # blocks are whole: the plan may round up where the search just fits
    assert dear.time_s <= min(time_with(k) for k in range(1, 40)) + one_block_s


def test_samples_of_one_trial_do_not_stand_in_for_trials():
    values, blocks, _ = nested(0.0, 0.0, 0.3, blocks=8, trials=1, samples=10)
    noise = components(values, blocks, np.zeros_like(blocks))
    assert noise.within_trial > 0.05
    assert noise.trial_means is None
    assert plan(noise, 100, 1, 0.02).trials == 1


def test_no_noise_seen_between_few_blocks_is_not_taken_at_its_word():
    values = [98.0, 102.0, 98.0, 102.0, 98.0, 102.0]
    noise = components(values, [0, 0, 1, 1, 2, 2])
    assert noise.between_blocks == 0.0
    few = plan(noise, 1, 1, 0.001)
    assert few.trials < 5
    assert few.blocks_low == few.blocks < few.blocks_high / 10
    many = plan(components(values * 100, np.arange(300).repeat(2)), 1, 1, 0.001)
    assert many.trials > few.trials
    assert many.blocks_high < 3 * many.blocks


def test_a_plan_is_made_at_the_level_that_its_number_of_blocks_has():
    noise = components([97.0, 103.0, 100.0, 98.0, 102.0, 101.0], range(6))
    plain, strict = plan(noise, 0, 1, 0.02), plan(noise, 0, 1, 0.02, 0.99)
    rising = plan(noise, 0, 1, 0.02, lambda blocks: 0.95 if blocks < plain.blocks else 0.99)
    assert (rising.blocks, rising.half_width) == (strict.blocks, strict.half_width)
    assert strict.blocks > plain.blocks
    jump = plain.blocks + 1
    dips = plan(noise, 0, 1, plain.half_width, lambda n: 0.95 if n < jump else 0.999, settled=jump)
    assert dips.blocks == plain.blocks


def test_a_plan_beyond_a_million_blocks_has_no_upper_end_and_one_block_gives_none():
    found = plan(components([90.0, 110.0, 100.0], [0, 1, 2]), 0, 1, 0.0005)
    assert found.blocks_low < found.blocks
    assert found.blocks_high is None
    with pytest.raises(StatsError, match="two blocks"):
        plan(components([1.0, 2.0], [0, 0]), 0, 1, 0.02)


def test_drift_is_measured_over_the_whole_run():
    found = find_drift(100 * (1 + np.linspace(0, 0.1, 30)) + rng.normal(0, 0.3, 30))
    assert found.change == pytest.approx(0.095, abs=0.01)
    assert found.low < found.change < found.high
    assert any("drift" in text for text in found.warnings)
    assert find_drift([1.0, 2.0]).warnings
    assert find_drift([5.0] * 9).change == 0


def test_noise_of_a_ratio_is_split_between_blocks_and_trials():
    rng = np.random.default_rng(4)
    blocks = np.repeat(np.arange(400), 4)
    logs = [rng.normal(0, 0.02, 400)[blocks] + rng.normal(0, 0.03, 1600) for _ in range(2)]
    means = [np.array([side[blocks == b].mean() for b in range(400)]) for side in logs]
    sides = tuple(components(np.exp(side), blocks) for side in logs)
    found = of_ratio(float((means[0] - means[1]).var(ddof=1)), 400, sides)
    assert math.sqrt(found.between_blocks) == pytest.approx(0.02, rel=0.15)
    assert math.sqrt(found.trial_means) == pytest.approx(0.03, rel=0.1)
