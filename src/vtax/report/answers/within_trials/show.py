"""Charts of what trials did inside: a metric over time, latencies by share of requests, and over the load."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from vtax.benchmarks.base import Tail
from vtax.benchmarks.registry import find_benchmark
from vtax.levels import number_of
from vtax.report import document as doc
from vtax.report.analysis import Analysis, Section
from vtax.report.analysis.source import Source
from vtax.report.analysis.tails import BEYOND, tail_of
from vtax.report.answers.within_trials.compute import Course, over_shares, over_time
from vtax.report.document import factors, joined, msg, plural, scale_for
from vtax.report.document.terms import unit_of
from vtax.report.parts import shared

_MOST_PANELS = 6
_LOG_FROM, _LOG_TO = 20.0, 1e6  # largest / smallest value, between which their axis is logarithmic
_LOG_LOADS_FROM = 10.0  # largest / smallest load, from which their axis is
_MOST_TICKS = 6
_SHARES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
Panel = tuple[doc.Inline, Sequence[Course]]


def parts_of(section: Section, source: Source) -> Iterator[doc.Part]:
    """Yield the charts of a metric; those of latencies with the first primary metric of a benchmark table."""
    analysis = source.analysis
    charts = [*_time_chart(section, source)]
    if section is next(
        candidate for candidate in analysis.primary if candidate.label == section.label
    ):
        tails_of_sections = [
            (candidate, tail_of(candidate.benchmark, candidate.metric.name))
            for candidate in analysis.sections
        ]
        tails = [
            (candidate, tail)
            for candidate, tail in tails_of_sections
            if tail is not None and candidate.label == section.label
        ]
        charts += [*_share_chart(section, tails, source), *_load_chart(section, tails, analysis)]
    yield from (doc.Titled(chart.title, (chart,), key=chart.key) for chart in charts)


def _time_chart(section: Section, source: Source) -> Iterator[doc.Chart]:
    """Yield a metric over the time within trials, a panel for every point."""
    panels = [
        (shared.levels(point), over_time(point, section.metric.name, source))
        for point in section.points
    ]
    last_s = max((max(course.values) for _, courses in panels for course in courses), default=0.0)
    note = msg(
        "Mean of all trials by the time since measuring began; the band is its {level} interval from blocks. A line "
        "ends where the shortest trial does.",
        level=source.analysis.level,
    )
    ticks = tuple(
        (at, doc.Number(at, len(f"{at:g}".replace(".", "").strip("0")) or 1))
        for at in _ticks(last_s)
    )
    yield from _chart(
        panels,
        section,
        source.analysis,
        key=f"time {section.name}",
        title=msg("{title} over time", title=shared.title_of(section)),
        axis="",
        note=note,
        x_title=msg("time since measuring began (s)"),
        x_labels=ticks,
    )


def _share_chart(
    section: Section, tails: Sequence[tuple[Section, Tail]], source: Source
) -> Iterator[doc.Chart]:
    """Yield the latencies of all requests by their share, a panel for every point and kind of request."""
    of_kinds = {tail.histogram: candidate for candidate, tail in tails}
    panels = [
        (
            joined([shared.levels(point), kind if len(of_kinds) > 1 else ""]),
            over_shares(point, kind, source),
        )
        for point in section.points
        for kind in of_kinds
    ]
    note = msg(
        "Latency that a share of all requests of a block does not exceed, geometric mean of the blocks; the band is "
        "its {level} interval. A line ends where fewer than {count} requests of a block are slower.",
        level=source.analysis.level,
        count=doc.Count(round(BEYOND)),
    )
    for tail_section in list(of_kinds.values())[:1]:
        yield from _chart(
            panels,
            tail_section,
            source.analysis,
            key=f"latency {section.label}",
            title=msg("{name}: latency by share of requests", name=section.label),
            axis=msg("latency"),
            note=note,
            x_title=msg("share of the requests"),
            log=("x",),
            x_labels=tuple(
                (round(1 / (1 - share)), doc.Share(share, "declared")) for share in _SHARES
            ),
        )


def _load_chart(
    section: Section, tails: Sequence[tuple[Section, Tail]], analysis: Analysis
) -> Iterator[doc.Chart]:
    """Yield the percentiles of latencies over the parameter that loads the benchmark, where it varies."""
    benchmark = find_benchmark(section.benchmark)
    for factor in benchmark.load if benchmark else ():
        numbers = {number_of(str(point.levels.get(factor, ""))) for point in section.points}
        loads = {number for number in numbers if number and number > 0}
        if len(loads) < 2:
            continue
        panels = [panel for tail_section, _ in tails for panel in _percentile(tail_section, factor)]
        note = msg("Mean of the blocks; the band is its {level} interval.", level=analysis.level)
        for tail_section, _ in tails[:1]:
            yield from _chart(
                panels,
                tail_section,
                analysis,
                key=f"load {section.label} {factor}",
                title=msg(
                    "{name}: latency over {load}",
                    name=section.label,
                    load=shared.factor_words(factor),
                ),
                axis=msg("latency"),
                note=note,
                x_title=shared.factor_words(factor),
                log=("x",) if max(loads) / min(loads) >= _LOG_LOADS_FROM else (),
                x_labels=tuple(
                    (load, shared.level_label(factor, f"{load:g}")) for load in sorted(loads)
                ),
            )


def _percentile(section: Section, factor: str) -> Iterator[Panel]:
    """Yield one percentile over a factor, for every combination of the other levels."""
    of_rest: dict[doc.Inline, dict[str, Course]] = {}
    for point in section.points:
        load = number_of(str(point.levels.get(factor, "")))
        other_levels = {name: level for name, level in point.levels.items() if name != factor}
        courses = of_rest.setdefault(factors(other_levels), {})
        for row in point.rows:
            if load and row.summary is not None and not row.is_withheld:
                low, high = (
                    bound if math.isfinite(bound) else None
                    for bound in (row.summary.low, row.summary.high)
                )
                course = courses.setdefault(row.platform.name, Course(row, {}))
                courses[row.platform.name] = Course(
                    row, {**course.values, load: (row.summary.mean, low, high)}
                )
    for name, courses in of_rest.items():
        yield (
            joined([shared.metric_of(section), name]),
            [course for course in courses.values() if len(course.values) > 1],
        )


def _chart(
    panels: Sequence[Panel],
    section: Section,
    analysis: Analysis,
    *,
    axis: doc.Inline,
    note: doc.Inline,
    **chart_options: Any,
) -> Iterator[doc.Chart]:
    """Yield the chart of panels that have a line, the first ones of many. section: with the unit."""
    drawn_panels = [(name, courses) for name, courses in panels if courses]
    left_out, drawn_panels = len(drawn_panels[_MOST_PANELS:]), drawn_panels[:_MOST_PANELS]
    if not drawn_panels:
        return
    values = []
    for _, courses in drawn_panels:
        for course in courses:
            values += [bounded[0] for bounded in course.values.values()]
    scale = scale_for(section.metric.unit, values)
    names = [platform.name for platform in analysis.platforms]
    colours = analysis.colours
    unit = unit_of(scale.unit)
    has_log = min(values) > 0 and _LOG_FROM <= max(values) / min(values) <= _LOG_TO
    notes = [note]
    if left_out:
        notes.append(
            plural(
                "{count} more point is not drawn.", "{count} more points are not drawn.", left_out
            )
        )
    yield doc.Chart(
        kind="lines",
        panels=tuple(
            doc.ChartPanel(name, joined([axis, unit]), "", "", scale) for name, _ in drawn_panels
        ),
        series=tuple(
            doc.ChartSeries(shared.platform_of(platform), colours[platform.name])
            for platform in analysis.platforms
        ),
        values=tuple(
            doc.ChartValue(number, x, names.index(course.row.platform.name), right=bounded)
            for number, (_, courses) in enumerate(drawn_panels)
            for course in courses
            for x, bounded in course.values.items()
        ),
        notes=tuple(notes),
        has_one_side=True,
        is_banded=True,
        **{**chart_options, "log": (*chart_options.get("log", ()), *(("y",) if has_log else ()))},
    )


def _ticks(end: float) -> list[float]:
    """Return round numbers from zero to the last one of an axis."""
    if end <= 0:
        return []
    power = 10.0 ** math.floor(math.log10(end))
    step = next(
        step
        for step in (power / 5, power / 2, power, 2 * power, 5 * power)
        if end / step < _MOST_TICKS
    )
    return [number * step for number in range(int(end / step) + 1)]
