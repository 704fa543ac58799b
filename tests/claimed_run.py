"""A run with claims in memory: two benchmarks at three sizes on three platforms. Figures are invented."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from a_run import a_run, platform

from vtax.messages import Note
from vtax.report.analysis import Analysis
from vtax.report.answers.claims.compute import JudgedClaim, claims
from vtax.store.records import CellRecord, PlatformRecord

PLATFORMS = (
    platform("native"),
    platform("near"),
    platform("far", "emulated"),
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
    labels = ("small", "bulk")
    run = a_run("study-1").platforms(*PLATFORMS).of_hosts(hosts).blocks(blocks)
    for label in labels:
        run = run.benchmark("tool", label, levels={"size": SIZES})
    run = run.metric("speed", unit).declared(
        design={"stop": "fixed", "blocks": blocks, **design},
        claim=[claim(**table) for table in tables],
        published=list(published),
        benchmark=[{"name": "tool", "label": label, "link": link or {}} for label in labels],
    )
    random = np.random.default_rng(5)
    shared = random.normal(0, 0.1, blocks)
    spread = {"native": noise, "near": noise, "far": 10 * noise}

    def speed(cell: CellRecord, block: int, number: int) -> float:
        own = noise if cell.label == "small" else spread[cell.platform]
        log = shared[block] + random.normal(0, own)
        host = hosts[block * len(hosts) // blocks]
        where = (cell.platform, cell.levels["size"], block)
        if lacks is not None and where[: len(lacks)] == lacks:
            return math.nan
        if cell.platform == "far":
            if host == far_absent_on:
                return math.nan
            log += math.log((far_on or {}).get(host, 1.0))
        return rate(cell.platform, cell.label, cell.levels["size"]) * math.exp(log)

    if other:
        run = run.warned("far-small-64", NOTES[other])
    return run.values(speed).analysis()


NOTES = {
    "packets-not-counted": Note("packets-not-counted", requested=1500, minimum=100),
    "few-transactions": Note("few-transactions", found=3, minimum=30),
    "host-cache": Note("host-cache", size="2 GiB", guest="1 GiB", host="8 GiB"),
    "clock-rate": Note("clock-rate", rate=1.1, error=0.001, margin=0.02),
    "clock-skew": Note("clock-skew", inside=1.1, outside=1.0),
    "packet-size": Note("packet-size", requested=64, found=1500, hop="eth0"),
    "undelayed": Note("undelayed", request=1, response=1, module="sch_netem"),
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
