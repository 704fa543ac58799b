"""Percentiles of starts: what their intervals cover, how often they have no upper end, and ratios of two platforms'.

    python bench/statistics/quantiles.py [--studies 2000]

Times are log-normal of shape 0.3: the logarithm of a block, as different as given (in units of the starts within
one), and of a start. Intervals and ratios are those of `vtax.stats.quantiles`; of ratios a fifth of the studies.
"""

from __future__ import annotations

import argparse
import math
import zlib
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np
from scipy import special

from vtax.stats.intervals import Interval
from vtax.stats.quantiles import quantile_interval, ratio_of_quantiles

DESIGNS = ((5, 20), (10, 10), (10, 20), (30, 20))  # blocks, starts of a block
BETWEEN = (0.0, 0.5, 1.0)
SHARES = (0.5, 0.95, 0.99)
SHAPE = 0.3
HEADS = (
    "percentile",
    "blocks x starts",
    "blocks differ by",
    "covers",
    "no upper end",
    "ratio of two covers",
)


def starts(blocks: int, count: int, between: float, rng: np.random.Generator) -> np.ndarray:
    """Seconds, a row a block."""
    return np.exp(
        SHAPE * (between * rng.standard_normal((blocks, 1)) + rng.standard_normal((blocks, count)))
    )


def row(point: tuple[float, tuple[int, int], float], studies: int) -> list[str]:
    """A line of the table."""
    share, (blocks, count), between = point
    rng = np.random.default_rng([1927, zlib.crc32(repr(point).encode())])
    truth = math.exp(SHAPE * math.hypot(between, 1) * float(special.ndtri(share)))
    labels = np.repeat(np.arange(blocks), count)

    def found() -> Interval:
        return quantile_interval(starts(blocks, count, between, rng).ravel(), labels, share)

    alone = [found() for _ in range(studies)]
    pairs = [ratio_of_quantiles(found(), found()) for _ in range(max(1, studies // 5))]
    covers = sum(each.low <= truth <= each.high for each in alone) / studies
    endless = sum(math.isinf(each.high) for each in alone) / studies
    ratios = sum(each.low <= 1 <= each.high for each in pairs) / len(pairs)
    figures = (f"{100 * each:.1f}" for each in (covers, endless, ratios))
    return [f"p{100 * share:g}", f"{blocks} x {count}", f"{between:g}", *figures]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    points = list(product(SHARES, DESIGNS, BETWEEN))
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    with ProcessPoolExecutor(options.processes) as pool:
        for cells in pool.map(row, points, [options.studies] * len(points)):
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
