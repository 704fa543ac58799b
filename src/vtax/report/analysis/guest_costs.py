"""Costs beside speed, weighed only by name: memory and start of a guest, CPU time and energy of the host."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtax.benchmarks.base import CPU_PER_GIGABYTE, ENERGY_PER, HOST_CPU_PER
from vtax.benchmarks.registry import resource_of
from vtax.report.analysis.values import Analysis, ResultPoint, Row, Section
from vtax.stats.checks import StatsError
from vtax.stats.describe import describe_blocks
from vtax.store.records import CellRecord, MetricRecord, PlatformRecord

MEMORY, START, CPU, ENERGY = "guest-memory", "guest-start", "host-cpu", "energy"
COSTS = (MEMORY, START, CPU, ENERGY)
_READY = MetricRecord("", "guest_ready", "time from the start of a guest to its agent", "s", "lower")
_OF_METRIC = {"memory_pss": MEMORY, _READY.name: START, CPU_PER_GIGABYTE.name: CPU}
"""Metric -> the cost that it is. memory_pss: of benchmarks with several guests, see runner.density."""
_OF_PREFIX = {HOST_CPU_PER: CPU, ENERGY_PER: ENERGY}
"""Beginning of a metric, of a unit of work -> the cost that it is."""


def _cost(metric: str) -> str | None:
    return _OF_METRIC.get(metric) or next((c for prefix, c in _OF_PREFIX.items() if metric.startswith(prefix)), None)


def weighs(section: Section) -> str:
    """Return the resource that a section's benchmark loads, or the cost that its metric is."""
    return _cost(section.metric.name) or resource_of(section.benchmark)


def costs(analysis: Analysis) -> Iterator[Section]:
    """Yield the sections of costs that a run has values of."""
    yield from (section for section in analysis.sections if _cost(section.metric.name))
    rows = tuple(row for platform in analysis.platforms if (row := _ready(analysis, platform)) is not None)
    if rows:
        yield Section("guests", "", "", _READY, (ResultPoint("", {}, rows),), 0)


def _ready(analysis: Analysis, platform: PlatformRecord) -> Row | None:
    """Mean time until a platform's guests of each block were ready; None where none was."""
    guests = [g for g in analysis.guests if g.platform == platform.name and g.ready_s and g.block >= 0]
    cell = CellRecord(f"{platform.name} guests", "guests", platform.name, "", "guests")
    blocks = np.array([guest.block for guest in guests], np.int64)
    values = np.array([guest.ready_s for guest in guests], np.float64)
    try:
        summary, labels, means, medians = describe_blocks(values, analysis.rule.confidence, blocks=blocks)
    except StatsError:
        return None
    return Row(cell, platform, summary, labels, means, 0, block_medians=medians)
