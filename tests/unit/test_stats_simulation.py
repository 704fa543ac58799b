"""A small, seeded sample of bench/statistics: error rates stay where the documentation says, within chance."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "statistics"))

import methods
from noise import NOISES, randomized

from vtax.stats.ratio import ratio_of_logs
from vtax.stats.sequential import DIRECTIONS, sequential_verdicts
from vtax.stats.stopping import Rule, decide
from vtax.stats.verdict import judge_family

STUDIES = 2000
WORDS = {"undecided": 0, "faster": 1, "slower": 2, "equivalent": 3}


def logs_of(noise, cv, ratios, blocks, studies=STUDIES, trials=2):
    rng = np.random.default_rng([blocks, len(noise.name), int(cv * 1e4), len(ratios)])
    return methods.log_ratios(randomized(noise, cv, np.array([1.0, *ratios]), studies, blocks, trials, rng))


def chance(rate, studies=STUDIES):
    """Four standard errors of a simulated rate."""
    return 4 * math.sqrt(rate * (1 - rate) / studies)


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_intervals_cover_and_alarms_are_rare_under_every_noise(noise):
    logs = logs_of(noise, 0.05, [1.0], 40)
    half = [ratio_of_logs(row[0, :10]) for row in logs[:600]]
    covered = np.mean([r.low <= 1 <= r.high for r in half])
    assert 0.935 - chance(0.05, 600) <= covered <= 0.965 + chance(0.05, 600)
    covers, codes, _ = methods.precision(logs, 0.03, 0.02, 5)
    assert covers.mean() >= 0.925 - chance(0.05)
    for found in (codes, methods.fixed(logs[..., :10], 0.02), methods.sequential(logs, 0.02, 5)[0]):
        assert np.isin(found, (1, 2)).mean() <= 0.05 + chance(0.05)


@pytest.mark.parametrize("end", [0.98, 1.02])
def test_equality_at_the_margin_is_rarely_claimed(end):
    for noise in (NOISES[0], NOISES[3], NOISES[5]):
        logs = logs_of(noise, 0.01, [end] * 3, 30)
        for codes in (methods.fixed(logs[..., :10], 0.02), methods.sequential(logs, 0.02, 5)[0]):
            assert (codes == 3).any(axis=1).mean() <= 0.05 + chance(0.05)


def test_five_percent_overhead_is_found_at_two_percent_noise():
    codes = methods.fixed(logs_of(NOISES[0], 0.02, [0.95], 10, trials=1), 0.02)
    assert (codes == 2).mean() >= 0.95


def test_the_simulated_rules_are_the_ones_that_run():
    """methods.py works on many studies at once; for a sample of them vtax itself must say the same."""
    logs = logs_of(NOISES[0], 0.02, [0.96, 1.0, 1.02], 30, studies=60)
    one_look = methods.fixed(logs[..., :10], 0.02)
    codes, _ = methods.sequential(logs, 0.02, 5)
    at = methods.sequential(logs[:, :1], 0.02, 5)[1]
    narrow = methods.precision(logs, 0.02, 0.02, 5)[2]
    rule = {stop: Rule(stop, min_blocks=5, max_blocks=30) for stop in ("precision", "verdict")}
    for k in range(60):
        rows = list(logs[k])
        words = judge_family([ratio_of_logs(row[:10]) for row in rows], 0.02, ["higher"] * 3)
        assert [WORDS[v.kind] for v in words] == one_look[k].tolist()
        assert sequential_verdicts(rows, 0.02, 0.05, 5, 30) == tuple(DIRECTIONS[c] for c in codes[k])
        for stop, expected, members in (("precision", narrow[k], rows), ("verdict", at[k], rows[:1])):
            contrasts = {str(i): row[: int(expected)] for i, row in enumerate(members)}
            before = {name: row[:-1] for name, row in contrasts.items()}
            assert decide(rule[stop], contrasts, int(expected)).stop
            assert expected == 5 or not decide(rule[stop], before, int(expected) - 1).stop
