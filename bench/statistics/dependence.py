"""`equivalent` of one contrast: how often it is false where blocks follow one another, and what guarding it costs.

    python bench/statistics/dependence.py [--studies 20000]

Percent `equivalent`, Student's t alone → guarded; noise is the SD of a block's log-ratio over the margin. The rule of
`vtax.stats.withholding` for one contrast, on arrays of many studies: Student's t alone, and with the
plausible correlation of neighbouring blocks. A fixed number of blocks, and rule `verdict` from 5 to 30.
"""

from __future__ import annotations

import argparse

import numpy as np
from noise import Array
from scipy import special

from vtax.stats.assumptions import FEWEST_TO_TEST, MOST_CORRELATED, OWN_LEVEL, PRIOR_SD, UPPER
from vtax.stats.sequential import Looks
from vtax.stats.withholding import GUARDED

MARGIN, FIRST, LAST, ALPHA = 0.02, 5, 30, 0.05
SHOWN = (5, 7, 8, 10, 15, 20)


def blocks(studies: int, correlation: float, sd: float, rng: np.random.Generator) -> Array:
    """Log-ratios around 0, of shape (studies, LAST)."""
    logs = rng.standard_normal((studies, LAST))
    for k in range(1, LAST):
        logs[:, k] = correlation * logs[:, k - 1] + np.sqrt(1 - correlation**2) * logs[:, k]
    return np.asarray(sd * logs)


def widened(n: Array, correlation: Array) -> tuple[Array, Array]:
    """(factor on the standard error, degrees of freedom): `assumptions.allow_for_dependence` on arrays."""
    times = (1 + correlation) / (1 - correlation)
    factor = np.sqrt(times * (n - 1) / np.maximum(n - times, 1))
    return factor, np.maximum(n * (1 - correlation**2) / (1 + correlation**2) - 1, 2.0)


def decided(logs: Array, *, guarded: bool) -> tuple[dict[int, float], float, float]:
    """(share of studies `equivalent` at a fixed number of blocks, the same by rule `verdict`, its mean blocks)."""
    n = np.arange(2.0, LAST + 1)
    mean = np.cumsum(logs, axis=1)[:, 1:] / n
    square = np.maximum(np.cumsum(logs**2, axis=1)[:, 1:] - n * mean**2, 1e-30)
    product = np.cumsum(logs[:, 1:] * logs[:, :-1], axis=1)
    lag = (product - mean * (2 * n * mean - logs[:, :1] - logs[:, 1:]) + (n - 1) * mean**2) / square
    se = np.sqrt(square / (n - 1) / n)
    distance = np.minimum(mean - -np.log1p(MARGIN), np.log1p(MARGIN) - mean)
    p = special.stdtr(n - 1, -distance / se)
    left = np.maximum(n - 3, 1)
    limit = special.ndtri(1 - OWN_LEVEL) * (n - 2) / (n * np.sqrt(n - 1)) - 1 / n
    is_seen = (n >= FEWEST_TO_TEST) & (lag > limit)
    error = np.maximum(n - 2, 1) / (left * np.sqrt(n - 1))
    known = 1 / (1 / PRIOR_SD**2 + 1 / error**2)
    shrunk = np.where(n > 3, known * (n * lag + 1) / left / error**2, 0.0)

    def p_above(errors: float) -> Array:
        factor, df = widened(n, np.clip(shrunk + errors * np.sqrt(known), 0.0, MOST_CORRELATED))
        return np.asarray(special.stdtr(df, -distance / se / factor))

    p_seen = np.where(is_seen, p_above(UPPER), 0.0)
    p_guarded = np.where(is_seen, 0.0, p_above(GUARDED)) if guarded else np.zeros_like(p)
    worst = np.maximum(np.maximum(p, p_seen), p_guarded)
    fixed = {k: float((worst[:, k - 2] <= ALPHA).mean()) for k in SHOWN}
    inside, different = (np.full(n.size, np.nan) for _ in range(2))
    inside[FIRST - 2 :], different[FIRST - 2 :] = (
        Looks(FIRST, LAST).levels(a) for a in (ALPHA, ALPHA / 2)
    )
    crossed = np.logical_or.accumulate(p <= inside, axis=1)
    is_equivalent = crossed & (np.maximum(p_seen, p_guarded) <= inside)
    is_different = special.stdtr(n - 1, -np.abs(mean) / se) <= different
    at = [
        np.where(each.any(1), each.argmax(1) + 2, LAST + 1)
        for each in (is_equivalent, is_different)
    ]
    return fixed, float((at[0] < at[1]).mean()), float(np.minimum(np.minimum(*at), LAST).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=20_000)
    studies = parser.parse_args().studies
    heads = (
        "true ratio",
        "noise",
        "correlation",
        *(f"{k} blocks" for k in SHOWN),
        "`verdict`",
        "blocks of it",
    )
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    points = [
        (truth, sd, r)
        for truth, rs in ((MARGIN, (0.0, 0.3, 0.6)), (0.0, (0.0,)))
        for r in rs
        for sd in ((0.1, 0.7) if truth else (0.1, 0.2, 0.35, 0.7, 1.2))
    ]
    for truth, sd, r in points:
        rng = np.random.default_rng([2004, int(1000 * truth), int(100 * sd), int(10 * r)])
        logs = np.log1p(truth) + blocks(studies, r, sd * MARGIN, rng)
        plain, guarded = (decided(logs, guarded=each) for each in (False, True))
        cells = [f"{100 * plain[0][k]:.1f} → {100 * guarded[0][k]:.1f}" for k in SHOWN]
        cells += [
            f"{100 * plain[1]:.1f} → {100 * guarded[1]:.1f}",
            f"{plain[2]:.1f} → {guarded[2]:.1f}",
        ]
        print(f"| {' | '.join([f'{1 + truth:g}', f'{sd:g}', f'{r:g}', *cells])} |", flush=True)


if __name__ == "__main__":
    main()
