"""Errors of ladders: rungs that are named and cost nothing, planted costs that are found, bounds that do not hold.

    python bench/statistics/ladder.py [--ladders 1000] [--example NAME]

A ladder of nine steps, each rung in two of them. Nothing costs anything, or the fifth step makes the platform 5 %
slower. Every ladder is judged as `vtax anatomy` does: each step against the rung below in one family, and the bound of
the undecided steps together. Then two mechanisms that cost the same wherever they are, whatever that is, are measured
in both orders in as many fresh blocks.

Noise of a rung is normal, or as in a ladder of nginx: 4 %, and a host that is slow now and then, by 30 % on average,
for a few guests in a row, whichever they are. In rungs of one block it is correlated then, and has a heavy tail.
With --example it is what the rungs of a shipped ladder had: of every block, dealt anew to the rungs, so that none of them
costs anything.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from hard import generator
from noise import Array
from shipped import opened

from vtax.pairing import align
from vtax.report.analysis.source import source_of
from vtax.stats.assumptions import unequal_noise
from vtax.stats.judge import Comparison, Contrast, analyse
from vtax.stats.ladder import together
from vtax.stats.outlook import Outlook
from vtax.stats.rules import FixedRule

STEPS, PLANTED, COST = 9, 4, 0.05
BLOCKS = (10, 30, 60)
SLOW, LASTS, BY = 0.08, 10.0, 0.3
"""Share of guests in a slow time, how many of them in a row on average, and the mean of log-times it adds."""
Draw = Callable[[np.random.Generator, int], Array]
"""Log-times of shape (rungs, blocks) of a generator and a number of blocks."""


@dataclass(frozen=True)
class Normal:
    """Normal noise of a rung. share: its standard deviation."""

    share: float

    def __str__(self) -> str:
        return f"{100 * self.share:g} %"

    def __call__(self, rng: np.random.Generator, blocks: int) -> Array:
        return np.asarray(self.share * rng.standard_normal((STEPS + 1, blocks)))


class SlowTimes:
    """Normal noise of 4 %, and slow times of a host that begin and end between guests."""

    def __str__(self) -> str:
        return "as nginx had"

    def __call__(self, rng: np.random.Generator, blocks: int) -> Array:
        guests = (STEPS + 1) * blocks
        is_slow = np.zeros(guests, dtype=bool)
        begins, ends = SLOW / (1 - SLOW) / LASTS, 1 / LASTS
        changes = rng.random(guests)
        state = False
        for guest in range(guests):
            state = changes[guest] < begins if not state else changes[guest] >= ends
            is_slow[guest] = state
        in_time = np.where(is_slow, BY * rng.standard_exponential(guests), 0.0)
        in_time += 0.04 * rng.standard_normal(guests)
        return dealt(in_time.reshape(blocks, STEPS + 1), rng)


class Measured:
    """What the rungs of a stored run had beside their medians. logs: of shape (blocks, rungs)."""

    def __init__(self, name: str, logs: Array) -> None:
        self._name = name
        self._residuals = logs - np.median(logs, axis=0)

    def __str__(self) -> str:
        return self._name

    def __call__(self, rng: np.random.Generator, blocks: int) -> Array:
        chosen = rng.integers(len(self._residuals), size=blocks)
        return dealt(self._residuals[chosen], rng)[: STEPS + 1]


def dealt(in_time: Array, rng: np.random.Generator) -> Array:
    """Deal the values of every block to rungs in random order; returns shape (rungs, blocks)."""
    return np.asarray(rng.permuted(in_time, axis=1).T)


def measured(example: str) -> list[Measured]:
    """Return the noise of every metric and point of an example with enough rungs."""
    with opened(example) as store:
        analysis = source_of(store).analysis
    noises = []
    for section in analysis.answered:
        for point in section.points:
            rows = [row.means_of_blocks for row in point.rows if row.summary is not None]
            _, logs = align(rows)
            whole = logs[:, ~np.isnan(logs).any(axis=0)]
            if len(whole) > STEPS:
                noises.append(Measured(f"{section.label} {section.metric.name}", whole.T))
    return noises


def row(is_planted: bool, noise: Draw, blocks: int, ladders: int) -> str:
    """A line of one truth, noise of a rung and number of blocks: percent of ladders."""
    rng = generator("ladder", is_planted, str(noise), blocks)
    rule = FixedRule(blocks=blocks)
    counts = np.zeros(4)
    with (
        patch("vtax.stats.verdict.further_blocks", lambda *_: Outlook(None, None)),
        patch("vtax.stats.judge.needed", lambda *_: None),
    ):
        for _ in range(ladders):
            sides = noise(rng, blocks)
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
            counts += (
                bool(named - true_ones),
                PLANTED in named and is_planted,
                is_broken,
                interacts(noise(rng, blocks), rule.confidence),
            )
    false, found, broken, acting = (f"{100 * count / ladders:.1f}" for count in counts)
    cost = "5 %" if is_planted else "none"
    shown = found if is_planted else ""
    return f"| {cost} | {noise} | {blocks} | {false} | {shown} | {broken} | {acting} |"


def interacts(sides: Array, confidence: float) -> bool:
    """Return whether one of two mechanisms is said to act on others: ground, whole, and two each alone and left out."""
    ground, whole = sides[:2]
    found = []
    for alone, without in (sides[2:4], sides[4:6]):
        ratio = together(np.array([whole - without, ground - alone]), confidence, 2)
        found.append(ratio is not None and not ratio.low <= 1 <= ratio.high)
    return any(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ladders", type=int, default=1000)
    parser.add_argument("--example", help="a ladder of docs/examples whose noise it is")
    options = parser.parse_args()
    noises: Sequence[Draw] = (Normal(0.01), Normal(0.02), Normal(0.04), SlowTimes())
    if options.example:
        noises = measured(options.example)
    points = [
        (cost, noise, blocks) for cost in (False, True) for noise in noises for blocks in BLOCKS
    ]
    print(
        "| planted | noise of a rung | blocks | another rung named | planted rung named | bound broken | "
        "false interaction |\n|---|---|---|---|---|---|---|"
    )
    with ProcessPoolExecutor(2) as pool:
        for line in pool.map(row, *zip(*points, strict=True), [options.ladders] * len(points)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
