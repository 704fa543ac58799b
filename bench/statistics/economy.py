"""Blocks to a verdict in a family of six by method 2, from three blocks on, against a fixed number of the same power.

    python bench/statistics/economy.py [--studies 150]

The grid is that of the table `economy` of simulate.py: four noises, five CVs, nine ratios, up to 40 blocks. "Fixed"
is the least number, from five on, at which own variances and Holm's correction give as many right verdicts. What
`vtax.stats.withholding` holds back is left out of both.
"""

from __future__ import annotations

import argparse
import zlib

import numpy as np
from methods import log_ratios, running, verdicts
from noise import NOISES, Noise, randomized

from vtax.stats.sequential import decide_studies

FAMILY, MARGIN, LAST, MOST_FIXED = 6, 0.02, 40, 60
ABOVE, BELOW, EQUIVALENT = 1, 2, 3


def point(noise: Noise, cv: float, ratio: float, studies: int) -> tuple[float, float, float]:
    """(power, mean blocks of a contrast, least fixed number with that power; MOST_FIXED + 1 where none has it)."""
    right = BELOW if ratio < 1 - MARGIN else ABOVE if ratio > 1 + MARGIN else EQUIVALENT
    rng = np.random.default_rng([2004, zlib.crc32(repr((noise.name, cv, ratio)).encode())])
    ratios = np.array([1.0] + [ratio] * FAMILY)
    logs = log_ratios(randomized(noise, cv, ratios, studies, MOST_FIXED, 3, rng))
    codes, at = decide_studies(logs[..., :LAST], MARGIN, 0.05, 3, LAST, [""] * FAMILY)
    power = float((codes == right).mean())
    n, mean, se = running(logs)
    low, high = 5, MOST_FIXED + 1
    while low < high:  # bisection: power grows with blocks
        k = (low + high) // 2 - 1
        found = verdicts(mean[..., k], se[..., k], np.full((studies, 1), n[k]), MARGIN, 0.05)
        low, high = (low, k + 1) if (found == right).mean() >= power else (k + 2, high)
    return power, float(np.minimum(at, LAST).mean()), float(low)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=150)
    studies = parser.parse_args().studies
    chosen = [n for n in NOISES if n.name in ("normal", "heavy-tailed (t, 3 df)") or "between-boot" in n.name]
    every, harder = [], []
    for noise in chosen:
        for cv in (0.005, 0.02, 0.05, 0.1, 0.2):
            for ratio in (0.5, 0.8, 0.9, 0.95, 0.97, 1.0, 1.03, 1.05, 1.1):
                power, used, fixed = point(noise, cv, ratio, studies)
                if power >= 0.8:
                    every.append(used / fixed)
                    if fixed > 5:
                        harder.append(used / fixed)
        print(f"{noise.name}: {len(every)} points so far, median share {np.median(every):.2f}", flush=True)
    print(f"all {len(every)} points that can be decided: median {np.median(every):.2f}, quartiles {quartiles(every)}")
    print(f"the {len(harder)} that take more than five fixed blocks: {np.median(harder):.2f}, {quartiles(harder)}")


def quartiles(shares: list[float]) -> str:
    low, high = np.quantile(shares, [0.25, 0.75])
    return f"{low:.2f} and {high:.2f}"


if __name__ == "__main__":
    main()
