"""What the baseline twice in a block would save, and what it would cost: the symmetry that Student's t rests on.

    python bench/statistics/baseline_twice.py [--studies 40000]

Both sides have the same noise, in logarithms of times. With one baseline a block the log-ratio is symmetric whatever
that noise looks like; with the mean of two it is not. Printed: percent of studies whose 95 % interval holds the
truth, and percent false `equivalent` exactly at the worse end of the margin (one-sided 5 %), once → twice; then the
time for the same width, by the number of comparisons that are still open, of platforms that cost alike.
"""

from __future__ import annotations

import argparse

import numpy as np
from noise import Array
from scipy import special

BLOCKS = (5, 10, 20)


def _log_normal(shape: float, z: Array) -> Array:
    """Logarithm of 1 + 15 % of a standardized log-normal."""
    sd = np.exp(shape**2 / 2) * np.sqrt(np.expm1(shape**2))
    return np.asarray(np.log1p(0.15 * (np.exp(shape * z) - np.exp(shape**2 / 2)) / sd))


def drawn(name: str, size: tuple[int, ...], rng: np.random.Generator) -> Array:
    if name == "normal":
        return 0.02 * rng.standard_normal(size)
    if name == "exponential":
        return 0.02 * rng.standard_exponential(size)
    if name == "t of 3 df":
        return 0.02 * rng.standard_t(3, size)
    if name == "two boot states, 20 % slow":
        return 0.02 * rng.standard_normal(size) + 0.1 * (rng.random(size) < 0.2)
    if name == "one block in 12 20 % slower":
        return 0.02 * rng.standard_normal(size) + 0.2 * (rng.random(size) < 1 / 12)
    return _log_normal(float(name.rpartition(" ")[2]), rng.standard_normal(size))


NAMES = (
    "normal",
    "exponential",
    "t of 3 df",
    "log-normal 0.5",
    "log-normal 1",
    "log-normal 1.5",
    "two boot states, 20 % slow",
    "one block in 12 20 % slower",
)


def rates(logs: Array) -> tuple[float, float]:
    """(share of intervals that hold the truth, share of tests against the worse end that reject)."""
    n = logs.shape[1]
    off = logs.mean(axis=1) - logs.mean()
    se = logs.std(axis=1, ddof=1) / np.sqrt(n)
    covers = np.abs(off) <= special.stdtrit(n - 1, 0.975) * se
    one = special.stdtrit(n - 1, 0.95) * se
    return float(covers.mean()), max(float((off > one).mean()), float((off < -one).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=40_000)
    studies = parser.parse_args().studies
    heads = [
        "noise of both sides",
        *(f"{n} blocks: {what}" for n in BLOCKS for what in ("covers", "`equivalent`")),
    ]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name in NAMES:
        row, rng = [name], np.random.default_rng(1955)
        for n in BLOCKS:
            treatment, baseline = drawn(name, (studies, n), rng), drawn(name, (studies, n, 2), rng)
            once = rates(treatment - baseline[..., 0])
            twice = rates(treatment - np.log(np.exp(baseline).mean(axis=-1)))
            row += [f"{100 * a:.1f} → {100 * b:.1f}" for a, b in zip(once, twice, strict=True)]
        print(f"| {' | '.join(row)} |")
    for k in range(1, 7):
        print(f"{k} open: {(k + 2) / (k + 1) * 0.75:.2f} of the time")


if __name__ == "__main__":
    main()
