"""A run with invented figures, for tests of the store and of rendering only. Never shown to anyone as a result."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from vtax.messages import Note
from vtax.store.records import CellRecord, MetricRecord, OutputRecord, PlatformRecord, TrialRecord
from vtax.store.store import RunHandle, Store

PLATFORMS = (
    PlatformRecord(
        "native", {"driver": "native", "options": {}}, True, version="6.12", is_baseline=True
    ),
    PlatformRecord("docker", {"driver": "docker", "options": {}}, True, version="20.10"),
    PlatformRecord("lxc", {"driver": "lxc", "options": {}}, True, version="5.0"),
    PlatformRecord(
        "qemu-tcg",
        {"driver": "qemu", "options": {"accelerator": "tcg"}},
        True,
        marks=("emulated",),
        version="7.2",
    ),
    PlatformRecord(
        "kvm-virtio",
        {"driver": "qemu", "options": {"accelerator": "kvm"}},
        False,
        reason=Note("needs-root"),
        hint=Note("hint-sudo"),
    ),
)
METRICS = (
    MetricRecord("sysbench-cpu", "events", "events", "events/s", "higher", True),
    MetricRecord(
        "sysbench-cpu", "latency", "time of one event, 95th percentile", "ms", "lower", False
    ),
    MetricRecord("iperf3", "throughput", "throughput", "Mbit/s", "higher", True),
)
DECLARED: dict[str, Any] = {
    "name": "tour",
    "title": "What does each layer of this host cost?",
    "question": "How far are containers and virtual machines from native?",
    "baseline": "native",
    "platforms": [p.name for p in PLATFORMS],
    "guest": {"vcpus": 1, "memory": 512 * 1024**2},
    "design": {
        "stop": "fixed",
        "blocks": 8,
        "min_blocks": 5,
        "max_blocks": 30,
        "precision": 0.02,
        "trials": 2,
        "warmup": 1,
        "order": "randomized",
        "seed": None,
        "timeout": 60.0,
        "budget": None,
        "margin": 0.02,
    },
    "platform": [],
    "benchmark": [
        {
            "name": "sysbench-cpu",
            "label": None,
            "topology": None,
            "parameters": {"duration_s": 1.0},
            "factors": {},
            "link": {},
            "link_factors": {},
        },
        {
            "name": "iperf3",
            "label": None,
            "topology": None,
            "parameters": {},
            "link": {},
            "link_factors": {},
            "factors": {"direction": ["send", "receive"]},
        },
    ],
}
SPEED = {"native": 1.0, "docker": 0.998, "lxc": 1.001, "qemu-tcg": 0.135}


def cells() -> list[CellRecord]:
    """Three points on every platform that is available."""
    made = []
    for platform in PLATFORMS:
        if platform.available:
            made.append(
                CellRecord(
                    f"c-{platform.name}",
                    "c",
                    platform.name,
                    "sysbench-cpu",
                    "sysbench-cpu",
                    "1.0.20",
                    parameters={"duration_s": 1.0},
                    tool="sysbench",
                )
            )
            for direction in ("send", "receive"):
                made.append(
                    CellRecord(
                        f"{direction[0]}-{platform.name}",
                        direction[0],
                        platform.name,
                        "iperf3",
                        "iperf3",
                        "3.18",
                        "point-to-point",
                        {"direction": direction},
                        {},
                        {"direction": direction},
                    )
                )
    return made


def begin(store: Store, name: str = "tour-1", **changes: Any) -> RunHandle:
    """A new run without trials."""
    given: dict[str, Any] = {
        "name": name,
        "study": "tour",
        "declared": DECLARED,
        "seed": 2**40 + 7,
        "vtax_version": "0.1.0",
        "image_key": "4f1d0c77aa31",
        "host": {"cpu": "Some CPU", "cpus": 2, "memory_bytes": 8 << 30},
        "started_at": 1_700_000_000.0,
        "platforms": PLATFORMS,
        "cells": cells(),
        "metrics": METRICS,
    }
    return store.begin_run(**{**given, **changes})


def trial(cell: CellRecord, **changes: Any) -> TrialRecord:
    """A trial of a cell that went well."""
    metric = "events" if cell.benchmark == "sysbench-cpu" else "throughput"
    given: dict[str, Any] = {
        "cell_key": cell.key,
        "guest_id": None,
        "block": 0,
        "number": 0,
        "position": 0,
        "is_warmup": False,
        "status": "ok",
        "started_at": 1_700_000_001.0,
        "outside_s": 1.01,
        "inside_s": 1.0,
        "outputs": (OutputRecord("single", ("tool", "--run"), 0, "what it said\n", ""),),
        "values": {metric: 1000.0},
        "counters": {("guest", "ctxt"): 12.0},
    }
    return TrialRecord(**{**given, **changes})


def fill(
    run: RunHandle,
    blocks: int = 8,
    trials: int = 2,
    warmup: int = 1,
    seed: int = 1,
    *,
    finishes: bool = True,
) -> None:
    """Every trial of a run: log-normal noise, shared within a block, a factor per platform, one failed trial."""
    noise = random.Random(seed)
    position = run.next_position()
    for block in range(blocks):
        shared = noise.gauss(0, 0.02)
        for platform in PLATFORMS:
            if not platform.available:
                continue
            guest = run.begin_guest(platform.name, block, "point-to-point", 1_700_000_000.0 + block)
            for cell in (c for c in run.cells if c.platform == platform.name):
                for number in range(trials + warmup):
                    factor = SPEED[platform.name] * 2.718 ** (shared + noise.gauss(0, 0.004))
                    failed = (block, number, cell.key) == (3, warmup, "r-qemu-tcg")
                    values = (
                        {"events": 1250 * factor, "latency": 0.8 / factor}
                        if cell.benchmark == "sysbench-cpu"
                        else {"throughput": 24_000 * factor ** (1.5 if cell.point == "s" else 1)}
                    )
                    run.add_trial(
                        trial(
                            cell,
                            guest_id=guest,
                            block=block,
                            number=number,
                            position=position,
                            is_warmup=number < warmup,
                            values={} if failed else values,
                            status="failed" if failed else "ok",
                            error="iperf3: unable to connect to server" if failed else "",
                            warnings=(Note("clock-skew", inside=1.1, outside=1.0),)
                            if platform.name == "qemu-tcg" and number == warmup and block == 0
                            else (),
                        )
                    )
                    position += 1
            ready = {"native": 0.06, "docker": 0.3, "lxc": 0.09, "qemu-tcg": 3.4}[platform.name]
            notes = (Note("no-memory-controller"),) if platform.name == "lxc" else ()
            run.end_guest(
                guest,
                ready_s=ready * (1 + noise.random() / 10),
                clock_offset_s=0.0,
                facts={"kernel": "6.12.1"},
                notes=notes,
            )
    if finishes:
        run.finish("finished", Note("blocks-made", count=blocks, total=blocks), 1_700_000_300.0)


def put_store(file: Path, make: Callable[..., object], *arguments: Any) -> None:
    """Write the file of a store that `make(store, *arguments)` filled, which it does once a process."""
    file.write_bytes(_store_of(make, *arguments))


@cache
def _store_of(make: Callable[..., object], *arguments: Any) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "store.sqlite"
        with Store.open(file) as store:
            make(store, *arguments)
        return file.read_bytes()
