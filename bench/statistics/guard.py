"""Which guard of dependence many blocks need: coverage, false words and width of five.

    python bench/statistics/guard.py [--studies 1000]

A family of four comparisons with one baseline, blocks of 5 s in which every platform is measured once for 0.1 s, in
random order. The host's noise is that of a shared machine, fitted to slices of sysbench: white noise of 0.28 % of a
second, and Ornstein-Uhlenbeck processes of 0.3 s (1.3 %) and 30 s (2.1 %). Beside it, one platform alone has neighbours
that correlate, or flicker noise.

- none: Student's t
- often: tests at 5 % of a comparison and 10 % of the family's average, as for few blocks
- rarely: both at 1 %
- rarely-series: as rarely, but what is found is allowed for as by series
- series: the variance of the first cosines (Lazarus, Lewis, Stock & Watson 2018), always

Printed, in percent: `found`, of families in which a test finds dependence; `covers`, of intervals of 95 %, of all and of
the one platform; `any false`, of families of equals with slower or faster; `equivalent`, of families with a false one
at the margin, and of true ones, at a noise for which Student's t finds most; `width`, of Student's in the mean.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from unittest.mock import patch

import numpy as np
from hard import generator
from noise import Array
from scipy import special

from vtax.stats.assumptions import allow_for_dependence, dependence, plausible_correlation
from vtax.stats.verdict import holm
from vtax.stats.withholding import GUARDED

FAMILY, BLOCK_S, TRIAL_S = 4, 5.0, 0.1
WHITE, HOST = 0.28, ((0.3, 1.3), (30.0, 2.1))  # percent
NOISES = ("the host's alone", "correlation 0.3", "correlation 0.6", "flicker", "flicker, twice")
BLOCKS = (40, 76)
GUARDS = ("none", "often", "rarely", "rarely-series", "series")
Errors = Callable[[Array], tuple[Array, Array]]
"""Log-ratios of a family -> standard errors and degrees of freedom."""


def wander(tau: float, sd: float, times: Array, rng: np.random.Generator) -> Array:
    """An Ornstein-Uhlenbeck process at ascending times."""
    values = np.empty(times.size)
    values[0] = rng.standard_normal()
    kept = np.exp(-np.diff(times) / tau)
    steps = rng.standard_normal(times.size)
    for k, share in enumerate(kept):
        values[k + 1] = share * values[k] + np.sqrt(1 - share**2) * steps[k + 1]
    return sd * values


def family(noise: str, blocks: int, rng: np.random.Generator) -> Array:
    """Log-ratios of a family without any effect, in percent, of shape (FAMILY, blocks); the last is the one platform."""
    slots = np.argsort(rng.random((blocks, FAMILY + 1)), axis=1)
    starts = BLOCK_S * np.arange(blocks)[:, None] + slots * BLOCK_S / (FAMILY + 1)
    order = np.argsort(starts, axis=None)
    shared = np.zeros(order.size)
    for tau, sd in HOST:
        shared += wander(tau, sd, starts.ravel()[order], rng)
    values = np.empty(order.size)
    values[order] = shared
    sides = values.reshape(starts.shape).T + WHITE / np.sqrt(TRIAL_S) * rng.standard_normal(
        (FAMILY + 1, blocks)
    )
    at = BLOCK_S * np.arange(blocks)
    if noise.startswith("correlation"):
        share = float(noise.split()[1])
        sides[-1] += wander(-BLOCK_S / np.log(share), 2.5, at, rng)
    elif noise.startswith("flicker"):
        times = 2 if "twice" in noise else 1
        for tau in (5.0, 15.0, 50.0, 150.0, 500.0, 1500.0):
            sides[-1] += wander(tau, times * 1.0, at, rng)
    return np.asarray(sides[1:] - sides[0])


def plain(logs: Array) -> tuple[Array, Array]:
    """Student's."""
    n = logs.shape[1]
    return logs.std(axis=1, ddof=1) / np.sqrt(n), np.full(len(logs), n - 1.0)


