"""A million measurements in 500 cells: processor time and memory of every summary, ratio and verdict.

python bench/statistics/scale.py
"""

from __future__ import annotations

import resource
import time

import numpy as np

from vtax.stats.describe import describe
from vtax.stats.judge import Contrast, analyse
from vtax.stats.means import block_means
from vtax.stats.ratio import log_ratios
from vtax.stats.rules import RULES

CELLS, BLOCKS, TRIALS = 500, 40, 50


def main() -> None:
    rng = np.random.default_rng(1)
    order = rng.permutation(CELLS * BLOCKS * TRIALS)
    cells = np.repeat(np.arange(CELLS), BLOCKS * TRIALS)[order]
    blocks = np.tile(np.repeat(np.arange(BLOCKS), TRIALS), CELLS)[order]
    values = rng.lognormal(5, 0.02, order.size)
    started_at = time.process_time()
    order = np.argsort(cells, kind="stable")
    starts = np.unique(cells[order], return_index=True)[1]
    summaries = [
        describe(values[part], blocks=blocks[part]) for part in np.split(order, starts[1:])
    ]
    described = time.process_time()
    means = block_means(cells * BLOCKS + blocks, values)[1].reshape(CELLS, BLOCKS)
    contrasts = {
        str(k): Contrast(log_ratios(means[k], means[k - k % 10]), "higher")
        for k in range(CELLS)
        if k % 10
    }
    for stop in ("fixed", "precision", "verdict"):
        start = time.process_time()
        analyse(RULES[stop](max_blocks=40), contrasts)
        print(
            f"{len(contrasts)} ratios and verdicts, rule {stop}: {time.process_time() - start:.2f} s"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{len(summaries)} summaries of {values.size} measurements: "
        f"{described - started_at:.2f} s, peak {peak:.0f} MiB"
    )


if __name__ == "__main__":
    main()
