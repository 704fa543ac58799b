"""A run in memory of a shipped study, with every cell of its plan. Figures are invented."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from a_run import ARun, a_run

from vtax.image.image import Image
from vtax.platforms.base import Probe
from vtax.report.analysis.result import judged_run, shown
from vtax.report.analysis.source import Source
from vtax.runner.plan import PlannedCell, make_plan
from vtax.runner.records import cell_record, platform_record
from vtax.store.records import CellRecord, MetricRecord, PlatformRecord
from vtax.study.load import LoadedStudy, load
from vtax.study.model import Study

SPEED: Mapping[str, float] = {
    "native": 1.0,
    "docker": 0.99,
    "lxc": 1.0,
    "xen-pv": 0.93,
    "xen-dom0": 0.9,
    "xen-hvm": 0.4,
    "virtualbox": 0.6,
    "qemu-tcg-e1000": 0.3,
    "kvm-virtio": 0.85,
    "kvm-virtio-user": 0.8,
    "kvm-emulated": 0.5,
    "kvm-e1000": 0.45,
}
MARKS = {"qemu-tcg-e1000": ("emulated",), "virtualbox": ("nested",)}


@cache
def run_of(study: str, blocks: int = 5, without: tuple[str, ...] = (), hosts: int = 1) -> Source:
    """A finished run of a shipped study, made once a process.

    without: platforms that could not run. hosts: of so many sessions.
    """
    loaded = load(study)
    planned = plan_of(loaded, without)
    wanted = {
        (label, metric)
        for f in loaded.study.figure
        for label in f.benchmarks
        for metric in f.metrics
    }
    claimed = {
        metric for claim in loaded.study.claim for check in claim.check for metric in check.metrics
    }
    by_benchmark: dict[str, list[MetricRecord]] = {}
    for metric in planned.metrics:
        by_benchmark.setdefault(metric.benchmark, []).append(metric)
    random = np.random.default_rng(3)

    def values(cell: CellRecord, block: int, number: int) -> dict[str, float]:
        found = {}
        for metric in by_benchmark[cell.benchmark]:
            is_drawn = (cell.label, metric.name) in wanted
            if is_drawn or metric.is_primary or metric.name in claimed:
                noise = 0.02 * math.sin(block) + random.normal(0, 0.02)
                found[metric.name] = _value(cell, metric) * math.exp(noise)
        return found

    run = planned.run().of_hosts([str(n) for n in range(1, hosts + 1)]).with_guests()
    data = run.blocks(blocks).values(values).data()
    return Source(data, shown(data, judged_run(data)))


@dataclass(frozen=True)
class PlannedRun:
    """What a run of a study has before its first trial."""

    study: Study
    platforms: tuple[PlatformRecord, ...]
    cells: tuple[CellRecord, ...]
    metrics: tuple[MetricRecord, ...]
    metrics_of: Mapping[str, frozenset[str]]
    """Key of a cell -> names of the metrics that it has values of."""

    def run(self) -> ARun:
        """A run to be of it."""
        made = a_run(f"{self.study.name}-1").platforms(*self.platforms).cells(self.cells)
        return made.metrics(self.metrics).having(
            study=self.study.name, declared=self.study.declared()
        )


def plan_of(loaded: LoadedStudy, without: Collection[str] = ()) -> PlannedRun:
    """Return every cell of a study's plan. without: platforms that could not run."""
    probes = {
        name: Probe(name not in without, reason="not here", marks=MARKS.get(name, ()))
        for name in loaded.study.platforms
    }
    plan = make_plan(loaded, image=Image("key", Path("/nowhere")), probes=probes, dry=True)
    benchmarks = {point.benchmark.name: point.benchmark for point in plan.points}
    metrics = [
        MetricRecord(name, m.name, m.title, m.unit, m.better, m.primary, m.average)
        for name, benchmark in benchmarks.items()
        for m in benchmark.metrics
    ]
    return PlannedRun(
        loaded.study,
        tuple(platform_record(plan, number) for number in range(len(plan.platforms))),
        tuple(cell_record(cell) for cell in plan.cells),
        tuple(metrics),
        {cell.key: frozenset(_measured(cell)) for cell in plan.cells},
    )


def _measured(cell: PlannedCell) -> set[str]:
    """Names of the metrics of a cell; netperf has a rate or transactions, by its test."""
    names = {metric.name for metric in cell.point.metrics}
    if cell.point.benchmark.name != "netperf":
        return names
    is_stream = "stream" in cell.point.parameters.model_dump()["test"]
    return names - {"transactions" if is_stream else "throughput"}


def _value(cell: CellRecord, metric: MetricRecord) -> float:
    """Falls with the costs of the platform, rises with sizes."""
    size = math.prod(
        float(level) ** 0.3
        for name, level in cell.levels.items()
        if isinstance(level, int | float) and name not in ("threads", "files")
    )
    sizes = [
        level for level in cell.parameters.values() if isinstance(level, int) and level > 2**27 - 1
    ]
    size *= math.prod((level / 2**27) ** 0.9 for level in sizes)
    speed = SPEED.get(cell.platform, 0.7) * (0.95 if metric.name == "throughput" else 1.0)
    return 20 * size * speed if metric.better == "higher" else 20 * size / speed
