"""Real noise: native against native, split in every way, and every alarm counted.

    vtax run STUDY                                  # one platform, native, 30 blocks, 2 or more trials each
    vtax export --format csv --output values.csv
    python bench/statistics/real_noise.py values.csv --metric events_per_s

Three kinds of false comparisons are made from it, in which nothing differs but noise:

- within blocks: in every block the trials are dealt at random to two sides of equal size (both sides of one guest);
- neighbours: blocks 1 and 2, 3 and 4, ... are a pair, its order drawn at random: two guests, as in a real run;
- halves: the first half of the blocks against the second, as others do, and random halves, trials as if independent.
"""

from __future__ import annotations

import argparse
import csv
import itertools
from pathlib import Path

import numpy as np
from methods import ABOVE, BELOW, EQUIVALENT, Array, Codes, fixed, sequential, welch
from scipy import special

MARGIN = 0.02


def read(path: Path, metric: str) -> Array:
    """Values of a metric in a run's CSV, of shape (blocks, trials), trials cut to the fewest any block has."""
    blocks: dict[str, list[tuple[float, float]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] == metric and row["is_warmup"] == "false":
                blocks.setdefault(row["block"], []).append(
                    (float(row["number"]), float(row["value"]))
                )
    ordered = [[value for _, value in sorted(blocks[name])] for name in sorted(blocks, key=float)]
    trials = min(len(values) for values in ordered)
    return np.array([values[:trials] for values in ordered])


def rates(codes: Codes) -> str:
    alarms = np.isin(codes[:, 0], (ABOVE, BELOW)).mean()
    return f"slower or faster {alarms:6.1%}   equivalent {(codes[:, 0] == EQUIVALENT).mean():6.1%}"


def report(name: str, logs: Array) -> None:
    half = (
        special.stdtrit(logs.shape[1] - 1, 0.975)
        * logs.std(axis=1, ddof=1)
        / np.sqrt(logs.shape[1])
    )
    print(f"{name}: {logs.shape[0]} splits of {logs.shape[1]} blocks")
    print(f"  interval holds 1: {(np.abs(logs.mean(axis=1)) <= half).mean():.1%}")
    print(f"  rule fixed:   {rates(fixed(logs[:, None], MARGIN))}")
    if logs.shape[1] >= 5:
        print(f"  rule verdict: {rates(sequential(logs[:, None], MARGIN, 5)[0])}")


def within(values: Array, splits: int, rng: np.random.Generator) -> Array:
    """Log-ratios of random halves of each block's trials."""
    trials = values.shape[1] // 2 * 2
    shuffled = rng.permuted(
        np.broadcast_to(values[:, :trials], (splits, values.shape[0], trials)), axis=2
    )
    return np.log(shuffled[..., : trials // 2].mean(-1)) - np.log(
        shuffled[..., trials // 2 :].mean(-1)
    )


def neighbours(values: Array, splits: int, rng: np.random.Generator) -> Array:
    """Log-ratios of neighbouring blocks: every order when there are at most 2**12 of them, else a sample."""
    means = np.log(values.mean(axis=1))
    apart = means[: means.size // 2 * 2 : 2] - means[1::2]
    if apart.size <= 12:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=apart.size)))
    else:
        signs = rng.choice((-1.0, 1.0), size=(splits, apart.size))
    return np.asarray(signs * apart)


def halves(values: Array, splits: int, rng: np.random.Generator) -> None:
    """The naive test on halves of the blocks, all trials taken as independent."""
    blocks = values.shape[0] // 2 * 2
    order = np.vstack([np.arange(blocks), *(rng.permutation(blocks) for _ in range(splits))])
    log, se, df = welch(values[order].reshape(splits + 1, 2, -1))
    alarms = np.abs(log[:, 0]) > special.stdtrit(df[:, 0], 0.975) * se[:, 0]
    print(
        f"naive t-test on trials: first half against second: {'ALARM' if alarms[0] else 'no alarm'}"
    )
    print(f"naive t-test on trials, random halves: alarms {alarms[1:].mean():.1%} of {splits}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("values", type=Path)
    parser.add_argument("--metric", required=True)
    parser.add_argument("--splits", type=int, default=5000)
    parser.add_argument("--trials", type=int, help="use only so many of each block")
    options = parser.parse_args()
    values, rng = (
        read(options.values, options.metric)[:, : options.trials],
        np.random.default_rng(2013),
    )
    cv = values.mean(axis=1).std(ddof=1) / values.mean()
    print(f"{values.shape[0]} blocks of {values.shape[1]} trials; CV of blocks {cv:.2%}")
    if values.shape[1] >= 2:
        report("within blocks", within(values, options.splits, rng))
    report("neighbours", neighbours(values, options.splits, rng))
    halves(values, options.splits, rng)


if __name__ == "__main__":
    main()
