"""Trials per block: the optimum of two-stage sampling, and what it saves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vtax.runner.allocation import Choice
from vtax.stats.checks import StatsError
from vtax.stats.planning import MAX_ALLOCATED, allocate, of_ratio
from vtax.stats.variance import Components, components


def noise(between: float, within: float | None, blocks: int = 12) -> Components:
    """Of either side of a contrast: standard deviations of blocks and of trials; within None: one trial a block."""
    of_trials = None if within is None else within**2
    return Components(1.0, between**2, of_trials or 0.0, 0.0, blocks, 3.0, 1.0, (), of_trials)


@pytest.mark.parametrize(
    ("start_s", "trial_s", "between", "within"),
    [(9.0, 1.0, 0.01, 0.02), (4.0, 1.0, 0.02, 0.02), (1.0, 10.0, 0.01, 0.1)],
)
def test_trials_of_one_contrast_are_at_the_optimum(start_s, trial_s, between, within):
    optimum = math.sqrt(start_s / trial_s) * within / between
    found = allocate([noise(between, within)], start_s, trial_s)
    assert abs(found.trials - optimum) < 1
    assert found.between == pytest.approx(math.sqrt(2) * between)
    assert found.within == pytest.approx(math.sqrt(2) * within)


def test_time_saved_is_that_of_the_same_variance():
    found = allocate([noise(0.01, 0.04)], 9.0, 1.0)
    alone = (9 + 1) * (0.01**2 + 0.04**2)
    chosen = (9 + found.trials) * (0.01**2 + 0.04**2 / found.trials)
    assert found.time_saved == pytest.approx(1 - chosen / alone)
    assert found.time_saved > 0.5


def test_the_widest_contrast_decides():
    quiet, loud = noise(0.001, 0.0001), noise(0.01, 0.05)
    found = allocate([quiet, loud], 5.0, 1.0)
    assert found.widest == 1
    assert found.trials == allocate([loud], 5.0, 1.0).trials


def test_starts_that_cost_nothing_need_one_trial_and_trials_are_bounded():
    assert allocate([noise(0.01, 0.05)], 0.0, 1.0).trials == 1
    assert allocate([noise(0.0001, 0.5)], 1000.0, 0.01).trials == MAX_ALLOCATED


def test_no_more_trials_than_the_least_blocks_need():
    found = allocate([noise(0.001, 0.01)], 50.0, 1.0, half_width=0.05, blocks=5)
    assert found.trials < allocate([noise(0.001, 0.01)], 50.0, 1.0).trials
    assert allocate([noise(0.001, 0.01)], 50.0, 1.0, half_width=1e-6, blocks=5).trials > found.trials


def test_no_noise_found_between_blocks_is_not_taken_at_its_word():
    assert allocate([noise(0.0, 0.01, blocks=5)], 1.0, 1.0).trials < MAX_ALLOCATED


def test_noise_between_trials_must_be_known():
    with pytest.raises(StatsError, match="several"):
        allocate([noise(0.01, None)], 1.0, 1.0)


def test_simulated_studies_take_least_time_near_the_chosen_number():
    """The variance of a study's mean log-ratio for a fixed time, simulated for every number of trials."""
    rng = np.random.default_rng(3)
    start_s, trial_s, between, within = 6.0, 1.0, 0.01, 0.03
    chosen = allocate([noise(between, within)], start_s, trial_s).trials

    def simulated(trials: int) -> float:
        blocks = round(4000 / (start_s + trials * trial_s))
        sides = rng.normal(0, between, (300, blocks, 2)) + rng.normal(0, within, (300, blocks, 2, trials)).mean(-1)
        return float((sides[..., 0] - sides[..., 1]).mean(1).var())

    spread = {trials: simulated(trials) for trials in (1, chosen, 30)}
    assert spread[chosen] < 0.8 * spread[1]
    assert spread[chosen] < 0.8 * spread[30]


def test_noise_of_a_ratio_is_split_between_blocks_and_trials():
    rng = np.random.default_rng(4)
    blocks = np.repeat(np.arange(400), 4)
    logs = [rng.normal(0, 0.02, 400)[blocks] + rng.normal(0, 0.03, 1600) for _ in range(2)]
    means = [np.array([side[blocks == b].mean() for b in range(400)]) for side in logs]
    sides = tuple(components(np.exp(side), blocks) for side in logs)
    found = of_ratio(float((means[0] - means[1]).var(ddof=1)), 400, sides)
    assert math.sqrt(found.between_blocks) == pytest.approx(0.02, rel=0.15)
    assert math.sqrt(found.trial_means) == pytest.approx(0.03, rel=0.1)


@pytest.mark.parametrize(("start_s", "trials"), [(0.1, 1), (20.0, None)])
def test_the_sentence_of_a_choice_names_no_saving_where_one_trial_was_chosen(start_s, trials):
    found = allocate([noise(0.02, 0.02)], start_s, 1.0)
    assert (found.trials == 1) is (trials == 1)
    assert ("less time than with one trial" in str(Choice(found.trials, "a pilot", found, "docker"))) is (trials != 1)
