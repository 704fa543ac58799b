"""The host's CPU time for a unit of work beside the speed of the same trials."""

from __future__ import annotations

from vtax.benchmarks.base import CPU_PER_GIGABYTE, HOST_CPU_PER
from vtax.report.analysis.values import Analysis, Section


def cost_section(section: Section, analysis: Analysis) -> Section | None:
    """Return the metric of the host's CPU time that belongs to a primary one; None without one."""
    if not section.metric.is_primary:
        return None
    beside = [
        each
        for each in analysis.sections
        if (each.label, each.benchmark) == (section.label, section.benchmark)
    ]
    found = [each for each in beside if each.metric.name == CPU_PER_GIGABYTE.name] + [
        each for each in beside if each.metric.name.startswith(HOST_CPU_PER)
    ]
    return found[0] if found else None
