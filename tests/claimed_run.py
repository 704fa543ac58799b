"""A run with claims in memory: two benchmarks at three sizes on three platforms. Figures are invented."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import synthetic_run
from memory_run import data_of, run_of

from vtax.messages import Note
from vtax.report.analysis import Analysis, analyse_data
from vtax.report.analysis.claims import JudgedClaim, claims
from vtax.store.query import WarningRow
from vtax.store.records import CellRecord, MetricRecord, PlatformRecord, SessionRecord

PLATFORMS = (
    PlatformRecord("native", {}, True, is_baseline=True),
    PlatformRecord("near", {}, True),
    PlatformRecord("far", {}, True, marks=("emulated",)),
    PlatformRecord("gone", {}, False, reason="this host has no hypervisor", hint="boot one"),
)
SIZES = (64, 256, 1024)
FAR = {64: 0.3, 256: 0.5, 1024: 0.7}


def rate(platform: str, benchmark: str, size: int) -> float:
    """Native rises with size; near is like native; far gains on it with size. Bulk work costs far nothing."""
    own = {"native": 1.0, "near": 1.0, "far": FAR[size] if benchmark == "small" else 0.99}[platform]
    return 100.0 * math.sqrt(size) * own


def measured(
    *tables: dict[str, Any],
    published: tuple[dict[str, Any], ...] = (),
    blocks: int = 10,
    noise: float = 0.01,
    lacks: tuple[Any, ...] | None = None,
    hosts: str = "a",
    far_on: dict[str, float] | None = None,
    unit: str = "1/s",
    link: dict[str, float] | None = None,
    other: str = "",
    far_absent_on: str = "",
    **design: Any,
) -> Analysis:
    """A run of two benchmarks at three sizes on three platforms. lacks: platform and size without any value, or
    with a block in which alone it has none. hosts: a
    letter for the host of each session, which have as many blocks each. far_on: host -> factor of far on it. unit: of
    the metric. link: settings of both benchmarks' links. other: code of a warning
    of one cell, far's small ones of 64. far_absent_on: a host without far."""
    random = np.random.default_rng(5)
    cells = [
        CellRecord(f"{p.name}-{b}-{s}", f"{b}{s}", p.name, "tool", b, levels={"size": s})
        for p in PLATFORMS
        if p.available
        for b in ("small", "bulk")
        for s in SIZES
    ]
    run = run_of(
        platforms=PLATFORMS,
        cells=cells,
        metrics=[MetricRecord("tool", "speed", "speed", unit, "higher", True)],
        sessions=tuple(
            SessionRecord(n, "", {"machine_id": host}, 0.0) for n, host in enumerate(hosts, 1)
        ),
        declared={
            **synthetic_run.DECLARED,
            "design": {"stop": "fixed", "blocks": blocks, **design},
            "claim": [claim(**table) for table in tables],
            "published": list(published),
            "benchmark": [
                {"name": "tool", "label": label, "link": link or {}} for label in ("small", "bulk")
            ],
        },
    )
    order = [(b, c) for b in range(blocks) for c in range(len(cells))]
    shared = random.normal(0, 0.1, blocks)
    spread = {"native": noise, "near": noise, "far": 10 * noise}
    values = np.array(
        [
            rate(cells[c].platform, cells[c].label, int(cells[c].levels["size"]))
            * math.exp(
                shared[b]
                + random.normal(
                    0, noise if cells[c].label == "small" else spread[cells[c].platform]
                )
            )
            for b, c in order
        ]
    )
    session = np.array([b * len(hosts) // blocks for b, _ in order])
    values *= [
        (far_on or {}).get(hosts[s], 1.0) if cells[c].platform == "far" else 1.0
        for s, (_, c) in zip(session.tolist(), order, strict=True)
    ]
    absent = [
        hosts[s] == far_absent_on and cells[c].platform == "far"
        for s, (_, c) in zip(session, order, strict=True)
    ]
    values[np.array(absent)] = np.nan
    if lacks is not None:
        gone = [
            (cells[c].platform, cells[c].levels["size"], b)[: len(lacks)] == lacks for b, c in order
        ]
        values[np.array(gone)] = np.nan
    warned = [
        n
        for n, c in enumerate(cells)
        if other and (c.platform, c.label, c.levels["size"]) == ("far", "small", 64)
    ]
    warnings = tuple(WarningRow(NOTES[other], n, 1) for n in warned)
    return analyse_data(data_of(run, order, values, session=session + 1, warnings=warnings))


NOTES = {
    "packets-not-counted": Note("packets-not-counted", requested=1500, minimum=100),
    "few-transactions": Note("few-transactions", found=3, minimum=30),
    "host-cache": Note("host-cache", size="2 GiB", guest="1 GiB", host="8 GiB"),
    "clock-rate": Note("clock-rate", rate=1.1, error=0.001, margin=0.02),
    "clock-skew": Note("clock-skew", inside=1.1, outside=1.0),
    "packet-size": Note("packet-size", requested=64, found=1500, hop="eth0"),
    "not-a-wire": Note("not-a-wire", found=9.0, request=1, response=1, rate=1, limit=2.0),
}


def claim(**changes: Any) -> dict[str, Any]:
    given = {"id": "one", "statement": "It holds.", "statement_pt": "Vale.", "source": "table 1"}
    return {**given, **changes}


def judged(
    *checks: dict[str, Any], mapped: dict[str, str] | None = None, **run: Any
) -> JudgedClaim:
    (found,) = claims(measured({"check": list(checks)}, **run), mapped).claims
    return found
