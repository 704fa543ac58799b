"""A stored run of two platforms whose counters a test scripts. The figures are invented."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vtax.store.records import CellRecord, MetricRecord, PlatformRecord, TrialRecord
from vtax.store.store import RunHandle, Store

PLATFORMS = (
    PlatformRecord("native", {}, True, is_baseline=True),
    PlatformRecord("sandbox", {}, True),
)
Counts = Mapping[tuple[str, str], float]
Script = Callable[[str, float, np.random.Generator], Counts]
"""(platform, operations of a trial, random) -> (place, name) -> value."""
TRIAL_S = 2.0


def stored(
    store: Store,
    script: Script,
    *,
    slowdown: float = 4.0,
    blocks: int = 10,
    trials: int = 2,
    seed: int = 1,
    unit: str = "operations/s",
    noise: float = 0.02,
    host: Mapping[str, Any] | None = None,
    name: str = "counted-1",
    others: Sequence[str] = (),
    benchmark: str = "tool",
    metric: str = "speed",
    effective: Mapping[str, Any] | None = None,
    lasted_s: float = TRIAL_S,
) -> RunHandle:
    """A run whose sandbox makes `slowdown` times fewer operations a second than native's 1e5. others: further
    platforms, as fast as native. effective: settings of every trial. lasted_s: what is stored as its length."""
    further = [PlatformRecord(other, {}, True) for other in others]
    names = [platform.name for platform in (*PLATFORMS, *further)]
    cells = [CellRecord(f"c-{name}", "c", name, benchmark, benchmark, "1.0") for name in names]
    random = np.random.default_rng(seed)
    declared = {
        "name": "counted",
        "baseline": "native",
        "platforms": names,
        "benchmark": [{"name": benchmark}],
        "design": {"blocks": blocks, "trials": trials},
    }
    run = store.begin_run(
        name=name,
        study="counted",
        declared=declared,
        seed=1,
        vtax_version="0",
        image_key="none",
        host=dict(host or {}),
        started_at=0.0,
        platforms=[*PLATFORMS, *further],
        cells=cells,
        metrics=[MetricRecord(benchmark, metric, metric, unit, "higher", True)],
    )
    position = 0
    for block in range(blocks):
        shared = random.normal(0, noise)
        for cell in cells:
            for number in range(trials):
                rate = 1e5 / (slowdown if cell.platform == "sandbox" else 1.0)
                rate *= float(np.exp(shared + random.normal(0, noise)))
                counts = script(cell.platform, rate * TRIAL_S, random)
                run.add_trial(
                    TrialRecord(
                        cell_key=cell.key,
                        guest_id=None,
                        block=block,
                        number=number,
                        position=position,
                        is_warmup=False,
                        status="ok",
                        started_at=float(position),
                        outside_s=lasted_s,
                        inside_s=lasted_s,
                        values={metric: rate},
                        counters=dict(counts),
                        effective=dict(effective or {}),
                    )
                )
                position += 1
    run.finish("finished", "all blocks are done", 100.0)
    return run
