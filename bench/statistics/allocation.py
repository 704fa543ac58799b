"""What `trials = "auto"` gains on a host: time to a half-width with one trial in a block, and with the chosen number.

    python bench/statistics/allocation.py RUN [--half-width 0.02]      # the store as vtax finds it

Computed from what a stored run with several trials in a block measured: the costs of its guests and trials, and the
variances of its contrasts between and within blocks. Nothing is measured again.
"""

from __future__ import annotations

import argparse
import math

from vtax.host.home import Home
from vtax.report.analysis.source import source_of
from vtax.report.analysis.variance import places, variance
from vtax.stats.intervals import t_quantile
from vtax.stats.planning import allocate
from vtax.stats.variance import Components
from vtax.store.costs import costs
from vtax.store.store import Store

MAX_BLOCKS = 1_000_000


def blocks_for(noise: Components, trials: int, half_width: float) -> int:
    """The fewest blocks, from 5 on, whose 95 % interval of a ratio is that narrow."""
    spread = math.sqrt(2 * (noise.between_blocks + (noise.trial_means or 0.0) / trials))
    low, high = 5, MAX_BLOCKS
    while low < high:
        middle = (low + high) // 2
        is_enough = t_quantile(0.975, middle - 1) * spread / math.sqrt(middle) <= half_width
        low, high = (low, middle) if is_enough else (middle + 1, high)
    return low


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run")
    parser.add_argument("--half-width", type=float, default=0.02)
    options = parser.parse_args()
    with Store.existing(Home.from_environment().store_url) as store:
        source = source_of(store, options.run)
        tables = variance(source.data, source.analysis)
        print("contrast | start s | trial s | sd of blocks, of trials | trials | time with 1, with these (s) | ratio")
        paid = costs(source.data, own_time=True)
        cells = [cell.row for _, cell in places(tables)]
        bases = {row.cell.point: row.cell.key for row in cells if row.platform.is_baseline}
        for place, cell in places(tables):
            if cell.noise is None or cell.noise.trial_means is None:
                continue
            both = [paid[cell.row.cell.key], paid[bases[cell.row.cell.point]]]
            start_s, trial_s = sum(each.block_s for each in both), sum(each.trial_s for each in both)
            chosen = allocate([cell.noise], start_s, trial_s)
            times = [
                blocks_for(cell.noise, trials, options.half_width) * (start_s + trials * trial_s)
                for trials in (1, chosen.trials)
            ]
            print(
                f"{place.subject} {place.platform} | {start_s:.2f} | "
                f"{trial_s:.2f} | {chosen.between:.3f}, {chosen.within:.3f} | {chosen.trials} | "
                f"{times[0]:.0f}, {times[1]:.0f} | {times[1] / times[0]:.2f}"
            )


if __name__ == "__main__":
    main()
