"""What a guest costs beside its speed: its memory and the time until it is ready. They are weighed only by name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtax.benchmarks.registry import resource_of
from vtax.report.analysis.values import Analysis, ResultPoint, Row, Section
from vtax.stats.checks import StatsError
from vtax.stats.describe import describe_blocks
from vtax.store.records import CellRecord, MetricRecord, PlatformRecord

MEMORY, START = "guest-memory", "guest-start"
COSTS = (MEMORY, START)
_READY = MetricRecord("", "guest_ready", "time from the start of a guest to its agent", "s", "lower")
_OF_METRIC = {"memory_pss": MEMORY, _READY.name: START}
"""Metric -> the cost that it is. memory_pss: of benchmarks with several guests, see runner.density."""


def weighs(section: Section) -> str:
    """Return the resource that a section's benchmark loads, or the cost that its metric is."""
    return _OF_METRIC.get(section.metric.name) or resource_of(section.benchmark)


def costs(analysis: Analysis) -> Iterator[Section]:
    """Yield the sections of costs that a run has values of."""
    yield from (section for section in analysis.sections if _OF_METRIC.get(section.metric.name) == MEMORY)
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
