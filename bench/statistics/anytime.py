"""The promise of the rule `open`: at most 5 % of runs ever have an interval without the truth or a false word,
whenever they are looked at; and its price beside a declared largest number of blocks.

    .venv/bin/python bench/statistics/anytime.py [--studies 20000] [--blocks 300]

Looks after every block from 5 on, without end for the words of a family of five (Holm). Prints a Markdown table.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from scipy import special

from vtax.stats.checks import MINIMUM_BLOCKS, Array
from vtax.stats.rules import FixedRule, OpenRule, Rule, VerdictRule

NOISES = (
    "normal",
    "exponential on both sides",
    "Student's t of 3 degrees of freedom",
    "log-normal of shape 1 on one side, no guard",
)
MARGIN, FAMILY, SD = 0.02, 5, 0.1  # SD: of a block, where ratios beyond the margin come by chance
OPEN = OpenRule(margin=MARGIN)


def logs(noise: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Log-ratios with mean 0 and standard deviation 1."""
    match NOISES.index(noise):
        case 0:
            return random.normal(size=shape)
        case 1:
            return (random.exponential(size=shape) - random.exponential(size=shape)) / np.sqrt(2)
        case 2:
            return random.standard_t(3, shape) / np.sqrt(3)
        case _:
            made = np.exp(random.normal(size=shape))
            return np.asarray((made - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e))


def looks(values: Array) -> tuple[Array, Array, Array]:
    """Means, standard errors and numbers of blocks at every look."""
    n = np.arange(1, values.shape[-1] + 1)
    mean = values.cumsum(-1) / n
    square = np.maximum((values**2).cumsum(-1) - n * mean**2, 0)
    first = MINIMUM_BLOCKS - 1
    se = np.sqrt(square[..., first:] / (n[first:] - 1) / n[first:])
    return mean[..., first:], se, n[first:]


def bounds(alpha: float, ns: Array) -> Array:
    """Student's t that rejects on one side at every look."""
    levels = np.array([OPEN.test_level(alpha, int(n)) for n in ns])
    return np.where(levels > 0, -special.stdtrit(ns - 1, np.maximum(levels, 1e-300)), np.inf)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=20_000)
    parser.add_argument("--blocks", type=int, default=300)
    arguments = parser.parse_args()
    print(
        "| noise | an interval ever misses (%) | any false `slower` or `faster` of five (%) | "
        "any false `equivalent` of five at the margin (%) |\n|---|---:|---:|---:|"
    )
    for number, noise in enumerate(NOISES):
        random = np.random.default_rng(number)
        found = np.zeros(3)
        for _ in range(arguments.studies // 200):
            values = logs(noise, (200, FAMILY, arguments.blocks), random)
            mean, se, ns = looks(values)
            t = np.abs(mean) / se
            found[0] += (t[:, 0] > bounds(OPEN.alpha / 2, ns)).any(-1).sum()
            # all nulls are true, so Holm's first step decides whether there is a false word
            found[1] += (t > bounds(OPEN.alpha / 2 / FAMILY, ns)).any((1, 2)).sum()
            found[2] += (-mean / se > bounds(OPEN.alpha / FAMILY, ns)).any((1, 2)).sum()
        shares = " | ".join(
            f"{100 * each / (arguments.studies // 200 * 200):.1f}" for each in found
        )
        print(f"| {noise} | {shares} |", flush=True)
    width = (
        partial(_width, OPEN),
        partial(_width, VerdictRule(margin=MARGIN)),
        partial(_width, FixedRule()),
    )
    print("\n| blocks | width / `verdict` of up to 30 | width / a fixed number |\n|---:|---:|---:|")
    for n in (5, 6, 7, 8, 10, 15, 20, 30):
        mine, verdict, fixed = (each(n) for each in width)
        print(f"| {n} | {mine / verdict:.2f} | {mine / fixed:.2f} |")


def _width(rule: Rule, blocks: int) -> float:
    return float(special.stdtrit(blocks - 1, (1 + rule.interval_confidence(blocks)) / 2))


if __name__ == "__main__":
    main()
