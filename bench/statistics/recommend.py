#!/usr/bin/env python3
"""Whether probabilities of `vtax recommend` are calibrated: of the places said with 90 to 95 %, how many are true.

    python bench/statistics/recommend.py [--studies 2000] [--seed 1]

A study has platforms whose true scores are drawn, three resources with weights 1, 3 and 1, and noise from block to
block that the resources of a platform share in part. `spread`: standard deviation of the true scores, in standard
errors of the difference of two; `one far`: a spread of 1, and one platform far behind; `log-uniform`: neighbours in
the true order are 0.1 to 100 % apart. A platform is said to be the best with 90 to 95 %: the share that is the best,
by the posterior of `stats.scores`. `within 2 %`: the same of being within 2 % of the
best. Chance of n statements: two standard errors are 2 sqrt(0.07 / n).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping

import numpy as np

from vtax.stats.scores import Item, allow_for_order, effects_of, near_best, rank_probabilities

Noise = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
WEIGHTS = np.array([0.2, 0.6, 0.2])
MARGIN = 0.02
LOW, HIGH = 0.9, 0.95
SPREADS = ("0.5", "1", "2", "4", "one far", "log-uniform")


def _correlated(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    noise = random.normal(0, 1, shape)
    for block in range(1, shape[-1]):
        noise[..., block] = 0.6 * noise[..., block - 1] + 0.8 * noise[..., block]
    return noise


def _one_noisy(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    noise = random.normal(0, 1, shape)
    noise[0] *= 3
    return noise


NOISES: Mapping[str, Noise] = {
    "normal": lambda random, shape: random.normal(0, 1, shape),
    "log-normal, shape 1": lambda random, shape: (
        -(np.exp(random.normal(0, 1, shape)) - math.exp(0.5)) / 2.16
    ),
    "t, 3 df": lambda random, shape: random.standard_t(3, shape) / math.sqrt(3),
    "one platform 3 times noisier": _one_noisy,
    "neighbours correlate by 0.6": _correlated,
}


def main() -> None:
    """Print the table in Markdown: percent that are true, and of how many statements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print("| noise | spread | best | of | within 2 % | of |\n|---|---|---:|---:|---:|---:|")
    for name, noise in NOISES.items():
        designs = (
            ((2, 5), (3, 3), (3, 5), (6, 5), (6, 10)) if name == "normal" else ((3, 5), (3, 10))
        )
        for spread in SPREADS if name == "normal" else ("1", "4"):
            counts = np.zeros((2, 2), dtype=int)
            for platforms, blocks in designs:
                random = np.random.default_rng(given.seed)
                if platforms > 2 or spread != "one far":
                    for _ in range(given.studies):
                        counts += _study(random, noise, platforms, blocks, spread)
            shown = " | ".join(
                f"{100 * true / said:.0f} | {said}" if said else "| 0" for said, true in counts
            )
            print(f"| {name} | {spread} | {shown} |", flush=True)


def _study(
    random: np.random.Generator, noise: Noise, platforms: int, blocks: int, spread: str
) -> np.ndarray:
    """(said, true) of the best, and of being within the margin."""
    sd = float(random.choice([0.01, 0.1]))
    own = noise(random, (platforms, 3, blocks)) * math.sqrt(0.5)
    shared = noise(random, (platforms, 1, blocks)) * math.sqrt(0.5)
    errors = sd * (own + shared)
    # deviation of a score: that of what resources share, and of the weighted rest
    deviation = sd * math.sqrt(0.5 + 0.5 * float((WEIGHTS**2).sum()))
    truth = _truth(random, platforms, spread, deviation * math.sqrt(2 / blocks))
    split = random.normal(0, sd, (platforms, 3))
    split -= (split @ WEIGHTS)[:, None]  # resources differ, and the score stays
    values = truth[:, None, None] + split[:, :, None] + errors
    items = [Item(resource, 1.0, values[:, resource]) for resource in range(3)]
    effects, _ = allow_for_order(effects_of(items, 3), items, WEIGHTS)
    drawn = np.einsum("drp,r->dp", effects.draws(2000), WEIGHTS)
    best = rank_probabilities(drawn)[:, 0]
    near = near_best(drawn, MARGIN)
    is_best = truth == truth.max()
    is_near = truth >= truth.max() + math.log1p(-MARGIN)
    return np.array([_said(best, is_best), _said(near, is_near)])


def _truth(random: np.random.Generator, platforms: int, spread: str, error: float) -> np.ndarray:
    if spread == "log-uniform":
        gaps = np.exp(random.uniform(math.log(0.001), 0, platforms - 1))
        return random.permutation(np.concatenate([[0.0], np.cumsum(gaps)]))
    truth = random.normal(0, error * (1.0 if spread == "one far" else float(spread)), platforms)
    if spread == "one far":
        truth[random.integers(platforms)] -= 100 * error
    return truth


def _said(probability: np.ndarray, is_true: np.ndarray) -> tuple[int, int]:
    said = (probability >= LOW) & (probability < HIGH)
    return int(said.sum()), int((said & is_true).sum())


if __name__ == "__main__":
    main()
