"""Does nearness in time make ratios less noisy? Pairs of like cells in the runs of docs/examples, by their distance.

    python bench/statistics/nearness.py

Within a block, trials of one point on two platforms that are not emulated: squared difference of their logarithms,
each less its platform's mean over the blocks, over twice the variance of such values at the point. 1: as much as of
two trials that have nothing in common; the less, the more does pairing them cancel.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from vtax.cli.main import group
from vtax.report.analysis.result import judged_run
from vtax.store.query import load
from vtax.store.store import Store

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
NAMES = ("tour", "ufla2010", "mauricio2013", "santos2008", "urschei2007", "trindade2018")
EDGES = (0, 3, 10, 30, 90, 300, np.inf)
FEWEST_BLOCKS = 5
Pairs = dict[str, list[tuple[float, float]]]


def pairs_of(bundle: Path) -> Pairs:
    """Benchmark -> (seconds between the two trials, squared difference) of a run."""
    with tempfile.TemporaryDirectory() as directory:
        place = f"sqlite:///{directory}/store.sqlite"
        CliRunner().invoke(group, ["import", str(bundle)], env={"VTAX_STORE": place})
        with Store.open(place, read_only=True) as store:
            data = load(store.engine, store.open_run("last"))
    at = dict(zip(data.trials.position.tolist(), data.trials.started_at.tolist(), strict=True))
    found: Pairs = {}
    for section in (s for s in judged_run(data).sections if s.metric.is_primary):
        for point in section.points:
            sides = []
            for row in point.rows:
                is_whole = row.summary is not None and row.blocks.size >= FEWEST_BLOCKS
                if (
                    is_whole
                    and row.trial_values.size == row.blocks.size
                    and "emulated" not in row.platform.marks
                ):
                    logs = np.log(row.trial_values)
                    centred = (logs - logs.mean()) * np.sqrt(logs.size / (logs.size - 1))
                    times = [at[position] for position in row.trial_positions.tolist()]
                    sides.append(
                        dict(
                            zip(
                                row.trial_blocks.tolist(),
                                zip(times, centred, strict=True),
                                strict=True,
                            )
                        )
                    )
            if len(sides) < 2:
                continue
            variance = np.mean([value**2 for side in sides for _, value in side.values()])
            for one, other in itertools.combinations(sides, 2):
                for block in one.keys() & other.keys():
                    distance = abs(one[block][0] - other[block][0])
                    square = (
                        (one[block][1] - other[block][1]) ** 2 / (2 * variance)
                        if variance > 0
                        else np.nan
                    )
                    found.setdefault(section.benchmark, []).append((distance, float(square)))
    return found


def main() -> None:
    every: Pairs = {}
    for name in NAMES:
        for benchmark, pairs in pairs_of(EXAMPLES / f"{name}.vtax.gz").items():
            every.setdefault(benchmark, []).extend(pairs)
    every["all"] = [pair for pairs in every.values() for pair in pairs]
    heads = [f"{low:g} to {high:g} s" for low, high in itertools.pairwise(EDGES)]
    print(f"| benchmark | {' | '.join(heads)} |\n|{'---|' * (1 + len(heads))}")
    for benchmark, pairs in every.items():
        distance, square = np.array([pair for pair in pairs if np.isfinite(pair[1])]).T
        cells = []
        for low, high in itertools.pairwise(EDGES):
            these = square[(distance >= low) & (distance < high)]
            cells.append(
                f"{these.mean():.2f} ± {these.std() / np.sqrt(these.size):.2f} ({these.size})"
                if these.size > 9
                else ""
            )
        print(f"| {benchmark} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
