"""What a plan is in the store: platforms, cells, and the points that have no cell."""

from __future__ import annotations

from vtax.platforms.base import Probe
from vtax.runner.plan import Cell, Plan, Untested
from vtax.store.records import CellRecord, PlatformRecord, UntestedRecord


def platform_record(plan: Plan, index: int, probe: Probe | None = None) -> PlatformRecord:
    """A platform of a plan, by its number. probe: in place of the plan's."""
    planned = plan.platforms[index]
    probe = probe or planned.probe
    return PlatformRecord(
        name=planned.platform.name,
        identity=planned.platform.identity(),
        available=probe.available,
        reason=probe.reason,
        hint=probe.hint,
        marks=probe.marks,
        version=probe.version,
        is_baseline=planned.platform.name == plan.study.baseline,
    )


def untested_record(each: Untested) -> UntestedRecord:
    """A point that a platform cannot carry."""
    point = each.point
    return UntestedRecord(
        platform=each.platform.name,
        point=point.key,
        benchmark=point.benchmark.name,
        label=point.label,
        topology=point.topology,
        levels=dict(point.levels),
        reason=each.error.what,
        hint=each.error.hint,
    )


def cell_record(cell: Cell) -> CellRecord:
    """A cell; the version of its tool is not known yet."""
    point = cell.point
    return CellRecord(
        key=cell.key,
        point=point.key,
        platform=cell.platform.name,
        benchmark=point.benchmark.name,
        label=point.label,
        tool_version="",
        topology=point.topology,
        parameters=point.parameters.model_dump(mode="json"),
        link=point.link.model_dump(mode="json") if point.link else {},
        levels=dict(point.levels),
        tool=point.benchmark.tool,
    )
