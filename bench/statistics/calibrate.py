"""The two numbers in vtax.stats that were fitted by simulation, and how well they fit.

    python bench/statistics/calibrate.py

1. `precision_share`: coverage of the interval after stopping for precision, worst over the ratio of noise to target.
2. `HELD_BACK`: how much of alpha sequential t-tests really use when given boundaries meant for z-tests.
"""

from __future__ import annotations

import numpy as np
from methods import precision
from scipy import special

from vtax.stats.sequential import HELD_BACK, nominal_levels
from vtax.stats.stopping import precision_share

STUDIES = 40_000


def worst_coverage(min_blocks: int, max_blocks: int, share: float) -> float:
    rng = np.random.default_rng([min_blocks, max_blocks])
    logs = rng.standard_normal((STUDIES, 1, max_blocks))
    noises = np.geomspace(0.2 * min_blocks**0.5, 0.7 * max_blocks**0.5, 9)  # standard deviation / target
    return min(float(precision(0.001 * x * logs, 0.001, 0.02, min_blocks, share)[0].mean()) for x in noises)


def used(alpha: float, first: int, last: int) -> float:
    rng = np.random.default_rng([first, last])
    logs = rng.standard_normal((100_000, last))
    n = np.arange(1, last + 1.0)
    mean = np.cumsum(logs, axis=1) / n
    se = np.sqrt((np.cumsum(logs**2, axis=1) - n * mean**2) / np.maximum(n - 1, 1) / n)
    p = special.stdtr(n - 1, -mean / np.maximum(se, 1e-300))[:, first - 1 :]
    return float((p <= np.array(nominal_levels(alpha, first, last))).any(axis=1).mean() / alpha)


def main() -> None:
    print("fewest blocks, most blocks: worst coverage of a nominal 95 % (plain), with precision_share")
    for first, last in ((3, 30), (5, 30), (5, 60), (10, 60), (20, 120)):
        plain, ours = (worst_coverage(first, last, share) for share in (1.0, precision_share(first)))
        print(f"{first:3} {last:4}: {plain:.1%} {ours:.1%} (share {precision_share(first):.2f})")
    print(f"alpha used / alpha given to boundaries of a z-test (1 / HELD_BACK is {1 / HELD_BACK:.2f})")
    for first, last in ((5, 30), (5, 100), (10, 40)):
        print(f"{first:3} {last:4}: " + " ".join(f"{a:g}: {used(a, first, last):.2f}" for a in (0.05, 0.025, 0.005)))


if __name__ == "__main__":
    main()
