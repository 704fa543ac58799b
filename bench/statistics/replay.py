"""A stored run judged again after each of its blocks, by both methods: how many contrasts each decides.

    python bench/statistics/replay.py RUN      # primary metrics; the store as vtax finds it

Every set of consecutive blocks of a length counts, so that one lucky beginning does not.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from vtax.host.home import Home
from vtax.report.analysis import analyse as analyse_run
from vtax.report.analysis.values import Row, lending_group
from vtax.stats.analysis import Comparison, analyse
from vtax.stats.contrasts import paired_contrast
from vtax.stats.ratio import BlockMeans
from vtax.stats.stopping import Rule
from vtax.store.store import Store


def part(row: Row, kept: NDArray[np.int64]) -> BlockMeans:
    """What a cell measured in some of the blocks."""
    inside = np.isin(row.blocks, kept)
    return BlockMeans(row.blocks[inside], row.block_means[inside])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run")
    parser.add_argument("--margin", type=float, default=0.02)
    options = parser.parse_args()
    home = Home.from_environment()
    with Store.open(home.store_url) as store:
        analysis = analyse_run(store, options.run)
    families = []
    for section in analysis.primary:
        pairs = []
        for point in section.points:
            base = next(row for row in point.rows if row.platform.is_baseline)
            pairs += [(row, base) for row in point.rows if row is not base and row.summary]
        families.append((section.better, pairs))
    print("blocks | contrasts | decided by method 1 | by method 2 | median half-width of the intervals, 2 / 1")
    for length in range(3, analysis.blocks + 1):
        decided, widths, total = {1: 0, 2: 0}, [], 0
        for start in range(analysis.blocks - length + 1):
            kept = np.arange(start, start + length)

            for better, pairs in families:
                contrasts = {
                    str(k): paired_contrast(
                        part(row, kept), part(base, kept), better, lending_group(row.platform)
                    )
                    for k, (row, base) in enumerate(pairs)
                }  # fmt: skip
                found = {
                    method: analyse(Rule("fixed", margin=options.margin, method=method), contrasts)
                    for method in (1, 2)
                }
                for name in contrasts:
                    one, two = found[1][name], found[2][name]
                    if isinstance(one, Comparison) and isinstance(two, Comparison):
                        total += 1
                        decided[1] += one.verdict.kind != "undecided"
                        decided[2] += two.verdict.kind != "undecided"
                        widths.append(two.ratio.half_width / one.ratio.half_width)
        print(f"{length} | {total} | {decided[1]} | {decided[2]} | {np.median(widths):.2f}")


if __name__ == "__main__":
    main()
