#!/usr/bin/env python3
"""How often words about published findings are false, and how often they fall, in simulated runs.

    python bench/statistics/claims.py [--studies 1000] [--seed 1]

A study has six claims: two of one ratio, one of three ratios that must all be in range, one of three of which most
must be, one of two checks, and one of a spread. `at the bounds`: every ratio lies exactly at a bound of its range, so
that any word is false. `inside`, `outside`: ratios lie 5 % inside or outside, and the share of claims that get the
right word is given. The table of docs/proof.md is made by this.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping

import numpy as np

from vtax.stats.claims import RangeTest, judge_claims
from vtax.stats.contrasts import Contrast
from vtax.stats.ranges import Claimed
from vtax.stats.rules import FixedRule
from vtax.stats.spread import spread_over_blocks

Noise = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
NOISES: Mapping[str, Noise] = {
    "normal, 5 %": lambda random, shape: random.normal(0, 0.05, shape),
    "log-normal, shape 0.5": lambda random, shape: 0.1 * np.exp(random.normal(0, 0.5, shape)),
    "t, 3 df": lambda random, shape: 0.03 * random.standard_t(3, shape),
    "slow block in 20": lambda random, shape: (
        random.normal(0, 0.03, shape) - 0.3 * (random.random(shape) < 0.05)
    ),
}
BLOCKS = (5, 8, 12, 20)
LEVELS: Mapping[str, float] = {"at the bounds": 0.0, "inside": 0.05, "outside": -0.05}


def main() -> None:
    """Print both tables in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(
        "| noise of either side | blocks | any false word (%) | reproduced, 5 % inside | contradicted, 5 % outside |"
    )
    print("|---|---:|---:|---:|---:|")
    for name, noise in NOISES.items():
        for blocks in BLOCKS:
            random = np.random.default_rng(given.seed)
            found = [_share(random, noise, blocks, given.studies, each) for each in LEVELS]
            print(
                f"| {name} | {blocks} | {found[0]:.1f} | {found[1]:.0f} | {found[2]:.0f} |",
                flush=True,
            )


def _share(
    random: np.random.Generator, noise: Noise, blocks: int, studies: int, where: str
) -> float:
    """Percent of studies with a false word; of claims that get the right one where there is one."""
    studies = studies if where == "at the bounds" else max(1, studies // 5)
    rule = FixedRule(blocks=blocks)
    found = 0.0
    for _ in range(studies):
        judged = judge_claims(rule, _claims(random, noise, blocks, where), looks_ahead=False)
        words = [each.kind for each in judged.values()]
        if where == "at the bounds":
            found += any(word != "inconclusive" for word in words)
        else:
            right = "reproduced" if where == "inside" else "contradicted"
            found += sum(word == right for word in words) / len(words)
    return 100 * found / studies


def _claims(
    random: np.random.Generator, noise: Noise, blocks: int, where: str
) -> dict[str, list[RangeTest]]:
    shift = LEVELS[where]

    def one(low: float, high: float) -> Claimed:
        bound = low if low > 0 else high
        away = shift if low > 0 else -shift
        logs = noise(random, (2, blocks))
        return Claimed(Contrast(math.log(bound) + away + logs[0] - logs[1], "higher"), low, high)

    def several() -> tuple[Claimed, ...]:
        return one(0.9, math.inf), one(0.0, 1.1), one(0.9, 1.3)

    sides = noise(random, (2, blocks))
    spread = spread_over_blocks(sides[0]) - spread_over_blocks(sides[1])
    bound = math.exp(-20 * shift)  # spreads are known far less well than means
    return {
        "one": [RangeTest((one(1.0, math.inf),))],
        "other": [RangeTest((one(0.0, 0.5),))],
        "each": [RangeTest(several())],
        "two checks": [RangeTest((one(1.0, math.inf),)), RangeTest((one(0.0, 1.0),))],
        "most": [RangeTest(several(), "most")],
        "spread": [RangeTest((Claimed(Contrast(spread, "higher"), bound, math.inf),))],
    }


if __name__ == "__main__":
    main()
