"""A study over its finished runs: one value with its interval from each, and the change points among them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Annotated, Literal

import numpy as np

from vtax.described import Means
from vtax.errors import BadInput, NotFound
from vtax.guest.audit import differences as guest_differences
from vtax.guest.audit import started_alike
from vtax.levels import METRIC, PLATFORM, Levels, unknown
from vtax.messages import Note
from vtax.question import Selection, group, rest
from vtax.report import document as doc
from vtax.report.analysis.compared import Cell, cells_of
from vtax.report.analysis.result import analyse
from vtax.report.analysis.values import Analysis, OfSection, Section
from vtax.report.answers.compare.run_differences import design_differences, differences
from vtax.report.document import msg
from vtax.stats.change_points import FEWEST, change_points_of
from vtax.store.provenance import part_identities
from vtax.store.query import Floats
from vtax.store.records import LEVELS, CellRecord, PlatformRecord
from vtax.store.store import Store

LEVEL = 0.05
"""Probability of a change point anywhere in a history in which nothing changed."""
Quantity = Literal["efficiency", "mean"]


@dataclass(frozen=True)
class MeasuredRun:
    """One run of a history."""

    name: Annotated[str, Means("name")]
    started_at: Annotated[float, Means("its start", is_time=True)]
    host: Annotated[str, Means("its machine id, shortened; empty when it is not known")]
    kernel: Annotated[str, Means("kernel of the host")]
    vtax_version: Annotated[str, Means("version of vtax that measured")]
    image_key: Annotated[str, Means("key of the image")]
    blocks: Annotated[int, Means("whole blocks")]
    sessions: Annotated[int, Means("sessions that have a trial")]


@dataclass(frozen=True)
class Measured:
    """A value of one run."""

    run: Annotated[MeasuredRun, Means("name of the run", take="name")]
    value: Annotated[float, Means("an efficiency, or in the metric's unit")]
    low: Annotated[
        float | None, Means("bounds of its own interval; null where the run allows none")
    ]
    high: Annotated[
        float | None, Means("bounds of its own interval; null where the run allows none")
    ]
    cell: CellRecord


@dataclass(frozen=True)
class HistoryChange:
    """A change point. index: of the first value after it. Means are geometric where all values are positive."""

    index: int
    last: Annotated[MeasuredRun, Means("the run before it", take="name")]
    first: Annotated[MeasuredRun, Means("the run from which on values differ", take="name")]
    p_value: Annotated[float, Means("of its test alone")]
    before: Annotated[float, Means("mean of the values from the change point before it")]
    after: Annotated[float, Means("mean of the values to the next one")]
    differences: Annotated[
        tuple[doc.Inline, ...], Means("what the two runs do not have in common")
    ] = ()
    warnings: Annotated[tuple[str, ...], Means("what its test takes for granted")] = ()


@dataclass(frozen=True)
class Series:
    """One platform at one point, in the order of time."""

    platform: Annotated[PlatformRecord, Means("platform", take="name")]
    colour: int
    measured: Annotated[
        tuple[Measured, ...], Means("a value of each run that has one", name="values")
    ]
    changes: Annotated[tuple[HistoryChange, ...], Means("change points", name="change_points")] = ()


@dataclass(frozen=True)
class Plot(OfSection):
    """One metric at one point, of runs that measured the same. section: of the newest run, which names it."""

    section: Section
    levels: Annotated[Levels, LEVELS]
    baseline: Annotated[str, Means("platform that is 100 %")]
    quantity: Quantity
    series: Annotated[tuple[Series, ...], Means("one for each platform")]
    differences: Annotated[
        tuple[doc.Inline, ...],
        Means(
            "how it differs from the newest runs of this point, which measure something else; empty for these",
            name="design_differences",
        ),
    ] = ()


@dataclass(frozen=True)
class History:
    """The results of a study over time."""

    study: Annotated[str, Means("name of the study")]
    quantity: Annotated[
        Quantity,
        Means("of values: `efficiency`, or `mean` in the unit of the metric", name="value"),
    ]
    confidence: Annotated[float, Means("confidence level of intervals")]
    runs: Annotated[tuple[MeasuredRun, ...], Means("the finished runs in the order of time")]
    plots: Annotated[tuple[Plot, ...], Means("one for every metric at a point, in one design")]
    unfinished: Annotated[tuple[str, ...], Means("names of runs left out")]
    merged: Annotated[
        tuple[str, ...],
        Means("names of runs left out, since those that they were merged from are here"),
    ]
    tested: Annotated[int, Means("series with values enough for a change point")]
    level: Annotated[float, Means("probability of any change point where nothing changed")] = LEVEL


@dataclass
class _Design:
    """Values of one design at one place, of several runs. first: a cell of the first of them. newest: of the last one."""

    first: Cell
    newest: Cell
    found: dict[str, tuple[PlatformRecord, list[Measured]]]


def history(
    store: Store,
    study: str,
    *,
    metric: str = "",
    platforms: Collection[str] = (),
    since: float = 0.0,
    quantity: Quantity = "efficiency",
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> History:
    """Return the history of a study in a store.

    metric: this one, or every primary one. platforms: these, or all. since: Unix time of the oldest start.
    watch(done, total): after every run that was read. Raises BadInput for unknown names and when nothing is left.
    """
    study_runs = [run for run in store.runs() if run.study == study]
    if not study_runs:
        studies = sorted({run.study for run in store.runs()})
        near = get_close_matches(study, studies, n=3, cutoff=0.5) or studies
        raise NotFound(
            f"no run of a study {study!r} is stored", hint=f"studies with runs: {', '.join(near)}"
        )
    finished = [
        run.name for run in study_runs if run.status == "finished" and run.started_at >= since
    ]
    merged = _merged(store, finished)
    names = [name for name in finished if name not in merged]
    if not names:
        sentence_end = "has no finished run" if since == 0.0 else "has no finished run since then"
        raise BadInput(f"{study} {sentence_end}", hint="see what there is: vtax list")
    designs: dict[tuple[object, ...], list[_Design]] = {}
    chosen_levels = {METRIC: (metric,) if metric else (), PLATFORM: tuple(platforms)}
    only = Selection({name: levels for name, levels in chosen_levels.items() if levels})
    runs, confidence, order = [], 0.0, [""]
    metrics, all_platforms = set[str](), set[str]()
    for count, name in enumerate(names, 1):
        analysis = analyse(store, name)
        watch(count, len(names))
        runs.append(_run(analysis))
        confidence = max(confidence, analysis.rule.confidence)
        order += [p.name for p in analysis.platforms if p.name not in order and not p.is_baseline]
        metrics |= {section.metric.name for section in analysis.sections}
        all_platforms |= {platform.name for platform in analysis.platforms}
        _add(designs, analysis, runs[-1], only, quantity)
    if metric and metric not in metrics:
        raise unknown("metric", metric, sorted(metrics), "--metric", study)
    for platform in platforms:
        if platform not in all_platforms:
            raise unknown("platform", platform, sorted(all_platforms), "--platform", study)
    plots = _with_changes(store, [*_plots(designs, order, quantity)])
    tested_count = sum(_has_enough(series) for plot in plots for series in plot.series)
    unfinished = tuple(
        run.name for run in study_runs if run.status != "finished" and run.started_at >= since
    )
    return History(
        study, quantity, confidence, tuple(runs), plots, unfinished, merged, tested_count
    )


def _has_enough(series: Series) -> bool:
    return len(series.measured) >= FEWEST


def _merged(store: Store, names: Iterable[str]) -> tuple[str, ...]:
    """Those that were merged from runs that are among the names too: they would count twice."""
    opened = {name: store.open_run(name) for name in names}
    identities = {run.identity for run in opened.values()}
    names = []
    for name, run in opened.items():
        parts = part_identities(run.provenance)
        if parts and parts <= identities:
            names.append(name)
    return tuple(names)


def _run(analysis: Analysis) -> MeasuredRun:
    host = analysis.host
    return MeasuredRun(
        analysis.name,
        analysis.started_at,
        str(host.get("machine_id", ""))[:8],
        str(host.get("kernel", "")),
        analysis.vtax_version,
        analysis.image_key,
        analysis.blocks,
        len(analysis.sessions),
    )


def _add(
    designs: dict[tuple[object, ...], list[_Design]],
    analysis: Analysis,
    run: MeasuredRun,
    only: Selection,
    quantity: Quantity,
) -> None:
    """Add what a run measured to the design that it belongs to, or to a new one."""
    names_metric = METRIC in only.choices
    cells = [
        cell
        for cell in cells_of(analysis)
        if only.selects(cell.levels) and (names_metric or cell.section.metric.is_primary)
    ]
    for place, of_place in group(cells, rest(PLATFORM)).items():
        values = [(cell, _measured(cell, run, quantity)) for cell in of_place]
        cell_values = [(cell, value) for cell, value in values if value is not None]
        if not cell_values:
            continue
        lead = cell_values[0][0]
        key = place, lead.section.benchmark, lead.section.metric.unit
        design = _design_of(designs.setdefault(key, []), lead)
        for cell, value in cell_values:
            platform = cell.row.platform
            design.found.setdefault(platform.name, (platform, []))[1].append(value)


def _design_of(designs: list[_Design], cell: Cell) -> _Design:
    for design in designs:
        if not _unlike(design.first, cell):
            design.newest = cell
            return design
    designs.append(_Design(cell, cell, {}))
    return designs[-1]


def _unlike(cell: Cell, other_cell: Cell) -> list[doc.Inline]:
    return design_differences(cell.run, other_cell.run, (cell.row.cell, other_cell.row.cell))


def _measured(cell: Cell, run: MeasuredRun, quantity: Quantity) -> Measured | None:
    row = cell.row
    if quantity == "efficiency":
        if row.ratio is None:
            return None
        efficiency = row.ratio.efficiency(cell.section.better)
        value, low, high = efficiency.estimate, efficiency.low, efficiency.high
        is_bounded = low > 0 and bool(np.isfinite(high))
    elif row.summary is None:
        return None
    else:
        value, low, high = row.summary.mean, row.summary.low, row.summary.high
        is_bounded = bool(np.isfinite([low, high]).all())
    return Measured(run, value, low if is_bounded else None, high if is_bounded else None, row.cell)


def _plots(
    designs: Mapping[tuple[object, ...], list[_Design]], order: Sequence[str], quantity: Quantity
) -> Iterator[Plot]:
    for of_point in designs.values():
        newest = max(of_point, key=_last)
        for design in sorted(of_point, key=_last, reverse=True):
            series = tuple(
                Series(platform, order.index(name) if name in order else 0, tuple(values))
                for name, (platform, values) in sorted(
                    design.found.items(),
                    key=lambda platform_and_values: (
                        order.index(platform_and_values[0])
                        if platform_and_values[0] in order
                        else 0
                    ),
                )
            )
            unlike: list[doc.Inline] = []
            if design is not newest:
                unlike = _unlike(design.first, newest.first)
            yield Plot(
                design.newest.section,
                Levels(design.newest.row.cell.levels),
                design.first.run.baseline,
                quantity,
                series,
                tuple(unlike),
            )


def _last(design: _Design) -> float:
    return max(values[-1].run.started_at for _, values in design.found.values())


def _with_changes(store: Store, plots: list[Plot]) -> tuple[Plot, ...]:
    """All plots, tested as one family."""
    series = [plot_series for plot in plots for plot_series in plot.series]
    testable = [plot_series for plot_series in series if _has_enough(plot_series)]
    points = change_points_of([_tested(plot_series) for plot_series in testable], LEVEL)
    points_of_series = dict(zip(map(id, testable), points, strict=True))
    read: dict[str, Analysis] = {}

    def analysis_of(name: str) -> Analysis:
        if name not in read:
            read[name] = analyse(store, name)
        return read[name]

    result = []
    for plot in plots:
        changed = []
        for plot_series in plot.series:
            indexes = [point.index for point in points_of_series.get(id(plot_series), ())]
            edges = [0, *indexes, len(plot_series.measured)]
            changes = []
            for number, point in enumerate(points_of_series.get(id(plot_series), ())):
                before, after = (
                    plot_series.measured[point.index - 1],
                    plot_series.measured[point.index],
                )
                runs = analysis_of(before.run.name), analysis_of(after.run.name)
                changes.append(
                    HistoryChange(
                        point.index,
                        before.run,
                        after.run,
                        point.p_value,
                        _mean(plot_series, edges[number], edges[number + 1]),
                        _mean(plot_series, edges[number + 1], edges[number + 2]),
                        tuple(_between(*runs, before.cell, after.cell)),
                        () if point.is_sure else (Note("assumes-independent-runs"),),
                    )
                )
            changed.append(replace(plot_series, changes=tuple(changes)))
        result.append(replace(plot, series=tuple(changed)))
    return tuple(result)


def _tested(series: Series) -> Floats:
    """Logarithms, of values that all have one."""
    values = np.array([value.value for value in series.measured])
    return np.log(values) if (values > 0).all() else values


def _mean(series: Series, start: int, end: int) -> float:
    values = np.array([value.value for value in series.measured])
    if (values > 0).all():
        return float(np.exp(np.log(values[start:end]).mean()))
    return float(values[start:end].mean())


def _between(
    before: Analysis, after: Analysis, old: CellRecord, new: CellRecord
) -> Iterator[doc.Inline]:
    """Yield what differs between runs: host, image, versions, settings; then the facts of the platform's guests."""
    yield from differences(before, after, {new.platform, after.baseline}, [(old, new)], ())
    audits = [
        started_alike(
            (g.platform, g.facts) for g in run.guests if g.platform == new.platform and g.facts
        )
        for run in (before, after)
    ]
    for start in audits[0].keys() & audits[1].keys():
        first = [audit[start][new.platform][0] for audit in audits]
        for difference in guest_differences(dict(zip(("before", "after"), first, strict=True))):
            yield msg(
                "guests differ in {fact}: {before} and {after}",
                fact=difference.field,
                before=difference.values["before"],
                after=difference.values["after"],
            )
        return
