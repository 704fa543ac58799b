"""Records of a plan: platforms, cells, the points that have no cell, and trials."""

from __future__ import annotations

from collections.abc import Iterator

from vtax.benchmarks.base import Outcome
from vtax.platforms.base import Probe
from vtax.runner.plan import Plan, PlannedCell, Untested
from vtax.runner.trial import TrialResult
from vtax.store.records import (
    LISTS,
    CellRecord,
    OutputRecord,
    PlatformRecord,
    TrialRecord,
    UntestedRecord,
)


def platform_record(plan: Plan, index: int, probe: Probe | None = None) -> PlatformRecord:
    """Return a platform of a plan, by its number. probe: in place of the plan's."""
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
    """Return a point that a platform cannot carry."""
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


def cell_record(cell: PlannedCell) -> CellRecord:
    """Return a cell; the version of its tool is not known yet."""
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


def trial_record(
    cell: PlannedCell,
    block: int,
    number: int,
    position: int,
    is_warmup: bool,
    guest_id: int | None,
    result: TrialResult,
) -> TrialRecord:
    """Return the record of a trial. position: in the whole run."""
    foreground = result.foreground
    outcome = Outcome({}) if result.error else result.outcome
    steps = {name: [step] for name, step in outcome.resolutions.items()}
    of_trial = zip(LISTS, (outcome.samples, outcome.histograms, steps), strict=True)
    lists = {key: {name: list(values) for name, values in found.items()} for key, found in of_trial}
    return TrialRecord(
        cell_key=cell.key,
        guest_id=guest_id,
        block=block,
        number=number,
        position=position,
        is_warmup=is_warmup,
        status="failed" if result.error else "ok",
        started_at=result.started_at,
        outside_s=foreground.outside_s if foreground else None,
        inside_s=foreground.inside_s if foreground else None,
        effective={
            **result.outcome.effective,
            **{name: value for name, value in lists.items() if value},
        },
        error=result.error,
        outputs=tuple(_outputs(result)),
        values={} if result.error else dict(result.outcome.values),
        counters=dict(result.counters),
        warnings=result.warnings,
    )


def _outputs(result: TrialResult) -> Iterator[OutputRecord]:
    """Yield outputs of a trial's programs, and the traceback of an unexpected exception."""
    for role, r in result.results.items():
        yield OutputRecord(role, r.argv, r.status, r.stdout, r.stderr)
    if result.traceback:
        yield OutputRecord("traceback", ("vtax",), 1, "", result.traceback)
