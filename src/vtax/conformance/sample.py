"""Runs with synthetic values, to check views."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from vtax.messages import quoted
from vtax.store.records import (
    CellRecord,
    Design,
    MetricRecord,
    PlatformRecord,
    RunRecord,
    TrialRecord,
)
from vtax.store.store import RunHandle, Store

_PLATFORMS = (
    PlatformRecord(
        "native", {"driver": "native", "options": {}}, True, version="6.1", is_baseline=True
    ),
    PlatformRecord(
        "podman", {"driver": "podman", "options": {}}, True, version="4.3", marks=("nested",)
    ),
    PlatformRecord(
        "lxc", {"driver": "lxc", "options": {}}, False, reason="lxc-start is not installed"
    ),
)
_METRICS = (
    MetricRecord("tool", "rate", "rate", "MB/s", "higher", True),
    MetricRecord("tool", "delay", "delay", "ms", "lower"),
)
_DECLARED = {
    "name": "sample",
    "title": "A sample",
    "baseline": "native",
    "platforms": ["native", "podman", "lxc"],
    "design": {"stop": "fixed", "blocks": 4, "trials": 2, "margin": 0.02, "order": "randomized"},
    "benchmark": [{"name": "tool", "factors": {"size": [1, 2]}}],
}
_BLOCKS, _TRIALS = 4, 2


@contextmanager
def runs() -> Iterator[list[Store]]:
    """Yield stores with one run each: without trials, and with trials of which one failed."""
    with TemporaryDirectory(prefix="vtax-sample-") as directory:
        stores = [Store.open(Path(directory, f"{name}.sqlite")) for name in ("empty", "full")]
        try:
            for store in stores:
                run = _begin(store)
            _fill(run)
            yield stores
        finally:
            for store in stores:
                store.close()


def _begin(store: Store) -> RunHandle:
    cells = []
    for name in ("native", "podman"):
        for size in (1, 2):
            key, levels = f"{name}-{size}", {"size": size}
            cells.append(CellRecord(key, str(size), name, "tool", "tool", "1.0", levels=levels))
    record = RunRecord(
        name="sample-1",
        study="sample",
        declared=_DECLARED,
        seed=1,
        vtax_version="0",
        image_key="0" * 12,
        host={"cpu_model": "a processor", "cpus": 2, "memory_bytes": 8 << 30},
        started_at=1.7e9,
    )
    return store.begin_run(record, Design(_PLATFORMS, cells, _METRICS))


def _fill(run: RunHandle) -> None:
    position = 0
    for block in range(_BLOCKS):
        for platform in ("native", "podman"):
            guest = run.begin_guest(platform, block, "", 1.7e9 + position)
            for cell in (cell for cell in run.cells if cell.platform == platform):
                for number in range(_TRIALS):
                    is_failed = (platform, position) == ("podman", 7)
                    noise = 1 + 0.01 * math.sin(7.0 * position)
                    values = {"rate": 900.0 * noise, "delay": 2.0 / noise}
                    run.add_trial(
                        TrialRecord(
                            cell.key,
                            guest,
                            block,
                            number,
                            position,
                            False,
                            "failed" if is_failed else "ok",
                            1.7e9 + position,
                            1.0,
                            1.0,
                            error="the tool failed" if is_failed else "",
                            values={} if is_failed else values,
                            counters={("guest", "ctxt"): 12.0},
                            warnings=(quoted("a warning"),) if position == 0 else (),
                        )
                    )
                    position += 1
            run.end_guest(
                guest,
                ready_s=0.1,
                clock_offset_s=0.0,
                facts={"kernel": "6.1"},
                notes=("a note",),
                error="",
            )
    run.finish("finished", "all blocks", 1.7e9 + 100)
