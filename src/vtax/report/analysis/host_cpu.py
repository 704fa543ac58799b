"""The host's CPU time for a unit of work, which is an answer beside the speed of the same trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vtax.benchmarks.base import CPU_PER_GIGABYTE, HOST_CPU_PER
from vtax.report.analysis.values import Analysis, Section


def with_answers(sections: Sequence[Section]) -> tuple[Section, ...]:
    """Return sections in which those that answer are marked: primary metrics, and one cost of each benchmark table.

    The cost is that of the unit of work that the benchmark declares, or of a gigabyte where more points have that.
    """
    costs: dict[str, Section] = {}
    for section in sections:
        if not is_host_cpu(section) or section.metric.is_primary:
            continue
        cost = costs.get(section.label)
        if cost is None or _rank(section) > _rank(cost):
            costs[section.label] = section
    sections_marked = []
    for section in sections:
        is_answer = section.metric.is_primary or section is costs.get(section.label)
        sections_marked.append(replace(section, is_answer=is_answer))
    return tuple(sections_marked)


def is_host_cpu(section: Section) -> bool:
    """Return whether a section is of the host's CPU time for a unit of work."""
    name = section.metric.name
    return name == CPU_PER_GIGABYTE.name or name.startswith(HOST_CPU_PER)


def _rank(section: Section) -> tuple[int, bool]:
    """Return what the preferred one of several costs has most of."""
    return len(section.points), section.metric.name.startswith(HOST_CPU_PER)


def cost_section(section: Section, analysis: Analysis) -> Section | None:
    """Return the metric of the host's CPU time that belongs to a primary one; None without one."""
    if not section.metric.is_primary:
        return None
    return next((cost for cost in analysis.costs if cost.label == section.label), None)


def unit_of_work(section: Section) -> str:
    """Return `request` of a cost in `µs/request`."""
    return section.metric.unit.partition("/")[2]
