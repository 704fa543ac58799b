#!/usr/bin/env python3
"""How often the gate of `vtax compare` fails, passes and misses wrongly, in simulated runs.

    python bench/statistics/check.py [--studies 2000] [--seed 1] [--against]

A study has one comparison or six, of rates, with a margin of 5 %. Noise is that of either side's blocks. `fails at
none`: of studies without any difference, those with a comparison that is `slower`. `fails inside`: the same where
every true slowdown is 4.9 %. `passes beyond`: of studies where every true slowdown is 5.1 %, those with a comparison
that passed. At twice the margin (10 %): comparisons that are not `slower` (`missed`), and those of them that passed.
`passed`: of comparisons without a difference. Families of six have a sixth of the studies. The tables of
docs/proof.md are made by this. Chance (two standard errors) is ±0.7 at 2.5 % of 2000 studies, ±1.7 in families.

With --against the sides are runs of several sessions, compared by ratios to a baseline. `effect` is the standard
deviation of what a session does to the ratio, beside a noise of 2 % in the block of either platform.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from vtax.stats.claims import RangeTest, judge_claims
from vtax.stats.contrasts import Contrast, ContrastSide, paired_contrast
from vtax.stats.ranges import Sample, at_most
from vtax.stats.ratio import BlockMeans
from vtax.stats.rules import FixedRule

Noise = Callable[[np.random.Generator, int], np.ndarray]
MARGIN = 0.05
SLOWDOWNS = {"none": 0.0, "inside": 0.049, "beyond": 0.051, "twice": 0.10}
BLOCKS = (5, 10, 20)
FAMILIES = (1, 6)
SESSIONS = (2, 3, 5)
EFFECTS = (0.0, 0.01, 0.03)
BLOCKS_OF_A_SESSION = 6
Finding = Callable[[np.random.Generator, float], RangeTest]
"""Of one comparison with a true slowdown."""


def _correlated(random: np.random.Generator, blocks: int) -> np.ndarray:
    noise = random.normal(0, 0.02, blocks)
    for block in range(1, blocks):
        noise[block] = 0.6 * noise[block - 1] + 0.8 * noise[block]
    return noise


NOISES: Mapping[str, Noise] = {
    "normal, 1 %": lambda random, blocks: random.normal(0, 0.01, blocks),
    "normal, 2 %": lambda random, blocks: random.normal(0, 0.02, blocks),
    "normal, 5 %": lambda random, blocks: random.normal(0, 0.05, blocks),
    "log-normal, shape 1, 2 %": lambda random, blocks: (
        -0.02 / 2.16 * np.exp(random.normal(0, 1, blocks))
    ),
    "slow block in 20": lambda random, blocks: (
        random.normal(0, 0.02, blocks) - 0.3 * (random.random(blocks) < 0.05)
    ),
    "2 %, neighbours correlate by 0.6": _correlated,
}


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--against", action="store_true")
    given = parser.parse_args()
    varied = (
        "effect | comparisons | sessions a side"
        if given.against
        else "noise | comparisons | blocks"
    )
    print(
        f"| {varied} | fails at none | fails inside | passes beyond | missed at twice, of these passed "
        "| passed at none |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    )
    for name, number, made in _against() if given.against else _within():
        for comparisons in FAMILIES:
            random = np.random.default_rng(given.seed)
            words = {
                each: _words(random, made, comparisons, given.studies, slowdown)
                for each, slowdown in SLOWDOWNS.items()
            }
            print(
                f"| {name} | {comparisons} | {number} | {' | '.join(_figures(words))} |", flush=True
            )


def _within() -> Iterator[tuple[str, int, Finding]]:
    """(noise, blocks, the finding of a run)."""
    for name, noise in NOISES.items():
        for blocks in BLOCKS:
            yield name, blocks, partial(_of_one_run, noise, blocks)


def _against() -> Iterator[tuple[str, int, Finding]]:
    """(effect of sessions, sessions a side, the finding of two runs)."""
    for effect in EFFECTS:
        for sessions in SESSIONS:
            yield f"{effect:.0%}", sessions, partial(_of_two_runs, effect, sessions)


def _of_one_run(
    noise: Noise, blocks: int, random: np.random.Generator, slowdown: float
) -> RangeTest:
    numbers = np.arange(blocks)
    treatment = BlockMeans(numbers, np.exp(-math.log1p(slowdown) + noise(random, blocks)))
    baseline = BlockMeans(numbers, np.exp(noise(random, blocks)))
    contrast = paired_contrast(ContrastSide(treatment), ContrastSide(baseline), "higher")
    return RangeTest((at_most(contrast, MARGIN),))


def _of_two_runs(
    effect: float, sessions: int, random: np.random.Generator, slowdown: float
) -> RangeTest:
    empty = Contrast(np.full(1, np.nan), "higher")
    samples = (
        _sample(effect, sessions, random, -math.log1p(slowdown)),
        _sample(effect, sessions, random, 0.0),
    )
    return RangeTest((at_most(empty, MARGIN, samples),))


def _sample(effect: float, sessions: int, random: np.random.Generator, log: float) -> Sample:
    """Log-ratios to the baseline in the blocks of a side, and the session of each."""
    of = np.repeat(np.arange(sessions), BLOCKS_OF_A_SESSION)
    noise = random.normal(0, 0.02, of.size) - random.normal(0, 0.02, of.size)
    return log + random.normal(0, effect, sessions)[of] + noise, of


def _figures(words: Mapping[str, np.ndarray]) -> list[str]:
    """Percent, one decimal."""
    figures = [
        _share((words["none"] == "contradicted").any(axis=1)),
        _share((words["inside"] == "contradicted").any(axis=1)),
        _share((words["beyond"] == "reproduced").any(axis=1)),
    ]
    missed = 100 - _share(words["twice"] == "contradicted")
    shown = [f"{each:.1f}" for each in figures]
    shown += [f"{missed:.1f}, {_share(words['twice'] == 'reproduced'):.1f}"]
    return [*shown, f"{_share(words['none'] == 'reproduced'):.1f}"]


def _share(flags: np.ndarray) -> float:
    return 100 * float(flags.mean())


def _words(
    random: np.random.Generator, made: Finding, comparisons: int, studies: int, slowdown: float
) -> np.ndarray:
    """The word about every comparison, a row a study."""
    rule = FixedRule(blocks=max(BLOCKS), margin=MARGIN)
    found = []
    for _ in range(max(1, studies // comparisons)):
        claims = {str(number): [made(random, slowdown)] for number in range(comparisons)}
        judged = judge_claims(rule, claims, looks_ahead=False)
        found.append([judged[str(number)].kind for number in range(comparisons)])
    return np.array(found)


if __name__ == "__main__":
    main()
