"""How much of a cell's noise goes with its program's waits for a CPU: a diagnosis, by which no figure is changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy import special

from vtax.counters.table import PROGRAM, RUN_DELAY
from vtax.described import Means
from vtax.report.analysis.values import Section, every_row
from vtax.report.answers.explain.work import durations, per_block
from vtax.stats.checks import MINIMUM_BLOCKS
from vtax.stats.verdict import holm
from vtax.store.query import BlockCounters, Floats, RunData

COUNTER = (PROGRAM, RUN_DELAY.name)


@dataclass(frozen=True)
class Waits:
    """How much of a cell's noise goes with its program's waits."""

    share: Annotated[
        float, Means("share of the variance between blocks that goes with the share of time waited")
    ]
    p: Annotated[float, Means("p-value of that, Holm-adjusted over all cells")]


Waited = Mapping[tuple[str, str], Waits]
"""By key of the cell and name of the metric."""


def waits_of(data: RunData, sections: Sequence[Section], counted: BlockCounters) -> Waited:
    """Cells of five blocks or more that were slower where their program waited more.

    Of the logarithm of a block's mean and the share of time waited in the block: the square of Pearson's correlation,
    adjusted (Ezekiel 1930), and its one-sided t-test. counted: COUNTER by cell.
    """
    numbers = {cell.key: number for number, cell in enumerate(data.run.cells)}
    found: dict[tuple[str, str], Waits] = {}
    for section, _, row in every_row(sections):
        number = numbers[row.cell.key]
        side = counted.get((number, *COUNTER))
        if side is None or row.summary is None or not (row.block_means > 0).all():
            continue
        waited = per_block(side, row.blocks) / per_block(durations(data, number), row.blocks)
        known = np.isfinite(waited)
        logs = np.log(row.block_means[known])
        found[row.cell.key, section.metric.name] = _explained(
            -logs if section.better == "higher" else logs, waited[known]
        )
    adjusted = holm([each.p for each in found.values()]).tolist() if found else []
    return {key: replace(each, p=p) for (key, each), p in zip(found.items(), adjusted, strict=True)}


def _explained(slowness: Floats, waited: Floats) -> Waits:
    n = slowness.size
    if n < MINIMUM_BLOCKS or not (np.ptp(slowness) > 0 and np.ptp(waited) > 0):
        return Waits(0.0, 1.0)
    correlation = float(np.clip(np.corrcoef(slowness, waited)[0, 1], -1, 1))
    left = max(1 - correlation**2, 1e-15) / (n - 2)
    share = max(1 - left * (n - 1), 0.0) if correlation > 0 else 0.0
    return Waits(share, float(special.stdtr(n - 2, -correlation / math.sqrt(left))))
