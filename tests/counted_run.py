"""A stored run of two platforms whose counters a test scripts. The figures are invented."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from a_run import a_run

from vtax.store.records import CellRecord
from vtax.store.store import RunHandle, Store

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
    speeds: Mapping[str, float] | None = None,
    benchmark: str = "tool",
    metric: str = "speed",
    effective: Mapping[str, Any] | None = None,
    lasted_s: float = TRIAL_S,
) -> RunHandle:
    """A run whose sandbox makes `slowdown` times fewer operations a second than native's 1e5.

    others: further platforms, as fast as native.
    speeds: how many times slower some of these are.
    effective: settings of every trial.
    lasted_s: what is stored as its length.
    """
    random = np.random.default_rng(seed)
    speed = {"native": 1.0, "sandbox": slowdown, **(speeds or {})}
    of_blocks: dict[int, float] = {}

    def counted(cell: CellRecord, block: int, number: int) -> dict[str, Any]:
        if block not in of_blocks:
            of_blocks[block] = random.normal(0, noise)
        rate = 1e5 / speed.get(cell.platform, 1.0)
        rate *= float(np.exp(of_blocks[block] + random.normal(0, noise)))
        return {
            "values": {metric: rate},
            "counters": dict(script(cell.platform, rate * TRIAL_S, random)),
            "effective": dict(effective or {}),
            "outside_s": lasted_s,
            "inside_s": lasted_s,
        }

    run = a_run(name).platforms("native", "sandbox", *others).benchmark(benchmark)
    run = run.metric(metric, unit).having(study="counted", host=dict(host or {}))
    return run.blocks(blocks, trials).trials(counted).stored(store)
