"""The two numbers in vtax.stats that were fitted by simulation, and how well they fit.

    python bench/statistics/calibrate.py

1. `width_share`: coverage of an interval after stopping for precision, and families of six equal platforms with any
   false alarm, without regard to size; each worst over the ratio of noise to target.
2. `HELD_BACK`: how much of alpha sequential t-tests really use when given boundaries meant for z-tests.
"""

from __future__ import annotations

import numpy as np
from methods import UNDECIDED, precision
from noise import Array
from scipy import special

from vtax.stats.rules import width_share
from vtax.stats.sequential import HELD_BACK, nominal_levels

STUDIES = 40_000
FAMILY = 6
NO_MARGIN = 1e-9


def noises(min_blocks: int, max_blocks: int) -> Array:
    """Standard deviation of a log-ratio / target, from stopping at the fewest blocks to hardly ever stopping."""
    return np.geomspace(0.2 * min_blocks**0.5, 0.7 * max_blocks**0.5, 9)


def worst_coverage(min_blocks: int, max_blocks: int, share: float) -> float:
    rng = np.random.default_rng([min_blocks, max_blocks])
    logs = 0.001 * rng.standard_normal((STUDIES, 1, max_blocks))
    found = (
        precision(x * logs, 0.001, NO_MARGIN, min_blocks, share)[0]
        for x in noises(min_blocks, max_blocks)
    )
    return min(float(covers.mean()) for covers in found)


def worst_alarms(min_blocks: int, max_blocks: int, share: float) -> float:
    """Of families that share a baseline: any difference found, however small."""
    rng = np.random.default_rng([min_blocks, max_blocks, FAMILY])
    values = 0.001 * rng.standard_normal((STUDIES // 2, FAMILY + 1, max_blocks))
    logs = (values[:, 1:] - values[:, :1]) / 2**0.5
    found = (
        precision(x * logs, 0.001, NO_MARGIN, min_blocks, share)[1]
        for x in noises(min_blocks, max_blocks)
    )
    return max(float((codes != UNDECIDED).any(axis=1).mean()) for codes in found)


def used(alpha: float, first: int, last: int) -> float:
    rng = np.random.default_rng([first, last])
    logs = rng.standard_normal((100_000, last))
    n = np.arange(1, last + 1.0)
    mean = np.cumsum(logs, axis=1) / n
    se = np.sqrt((np.cumsum(logs**2, axis=1) - n * mean**2) / np.maximum(n - 1, 1) / n)
    p = special.stdtr(n - 1, -mean / np.maximum(se, 1e-300))[:, first - 1 :]
    return float((p <= np.array(nominal_levels(alpha, first, last))).any(axis=1).mean() / alpha)


def main() -> None:
    print(
        "fewest, most blocks: worst coverage of a nominal 95 % and worst family (plain), with width_share"
    )
    for first, last in ((3, 30), (5, 30), (5, 60), (10, 60), (20, 120)):
        shares = 1.0, width_share(first)
        covered = " ".join(f"{worst_coverage(first, last, share):.1%}" for share in shares)
        alarms = " ".join(f"{worst_alarms(first, last, share):.1%}" for share in shares)
        print(f"{first:3} {last:4}: covers {covered}, any alarm {alarms} (share {shares[1]:.2f})")
    print(
        f"alpha used / alpha given to boundaries of a z-test (1 / HELD_BACK is {1 / HELD_BACK:.2f})"
    )
    for first, last in ((5, 30), (5, 100), (10, 40)):
        print(
            f"{first:3} {last:4}: "
            + " ".join(f"{a:g}: {used(a, first, last):.2f}" for a in (0.05, 0.025, 0.005))
        )


if __name__ == "__main__":
    main()
