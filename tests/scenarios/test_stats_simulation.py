"""A small, seeded sample of bench/statistics: error rates stay where the documentation says, within chance."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "statistics"))

import methods
from noise import NOISES, randomized

from vtax.stats.assumptions import unequal_noise
from vtax.stats.judge import Contrast, analyse
from vtax.stats.outlook import Outlook
from vtax.stats.ratio import ratio_of_logs
from vtax.stats.rules import FixedRule, PrecisionRule, VerdictRule
from vtax.stats.sequential import DIRECTIONS, Looks, sequential_verdicts
from vtax.stats.stopping import decide
from vtax.stats.verdict import judge_family

STUDIES = 2000
WORDS = {"undecided": 0, "faster": 1, "slower": 2, "equivalent": 3}


def logs_of(noise, cv, ratios, blocks, studies=STUDIES, trials=2):
    rng = np.random.default_rng([blocks, len(noise.name), int(cv * 1e4), len(ratios)])
    return methods.log_ratios(
        randomized(noise, cv, np.array([1.0, *ratios]), studies, blocks, trials, rng)
    )


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


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_alarms_are_rare_in_families_whose_members_are_left_out_one_by_one(noise):
    """Whatever the size of a difference: a margin of almost nothing, and noise at which members stop far apart."""
    logs = logs_of(noise, 0.02, [1.0] * 6, 40)
    target = 0.8 * float(logs.std())
    codes = methods.precision(logs, target, 1e-9, 5)[1]
    assert (codes != 0).any(axis=1).mean() <= 0.05 + chance(0.05)


@pytest.mark.parametrize("end", [0.98, 1.02])
def test_equality_at_the_margin_is_rarely_claimed(end):
    for noise in (NOISES[0], NOISES[3], NOISES[5]):
        logs = logs_of(noise, 0.01, [end] * 3, 30)
        rules = (
            methods.fixed(logs[..., :10], 0.02),
            methods.sequential(logs, 0.02, 5)[0],
            methods.precision(logs, 0.015, 0.02, 5)[1],
        )
        for codes in rules:
            assert (codes == 3).any(axis=1).mean() <= 0.05 + chance(0.05)


def test_five_percent_overhead_is_found_at_two_percent_noise():
    codes = methods.fixed(logs_of(NOISES[0], 0.02, [0.95], 10, trials=1), 0.02)
    assert (codes == 2).mean() >= 0.95


def as_run(rule, logs):
    """What a run of one baseline and these contrasts would have: NaN in the blocks that did not hold a contrast.

    logs: contrasts x blocks; each further block of a contrast brings its next value.
    """
    seen = np.full(logs.shape, np.nan)
    for block in range(logs.shape[1] + 1):
        goal = decide(rule, {str(c): row[:block] for c, row in enumerate(seen)}, block)
        registered = [int(name) for name in goal.open] or list(range(len(logs)))
        if goal.stop:
            return seen
        seen[registered, block] = logs[registered, (~np.isnan(seen[registered])).sum(axis=1)]
    raise AssertionError("the rule did not stop")


@pytest.mark.parametrize("min_blocks", [3, 5])
def test_the_simulated_rule_leaves_out_and_says_what_a_run_does(min_blocks):
    """methods.py works on many studies at once; for a sample of them vtax itself must say the same, but for what it
    withholds and widens."""
    logs = logs_of(NOISES[6], 0.02, [0.96, 1.0, 1.02, 1.0, 1.05], 24, studies=60)
    rule = PrecisionRule(min_blocks=min_blocks, max_blocks=24, precision=0.03)
    covers, codes, blocks = methods.precision(logs, 0.03, 0.02, min_blocks)
    assert len(np.unique(blocks)) > 4
    for k in range(60):
        seen = as_run(rule, logs[k])
        assert (~np.isnan(seen)).sum(axis=1).tolist() == blocks[k].tolist()
        made = [row[~np.isnan(row)] for row in seen]
        ratios = [ratio_of_logs(row, rule.interval_confidence(row.size)) for row in made]
        words = judge_family(
            ratios,
            [0.02] * len(ratios),
            ["higher"] * len(ratios),
            rule.look_level(max(row.size for row in made)),
        )
        assert [WORDS[each.kind] for each in words] == codes[k].tolist()
        assert [ratio.low <= 1 <= ratio.high for ratio in ratios] == covers[k].tolist()


def test_the_simulated_verdicts_are_the_ones_that_run():
    """The same for a fixed number of blocks and for boundaries, where what is left out is decided and stays so."""
    logs = logs_of(NOISES[0], 0.02, [0.96, 1.0, 1.02], 30, studies=60)
    one_look = methods.fixed(logs[..., :10], 0.02)
    codes, latest = methods.sequential(logs, 0.02, 5)
    at = methods.sequential(logs[:, :1], 0.02, 5)[1]
    rule = VerdictRule(min_blocks=5, max_blocks=30)
    for k in range(60):
        rows = list(logs[k])
        words = judge_family([ratio_of_logs(row[:10]) for row in rows], [0.02] * 3, ["higher"] * 3)
        assert [WORDS[v.kind] for v in words] == one_look[k].tolist()
        assert sequential_verdicts(rows, 0.02, 0.05, [Looks(5, 30)] * 3) == tuple(
            DIRECTIONS[c] for c in codes[k]
        )
        seen = as_run(rule, logs[k])
        assert (~np.isnan(seen)).sum(axis=1).max() <= latest[k]
        assert (~np.isnan(as_run(rule, logs[k, :1]))).sum() == at[k]
        left = [row[~np.isnan(row)] for row in seen]
        assert sequential_verdicts(left, 0.02, 0.05, [Looks(5, 30)] * 3) == tuple(
            DIRECTIONS[c] for c in codes[k]
        )


@pytest.mark.parametrize("noise", [0.005, 0.01])
def test_more_blocks_never_give_fewer_verdicts(monkeypatch, noise):
    """From 5 to 30 blocks of equal platforms, judged with everything that withholds a verdict."""
    monkeypatch.setattr(
        "vtax.stats.verdict.outlook", lambda *_: Outlook(None, None)
    )  # it takes most of the time
    rng, most = np.random.default_rng([27, int(noise * 1e4)]), 0
    sides = noise * rng.standard_normal((400, 2, 30)) / math.sqrt(2)
    for blocks in (5, 6, 7, 8, 10, 15, 30):
        decided = 0
        for baseline, treatment in sides[..., :blocks]:
            contrast = Contrast(treatment - baseline, "higher", unequal_noise(treatment, baseline))
            (answer,) = analyse(FixedRule(blocks=blocks), {"a": contrast}).values()
            decided += answer.verdict.kind != "undecided"
        assert (
            decided >= most - 16
        )  # three standard errors of a difference; a guard that came in at eight blocks lost 100
        most = max(most, decided)
    assert most >= 398
