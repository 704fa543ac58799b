#!/usr/bin/env python3
"""How often `vtax check` fails, passes and misses wrongly, in simulated runs.

    python bench/statistics/check.py [--studies 2000] [--seed 1]

A study has one comparison or six, of rates, with a margin of 5 %. Noise is that of either side's blocks. `fails at
none`: of studies without any difference, those with a comparison that is `slower`. `fails inside`: the same where
every true slowdown is 4.9 %. `passes beyond`: of studies where every true slowdown is 5.1 %, those with a comparison
that passed. At twice the margin (10 %): comparisons that are not `slower` (`missed`), and those of them that passed.
`passed`: of comparisons without a difference. Families of six have a sixth of the studies. The table of
docs/statistics.md is made by this. Chance (two standard errors) is ±0.7 at 2.5 % of 2000 studies, ±1.7 in families.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping

import numpy as np

from vtax.report.analysis.check import finding
from vtax.stats.claims import judge_claims
from vtax.stats.contrasts import paired_contrast
from vtax.stats.ratio import BlockMeans
from vtax.stats.stopping import Rule

Noise = Callable[[np.random.Generator, int], np.ndarray]
MARGIN = 0.05
SLOWDOWNS = {"none": 0.0, "inside": 0.049, "beyond": 0.051, "twice": 0.10}
BLOCKS = (5, 10, 20)
FAMILIES = (1, 6)


def _correlated(random: np.random.Generator, blocks: int) -> np.ndarray:
    noise = random.normal(0, 0.02, blocks)
    for block in range(1, blocks):
        noise[block] = 0.6 * noise[block - 1] + 0.8 * noise[block]
    return noise


NOISES: Mapping[str, Noise] = {
    "normal, 1 %": lambda random, blocks: random.normal(0, 0.01, blocks),
    "normal, 2 %": lambda random, blocks: random.normal(0, 0.02, blocks),
    "normal, 5 %": lambda random, blocks: random.normal(0, 0.05, blocks),
    "log-normal, shape 1, 2 %": lambda random, blocks: -0.02 / 2.16 * np.exp(random.normal(0, 1, blocks)),
    "slow block in 20": lambda random, blocks: random.normal(0, 0.02, blocks) - 0.3 * (random.random(blocks) < 0.05),
    "2 %, neighbours correlate by 0.6": _correlated,
}


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(
        "| noise | comparisons | blocks | fails at none | fails inside | passes beyond | missed at twice, of these "
        "passed | passed at none |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    )
    for name, noise in NOISES.items():
        for comparisons in FAMILIES:
            for blocks in BLOCKS:
                random = np.random.default_rng(given.seed)
                words = {each: _words(random, noise, comparisons, blocks, given.studies, slowdown)
                         for each, slowdown in SLOWDOWNS.items()}  # fmt: skip
                missed = 100 - _share(words["twice"] == "contradicted")
                figures = [
                    _share((words["none"] == "contradicted").any(axis=1)),
                    _share((words["inside"] == "contradicted").any(axis=1)),
                    _share((words["beyond"] == "reproduced").any(axis=1)),
                ]
                shown = [f"{each:.1f}" for each in figures]
                shown += [f"{missed:.1f}, {_share(words['twice'] == 'reproduced'):.1f}"]
                shown += [f"{_share(words['none'] == 'reproduced'):.1f}"]
                print(f"| {name} | {comparisons} | {blocks} | {' | '.join(shown)} |", flush=True)


def _share(flags: np.ndarray) -> float:
    return 100 * float(flags.mean())


def _words(
    random: np.random.Generator, noise: Noise, comparisons: int, blocks: int, studies: int, slowdown: float
) -> np.ndarray:
    """The word about every comparison, a row a study."""
    rule, numbers = Rule("fixed", blocks=blocks, method=2, margin=MARGIN), np.arange(blocks)
    found = []
    for _ in range(max(1, studies // comparisons)):
        claims = {}
        for number in range(comparisons):
            treatment = BlockMeans(numbers, np.exp(math.log1p(-slowdown) + noise(random, blocks)))
            baseline = BlockMeans(numbers, np.exp(noise(random, blocks)))
            claims[str(number)] = [finding(paired_contrast(treatment, baseline, "higher"), MARGIN)]
        judged = judge_claims(rule, claims, looks_ahead=False)
        found.append([judged[str(number)].kind for number in range(comparisons)])
    return np.array(found)


if __name__ == "__main__":
    main()