def series(logs: Array) -> tuple[Array, Array]:
    """Of the long-run variance by the first 0.4 n^(2/3) cosines."""
    n = logs.shape[1]
    count = max(4, round(0.4 * n ** (2 / 3)))
    at = np.pi * (np.arange(n) + 0.5) / n
    weights = np.sqrt(2 / n) * np.array([np.cos(k * at) @ logs.T for k in range(1, count + 1)])
    return np.sqrt((weights**2).mean(axis=0) / n), np.full(len(logs), float(count))


def tested(own: float, pooled: float) -> Errors:
    """Student's, of as many blocks as they are worth where tests at these levels find that neighbours correlate."""

    def errors(logs: Array) -> tuple[Array, Array]:
        se, df = plain(logs)
        with (
            patch("vtax.stats.assumptions._own_level", lambda _: own),
            patch("vtax.stats.assumptions._pooled_level", lambda _: pooled),
        ):
            correlations = dependence(list(logs))
        for k, correlation in enumerate(correlations):
            if correlation:
                se[k], df[k] = allow_for_dependence(se[k], df[k], logs.shape[1], correlation)
        return se, df

    return errors


def rarely_series(logs: Array) -> tuple[Array, Array]:
    """Those of `series` where tests at 1 % find that neighbours correlate."""
    se, df = plain(logs)
    is_found = tested(0.01, 0.01)(logs)[0] > se * (1 + 1e-9)
    other_se, other_df = series(logs)
    return np.where(is_found, np.maximum(se, other_se), se), np.where(is_found, other_df, df)


ERRORS: dict[str, Errors] = {
    "none": plain,
    "often": tested(0.05, 0.10),
    "rarely": tested(0.01, 0.01),
    "rarely-series": rarely_series,
    "series": series,
}


def equivalent(
    logs: Array, truth: float, margin: float, se: Array, df: Array, found: Array
) -> Array:
    """Which of a family are `equivalent` though they differ by `truth`: Holm, and each at its plausible correlation."""
    distance = margin - np.abs(logs.mean(axis=1) + truth)
    p = special.stdtr(df, -distance / se)
    for k, row in enumerate(logs):
        if found[k]:
            continue
        correlation = plausible_correlation(row, GUARDED)
        wider, fewer = allow_for_dependence(se[k], df[k], row.size, correlation)
        if special.stdtr(fewer, -distance[k] / wider) > 0.05 / FAMILY:
            p[k] = 1.0
    return np.asarray(holm(p) <= 0.05)


def row(noise: str, blocks: int, studies: int) -> list[str]:
    """Lines of one noise and number of blocks."""
    rng = generator("guard", noise, blocks)
    totals = {guard: np.zeros(7) for guard in GUARDS}
    for _ in range(studies):
        logs = family(noise, blocks, rng)
        mean, usual = logs.mean(axis=1), plain(logs)[0]
        margin = 4.5 * float(np.median(usual))
        for guard in GUARDS:
            se, df = ERRORS[guard](logs)
            found = se > usual * (1 + 1e-9) if guard != "series" else np.ones(FAMILY, bool)
            t = special.stdtrit(df, 0.975)
            covers = np.abs(mean) <= t * se
            p = 2 * special.stdtr(df, -np.abs(mean) / se)
            false = equivalent(logs, margin, margin, se, df, found)
            true = equivalent(logs, 0.0, margin, se, df, found)
            width = t * se / (special.stdtrit(blocks - 1, 0.975) * usual)
            totals[guard] += (
                found.any(),
                covers.mean(),
                covers[-1],
                (holm(p) <= 0.05).any(),
                false.any(),
                true.mean(),
                width.mean(),
            )
    lines = []
    for guard in GUARDS:
        cells = 100 * totals[guard] / studies
        texts = [f"{cell:.1f}" for cell in cells]
        lines.append(f"| {noise} | {blocks} | {guard} | {' | '.join(texts)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=1000)
    options = parser.parse_args()
    points = [(noise, blocks) for noise in NOISES for blocks in BLOCKS]
    print(
        "| noise | blocks | guard | found | covers | the one | any false | false equivalent | true | width |\n"
        "|---|---|---|---|---|---|---|---|---|---|"
    )
    with ProcessPoolExecutor(2) as pool:
        for lines in pool.map(row, *zip(*points, strict=True), [options.studies] * len(points)):
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
