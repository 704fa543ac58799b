"""A run in memory with three platforms, one factor and the noise a test asks for. Figures are invented."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import synthetic_run
from memory_run import data_of, guests_of, run_of

from vtax.report.analysis import Analysis, analyse_data
from vtax.store.query import RunData
from vtax.store.records import CellRecord, PlatformRecord

NAN = float("nan")
NAMES = ("native", "first", "second")
PLATFORMS = tuple(PlatformRecord(name, {}, True, is_baseline=name == "native") for name in NAMES)
SIZES = (64, 1500)
Value = Callable[
    [str, int, int, int], float
]  # platform, size, block, trial -> value; NaN: a failed trial


def measured(
    value: Value, blocks: int = 8, trials: int = 3, **design: Any
) -> tuple[RunData, Analysis]:
    """A run of one benchmark with the factor `size` on three platforms; trials of 2 s, guests that start in 1 s."""
    cells = [
        CellRecord(f"{p}-{s}", f"{s}", p, "tool", "tool", levels={"size": s})
        for p in NAMES
        for s in SIZES
    ]
    run = run_of(
        platforms=PLATFORMS,
        cells=cells,
        declared={
            **synthetic_run.DECLARED,
            "design": {"stop": "fixed", "precision": 0.02, **design},
        },
    )
    order = [(b, c, n) for b in range(blocks) for c in range(len(cells)) for n in range(trials)]
    values = [value(cells[c].platform, int(cells[c].levels["size"]), b, n) for b, c, n in order]
    data = data_of(run, order, values, guests=guests_of(NAMES, blocks))
    return data, analyse_data(data)


def noisy(between: float, within: float, seed: int = 1, drift: float = 0.0) -> Value:
    """Log-normal noise: of a guest, of a trial, and a trend per block."""
    random = np.random.default_rng(seed)
    guests: dict[tuple[str, int], float] = {}

    def value(platform: str, size: int, block: int, number: int) -> float:
        guest = guests.setdefault((platform, block), float(random.normal(0, between)))
        return 100.0 * size * math.exp(guest + float(random.normal(0, within)) + drift * block)

    return value
