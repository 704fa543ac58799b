"""Errors of ladders: rungs that are named and cost nothing, planted costs that are found, bounds that do not hold.

    python bench/statistics/ladder.py [--ladders 1000]

A ladder of nine steps, the noise of every rung normal, so that each rung is in two steps. Nothing costs anything, or
the fifth step makes the platform 5 % slower. Every ladder is judged as `vtax anatomy` does: each step against the rung
below in one family, and the bound of the undecided steps together.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from unittest.mock import patch

import numpy as np
from hard import generator

from vtax.stats.assumptions import unequal_noise
from vtax.stats.judge import Comparison, Contrast, analyse
from vtax.stats.ladder import together
from vtax.stats.outlook import Outlook
from vtax.stats.rules import FixedRule

STEPS, PLANTED, COST = 9, 4, 0.05
NOISES = (0.01, 0.02, 0.04)
BLOCKS = (10, 30, 60)


def row(is_planted: bool, noise: float, blocks: int, ladders: int) -> str:
    """A line of one truth, noise of a rung and number of blocks: percent of ladders."""
    rng = generator("ladder", is_planted, noise, blocks)
    rule = FixedRule(blocks=blocks)
    counts = np.zeros(3)
    with (
        patch("vtax.stats.verdict.further_blocks", lambda *_: Outlook(None, None)),
        patch("vtax.stats.judge.needed", lambda *_: None),
    ):
        for _ in range(ladders):
            sides = noise * rng.standard_normal((STEPS + 1, blocks))
            if is_planted:
                sides[PLANTED + 1 :] += np.log1p(COST)
            logs = np.diff(sides, axis=0)
            contrasts = {}
            for k in range(STEPS):
                unequal = unequal_noise(sides[k + 1], sides[k])
                contrasts[str(k)] = Contrast(logs[k], "lower", unequal)
            answers = analyse(rule, contrasts)
            named = set()
            for k in range(STEPS):
                answer = answers[str(k)]
                if isinstance(answer, Comparison) and answer.verdict.kind in ("slower", "faster"):
                    named.add(k)
            rest = [k for k in range(STEPS) if k not in named]
            bound = together(logs[rest], rule.confidence, STEPS) if rest else None
            truth = np.log1p(COST) if is_planted and PLANTED in rest else 0.0
            is_broken = bound is not None and np.log(bound.high) < truth
            true_ones = {PLANTED} if is_planted else set()
            counts += (bool(named - true_ones), PLANTED in named and is_planted, is_broken)
    false, found, broken = (f"{100 * count / ladders:.1f}" for count in counts)
    cost = "5 %" if is_planted else "none"
    return f"| {cost} | {100 * noise:g} % | {blocks} | {false} | {found if is_planted else ''} | {broken} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ladders", type=int, default=1000)
    options = parser.parse_args()
    points = [
        (cost, noise, blocks) for cost in (False, True) for noise in NOISES for blocks in BLOCKS
    ]
    print(
        "| planted | noise of a rung | blocks | another rung named | planted rung named | bound broken |\n"
        "|---|---|---|---|---|---|"
    )
    with ProcessPoolExecutor(2) as pool:
        for line in pool.map(row, *zip(*points, strict=True), [options.ladders] * len(points)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
