"""Records of a plan for the store: platforms, cells, metrics, points without a cell, plug-ins, and trials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

from vtax.benchmarks import registry as benchmarks
from vtax.benchmarks.base import Outcome
from vtax.host.plugins import Origin
from vtax.network import registry as topologies
from vtax.platforms import registry as platforms
from vtax.platforms.base import Probe
from vtax.runner.check import resolve_platform
from vtax.runner.plan import Plan, PlannedCell, PlannedTrial, Untested
from vtax.runner.trial import TrialResult
from vtax.store.records import (
    LISTS,
    CellRecord,
    MetricRecord,
    OutputRecord,
    PlatformRecord,
    PluginRecord,
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


def untested_record(untested: Untested) -> UntestedRecord:
    """Return a point that a platform cannot carry."""
    point = untested.point
    return UntestedRecord(
        platform=untested.platform.name,
        point=point.key,
        benchmark=point.benchmark.name,
        label=point.label,
        topology=point.topology,
        levels=dict(point.levels),
        reason=untested.error.what,
        hint=untested.error.hint,
    )


def metric_records(plan: Plan) -> list[MetricRecord]:
    """Return every metric of a plan's benchmarks once."""
    records = {}
    for point in plan.points:
        for metric in point.metrics:
            records[point.benchmark.name, metric.name] = MetricRecord(
                benchmark=point.benchmark.name,
                name=metric.name,
                title=metric.title,
                unit=metric.unit,
                better=metric.better,
                role=metric.effective_role,
                is_primary=metric.primary,
                average=metric.average,
                fixed_work=metric.fixed_work,
            )
    return list(records.values())


def plugin_records(plan: Plan, views: Mapping[str, Origin]) -> tuple[PluginRecord, ...]:
    """Return the plug-ins that a plan uses and vtax does not ship, in the order of their kinds.

    Platforms come first, then benchmarks, topologies and views.

    views: those that are used.
    """
    drivers = [entry.platform.driver.name for entry in plan.platforms]
    used_topologies = []
    for point in plan.points:
        if point.link:
            used_topologies.append(point.topology)
        for name in point.machines.values():
            drivers.append(resolve_platform(plan.study, name, plan.source).driver.name)
    used_benchmarks = [point.benchmark.name for point in plan.points]
    return (
        *_foreign_records("platform", drivers, platforms.foreign()),
        *_foreign_records("benchmark", used_benchmarks, benchmarks.foreign()),
        *_foreign_records("topology", used_topologies, topologies.foreign()),
        *_foreign_records("view", views, views),
    )


def _foreign_records(
    kind: str, used: Iterable[str], foreign: Mapping[str, Origin]
) -> Iterator[PluginRecord]:
    for name in dict.fromkeys(used):
        if name in foreign:
            yield PluginRecord(kind, name, **asdict(foreign[name]))


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
        parameters=point.stored_parameters,
        link=point.link.model_dump(mode="json") if point.link else {},
        levels=dict(point.levels),
        tool=point.benchmark.tool,
    )


def trial_record(
    trial: PlannedTrial, position: int, guest_id: int | None, result: TrialResult
) -> TrialRecord:
    """Return the record of a trial.

    position: in the whole run.
    guest_id: of its guest in the store.
    """
    foreground = result.foreground
    outcome = Outcome({}) if result.error else result.outcome
    steps = {name: [step] for name, step in outcome.resolutions.items()}
    effective = dict(result.outcome.effective)
    for key, lists in zip(LISTS, (outcome.samples, outcome.histograms, steps), strict=True):
        if lists:
            effective[key] = {name: list(values) for name, values in lists.items()}
    return TrialRecord(
        cell_key=trial.cell.key,
        guest_id=guest_id,
        block=trial.block,
        number=trial.number,
        position=position,
        is_warmup=trial.is_warmup,
        status="failed" if result.error else "ok",
        started_at=result.started_at,
        outside_s=foreground.outside_s if foreground else None,
        inside_s=foreground.inside_s if foreground else None,
        effective=effective,
        error=result.error,
        outputs=tuple(_outputs(result)),
        values=dict(outcome.values),
        counters=dict(result.counters),
        warnings=result.warnings,
    )


def _outputs(result: TrialResult) -> Iterator[OutputRecord]:
    """Yield outputs of a trial's programs, and the traceback of an unexpected exception."""
    for role, output in result.results.items():
        yield OutputRecord(role, output.argv, output.status, output.stdout, output.stderr)
    if result.traceback:
        yield OutputRecord("traceback", ("vtax",), 1, "", result.traceback)
