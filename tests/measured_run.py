"""A run in memory with three platforms, one factor and the noise a test asks for. Figures are invented."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import synthetic_run

from vtax.report.analysis import Analysis, analyse_data
from vtax.store.annotations import Annotations
from vtax.store.query import GuestRow, Measurements, RunData, Trials
from vtax.store.records import CellRecord, MetricRecord, PlatformRecord, SessionRecord

NAN = float("nan")
NAMES = ("native", "first", "second")
PLATFORMS = tuple(PlatformRecord(name, {}, True, is_baseline=name == "native") for name in NAMES)
SIZES = (64, 1500)
Value = Callable[[str, int, int, int], float]  # platform, size, block, trial -> value; NaN: a failed trial


def measured(value: Value, blocks: int = 8, trials: int = 3, **design: Any) -> tuple[RunData, Analysis]:
    """A run of one benchmark with the factor `size` on three platforms; trials of 2 s, guests that start in 1 s."""
    cells = [CellRecord(f"{p}-{s}", f"{s}", p, "tool", "tool", levels={"size": s}) for p in NAMES for s in SIZES]
    run: Any = SimpleNamespace(
        name="study-1", study="study", status="finished", stopped_because="", seed=1, vtax_version="0.1.0",
        image_key="4f1d0c77aa31", host={}, plugins=(), identity="", provenance={}, untested=(),
        annotations=Annotations(),
        started_at=0.0, ended_at=1.0, duration_s=1.0,
        platforms=PLATFORMS, cells=cells, metrics=[MetricRecord("tool", "speed", "speed", "1/s", "higher", True)],
        sessions=(SessionRecord(1, "", {}, 0.0),),
        declared={**synthetic_run.DECLARED, "design": {"stop": "fixed", "precision": 0.02, **design}},
    )  # fmt: skip
    order = [(b, c, n) for b in range(blocks) for c in range(len(cells)) for n in range(trials)]
    values = np.array([value(cells[c].platform, int(cells[c].levels["size"]), b, n) for b, c, n in order])
    block, cell, number = (np.array(column) for column in zip(*order, strict=True))
    each, ok = np.arange(len(order)), ~np.isnan(values)
    seconds = np.full(len(order), 2.0)
    no_warmup = np.zeros(len(order), np.bool_)
    return data_and_analysis(
        RunData(
            run,
            Trials(each, cell, block, number, each, no_warmup, ok, each * 2.0, seconds, seconds, np.ones_like(block)),
            Measurements(each[ok], np.zeros(int(ok.sum()), np.int64), values[ok]),
            tuple(GuestRow(p, b, "", 1.0, 0.0, {}, (), "") for b in range(blocks) for p in NAMES),
            (),
            (),
        )
    )


def data_and_analysis(data: RunData) -> tuple[RunData, Analysis]:
    """The run and what the report says of it."""
    return data, analyse_data(data)


def noisy(between: float, within: float, seed: int = 1, drift: float = 0.0) -> Value:
    """Log-normal noise: of a guest, of a trial, and a trend per block."""
    random = np.random.default_rng(seed)
    guests: dict[tuple[str, int], float] = {}

    def value(platform: str, size: int, block: int, number: int) -> float:
        guest = guests.setdefault((platform, block), float(random.normal(0, between)))
        return 100.0 * size * math.exp(guest + float(random.normal(0, within)) + drift * block)

    return value
