"""The host's CPU time for a unit of work beside the speed of the same trials: where it is, and whether less noisy."""

from __future__ import annotations

from vtax.benchmarks.base import CPU_PER_GIGABYTE, HOST_CPU_PER
from vtax.report.analysis.values import Analysis, ResultPoint, Row, Section

_QUIETER = 0.5  # of the noise: a quarter of the blocks


def cost_section(section: Section, analysis: Analysis) -> Section | None:
    """Return the metric of the host's CPU time that belongs to a primary one; None without one."""
    if not section.metric.is_primary:
        return None
    beside = [
        each for each in analysis.sections if (each.label, each.benchmark) == (section.label, section.benchmark)
    ]
    found = [each for each in beside if each.metric.name == CPU_PER_GIGABYTE.name] + [
        each for each in beside if each.metric.name.startswith(HOST_CPU_PER)
    ]
    return found[0] if found else None


def is_quieter(section: Section, point: ResultPoint, row: Row, analysis: Analysis) -> bool:
    """Return whether the ratio of the CPU time has at most half the noise of that of a row: a quarter of the
    blocks."""
    cost = cost_section(section, analysis)
    at = next((each for each in cost.points if each.key == point.key), None) if cost else None
    found = next((each.ratio for each in at.rows if each.platform.name == row.platform.name), None) if at else None
    return found is not None and row.ratio is not None and 0 < found.se_log <= _QUIETER * row.ratio.se_log
