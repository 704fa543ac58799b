"""Result of a run: the answer for each platform, and a table and figures for every metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal

from vtax.messages import Note
from vtax.report import document as doc
from vtax.report.analysis import Analysis, ResultPoint, Row, Section, every_row
from vtax.report.analysis.host_cpu import cost_section
from vtax.report.analysis.next_step import next_step_of
from vtax.report.analysis.source import Source
from vtax.report.analysis.warnings import STATISTICS
from vtax.report.answers.capacity.show import capacity_lines
from vtax.report.answers.figures.compute import has_means
from vtax.report.answers.hosts.fleet import fleet_of
from vtax.report.answers.hosts.show_summary import fleet_answer
from vtax.report.answers.ladder import view as ladder
from vtax.report.answers.ladder.compute import ladders
from vtax.report.answers.ladder.orders import both_orders
from vtax.report.answers.result.show_notes import further_statistics, notes_under
from vtax.report.answers.within_trials import show as within_trials
from vtax.report.document import (
    joined,
    levels_of,
    listed,
    msg,
    muted,
    plural,
    scale_for,
    styled,
)
from vtax.report.parts import shared
from vtax.report.parts.figures import figures_of, forest, order
from vtax.report.parts.first_screen import (
    also_differs_line,
    answer_line,
    caution_line,
    left_early_line,
    next_line,
)
from vtax.report.parts.header import changed_line, header_of
from vtax.report.parts.result_table import result_table
from vtax.report.parts.sentences import is_measured, leaning_of
from vtax.report.views.base import Options, View, register_view
from vtax.store.records import PlatformRecord, UntestedRecord

_MOST_NAMED = 4
_MOST_POINTS = 8  # of a matrix, beyond which a terminal shows the answer below it
_MOST_COLUMNS = 6  # of a terminal's matrix
_MOST_CELLS = 50  # of it, unless everything is wanted
_FEW_LADDERS = 2  # whose tables stand in the answer
_OF_TIME = frozenset(
    {"drift", "drift-of-cells", "drift-of-cells-between", "host-busy", "host-steal"}
)
"""Warnings of what changes while a run goes on."""
_MOST_FURTHER = 40  # rows of metrics that do not answer, of a report
_FEW_ROWS = 12  # of all tables together, which a terminal shows beside the answer


def document(source: Source, options: Options) -> doc.Document:
    """Return the result of a run: on a terminal the answer, and tables where they are few, or of what a filter names.

    Where everything is wanted, every metric and every figure of a cell.
    """
    analysis = source.analysis
    title, lead = header_of(analysis)
    parts: list[doc.Part] = [*_summary(source, options, title)]
    fleet = source.of_whole(fleet_of)
    if fleet is None or not fleet.planned_change:  # else two states would be pooled
        parts += [*_results(source, options), *_rest(analysis, options)]
    if options.depth != "report" and is_measured(analysis):  # the question heads the answer
        title, lead = lead[0], (*lead[1:], *changed_line(analysis))
    return doc.Document(
        title,
        tuple(parts),
        lead,
        colours=analysis.colours,
    )


def _summary(source: Source, options: Options, question: doc.Inline) -> Iterator[doc.Titled]:
    """Yield what a reader should see first: answer, matrix, what was not tested, cautions, what to do next.

    question: heads it on a terminal."""
    parts: list[doc.Part] = []
    analysis, fleet = source.analysis, source.of_whole(fleet_of)
    is_report = options.depth == "report"
    if fleet is not None and is_measured(analysis):
        if not fleet.planned_change:
            parts += overview(analysis) if is_report else _matrix(analysis, options)
        answer = list(fleet_answer(fleet, analysis))
        parts = [*answer, *parts] if is_report else [*parts, *answer]
    elif is_measured(analysis):
        matrix = list(overview(analysis) if is_report else _matrix(analysis, options))
        points = sum(len(section.points) for section in analysis.primary)
        is_tall = not is_report and points > _MOST_POINTS
        answer = list(answer_line(analysis))
        parts += [*matrix, *answer] if is_tall else [*answer, *matrix]  # a window shows the end
        parts = _ladder_lines(analysis) or parts
        parts = [*capacity_lines(analysis), *parts]
        parts += [*left_early_line(analysis), *also_differs_line(analysis)]
    parts += _not_tested(analysis, options)
    if is_measured(analysis):
        parts += caution_line(analysis)
        if fleet is None:  # blocks of hosts that were measured decide nothing of others
            parts += next_line(analysis, next_step_of(analysis))
    if parts:
        yield doc.Titled(
            msg("Summary") if is_report else question, tuple(parts), key="answer", role="summary"
        )


def _ladder_lines(analysis: Analysis) -> list[doc.Part]:
    """Return what the cost of the highest rung is made of, and what to choose, or what mechanisms cost in both orders;
    nothing where the study has neither."""
    ladders_of_run, orders = ladders(analysis), both_orders(analysis)
    sentences = (
        *ladder.sentences(ladders_of_run, analysis),
        *ladder.order_sentences(orders, analysis),
    )
    if not sentences:
        return []
    parts: list[doc.Part] = [doc.Bullets(sentences)]
    advice = tuple(ladder.advice(ladders_of_run))
    if advice:
        parts.append(doc.Titled(msg("What to choose"), (doc.Bullets(advice),)))
    if len(ladders_of_run) <= _FEW_LADDERS:
        parts += [ladder.section(ladder_of_point, analysis) for ladder_of_point in ladders_of_run]
    else:
        line = msg("vtax show {run} --ladder: the table of every ladder", run=analysis.name)
        parts.append(doc.Paragraph(line, "muted"))
    return parts


def _not_tested(analysis: Analysis, options: Options) -> Iterator[doc.Titled]:
    """Yield what was not tested, and targets that were missed."""
    is_brief = options.depth == "brief" and is_measured(analysis)
    items = []
    for platform in analysis.platforms:
        if not platform.available:  # hints are in the plan, and in vtax doctor
            hint = "" if is_brief and platform.reason else platform.hint
            items.append(joined([platform.name, _why(platform.reason, hint)], ": "))
    items += _untested_points(analysis)
    if items:
        yield doc.Titled(msg("Not tested"), (doc.Bullets(tuple(items)),), key="not-tested")
    if analysis.missed_targets:
        missed_targets = tuple(styled(text, "caution") for text in analysis.missed_targets)
        yield doc.Titled(msg("Targets missed"), (doc.Bullets(missed_targets),), key="missed")


def _untested_points(analysis: Analysis) -> list[doc.Inline]:
    """`gvisor-ptrace in iperf3, router (link.mtu=500): REASON`; points with the same reason together."""
    groups: dict[tuple[str, str, str, str], list[UntestedRecord]] = {}
    for point in analysis.untested:
        key = point.platform, point.label, point.topology, point.reason
        groups.setdefault(key, []).append(point)
    tested_pairs = {(cell.platform, cell.label) for cell in analysis.cells}
    items = []
    for (platform, label, topology, reason), points in groups.items():
        name: doc.Inline = msg(
            "{platform} in {label}, {topology}", platform=platform, label=label, topology=topology
        )
        if (platform, label) in tested_pairs:
            levels = [doc.Factor(levels_of(point.levels)) for point in points]
            places: doc.Inline = listed(levels)
            if len(levels) > _MOST_NAMED:
                places = msg("{count} points", count=doc.Count(len(levels)))
            name = msg("{name} ({levels})", name=name, levels=places)
        items.append(joined([name, reason], ": "))
    return items


def _why(reason: str, hint: str) -> doc.Inline:
    if not (reason and hint):
        return reason or hint
    sentence = reason if isinstance(reason, Note) else reason.rstrip(". ")
    return joined([sentence, msg("hint: {hint}", hint=hint)], "; ")


def _results(source: Source, options: Options) -> Iterator[doc.Part]:
    analysis = source.analysis
    if options.depth != "report":
        if not is_measured(analysis):
            yield doc.Paragraph(msg("nothing was measured"))
            return
        for section in _shown_sections(analysis, options):
            yield _section(section, source, options)
        return
    if not is_measured(analysis):
        note = doc.Paragraph(msg("Nothing was measured."))
        yield doc.Titled(msg("Results"), (note,), key="results")
        return
    other_sections = [section for section in analysis.sections if not section.is_answer]
    figures = list(forest(analysis))
    is_folded = sum(len(section.points) for section in analysis.answered) > 1
    parts: list[doc.Part] = [*figures, *_order(source)]
    for section in _beside(analysis):
        if _place(section, analysis) is section:
            chapter = _chapter(section, source, has_ratios=not figures, is_folded=is_folded)
            parts.append(chapter)
    if other_sections:
        parts.append(_further(other_sections, analysis))
    yield doc.Titled(msg("Results"), tuple(parts), key="results")


def _order(source: Source) -> Iterator[doc.Titled]:
    """Yield the trials over the time of the run: at once where they drift or the host was busy, else on demand."""
    is_calm = not any(warning.code in _OF_TIME for warning in source.analysis.warnings)
    for figure in order(source):
        title = msg("Order of execution")
        yield doc.Titled(title, (figure,), key="order", is_folded=is_calm)


def _shown_sections(analysis: Analysis, options: Options) -> Sequence[Section]:
    """Return the metrics whose tables a terminal shows."""
    if options.every_metric:
        return analysis.sections
    rows = sum(len(point.rows) for section in analysis.primary for point in section.points)
    is_short = rows <= _FEW_ROWS or bool(analysis.filter) or not _compared(analysis)
    has_ladder = bool(analysis.declared.get("rung")) and not analysis.filter
    return analysis.primary if is_short and not has_ladder else ()


def _compared(analysis: Analysis) -> list[PlatformRecord]:
    """Return the platforms that were compared with the baseline."""
    return [p for p in analysis.platforms if p.available and not p.is_baseline]


def _unmarked(section: Section) -> Section:
    """Return the section without marks of missed targets."""
    points = [
        replace(point, rows=tuple(replace(row, target_missed=False) for row in point.rows))
        for point in section.points
    ]
    return replace(section, points=tuple(points))


def _section(section: Section, source: Source, options: Options) -> doc.Titled:
    """Return the table of a metric with its notes; with further statistics where everything is wanted."""
    analysis = source.analysis
    parts = _table_parts(section, analysis)
    if options.depth == "all":
        parts.append(further_statistics(section, analysis))
    return _titled(section, tuple(parts), analysis)


def _chapter(section: Section, source: Source, *, has_ratios: bool, is_folded: bool) -> doc.Titled:
    """Return the table of a metric, its figures and further statistics as a report has them; the table alone where
    figures of a publication draw the means of its benchmark.

    has_ratios: whether figures of the metric show ratios; else one figure has those of every metric.
    is_folded: show all of it on demand, as where the overview has the percents of several rows.
    """
    analysis = source.analysis
    table = _table_parts(section, analysis)
    title: doc.Inline = msg("Table")
    if len(section.points) > 1:
        title = plural("Table of {count} point", "Table of {count} points", len(section.points))
    has_statistics = section.metric.is_primary and not has_means(section.label, analysis)
    further_parts: list[doc.Part] = []
    if has_statistics:
        style: Literal["", "beside"] = "" if has_ratios else "beside"
        further_parts.append(replace(further_statistics(section, analysis), style=style))
        further_parts += figures_of(section, analysis, has_ratios=has_ratios)
    if section.metric.is_primary:
        further_parts += within_trials.parts_of(section, source)
    if is_folded and further_parts:
        rest = msg("figures and further statistics") if has_statistics else msg("figures")
        title = joined([title, rest])
    if is_folded:
        table = [doc.Titled(title, (*table, *further_parts), is_folded=True)]
    elif further_parts:
        title = msg("Figures and further statistics") if has_statistics else msg("Figures")
        table.append(doc.Titled(title, tuple(further_parts), is_folded=True))
    return _titled(section, tuple(table), analysis)


def _table_parts(section: Section, analysis: Analysis) -> list[doc.Part]:
    """Return the table of a metric, and below it what was judged together and what to know of it."""
    says_undecided = analysis.rule.target_half_width is None
    shown_section = _unmarked(section) if says_undecided else section
    table = result_table(
        shown_section,
        analysis.level,
        analysis.baseline,
        analysis.colours,
        analysis.blocks,
        cost_section(section, analysis),
    )
    return [table, *_notes(section, analysis)]


def _titled(section: Section, parts: tuple[doc.Part, ...], analysis: Analysis) -> doc.Titled:
    return doc.Titled(
        shared.title_of(section), parts, _key(section, analysis), shared.subtitle_of(section)
    )


def _place(section: Section, analysis: Analysis) -> Section:
    """Return the metric with whose table a report shows one: a cost has columns in that of its speed."""
    for speed in analysis.primary:
        if cost_section(speed, analysis) is section:
            return speed
    return section


def _key(section: Section, analysis: Analysis) -> str:
    return (
        f"result-{next(n for n, candidate in enumerate(analysis.sections) if candidate is section)}"
    )


def _notes(section: Section, analysis: Analysis) -> Iterator[doc.Part]:
    """Yield what was judged together, what counts as equal, and what a reader would stumble over."""
    if section.family:
        yield doc.Paragraph(
            plural(
                "equivalent: within ±{margin}; one comparison",
                "equivalent: within ±{margin}; adjusted for {count} comparisons",
                section.family,
                margin=doc.Share(section.margin, "declared"),
            ),
            "muted",
        )
    yield from (doc.Paragraph(note, "muted") for note in notes_under(section, analysis))


def overview(analysis: Analysis) -> Iterator[doc.Part]:
    """One row per primary metric and point: the percent of the baseline of each platform with its interval."""
    platforms = _compared(analysis)
    if not platforms:
        return
    to_baseline: dict[str, doc.Inline] = {"baseline": analysis.baseline, "level": analysis.level}
    text = msg(
        "Percent of {baseline} with its {level} interval, higher is better; of a time, how much longer it is.",
        **to_baseline,
    )
    if analysis.costs:
        text = msg(
            "Percent of {baseline} with its {level} interval: of speed, where higher is better (of a time, how much "
            "longer it is), and of the host's CPU time for the same work, where lower is.",
            **to_baseline,
        )
    yield doc.Paragraph(joined([text, *_adjusted(analysis)], " "), "muted")
    lines = list(_answer_lines(analysis))
    yield replace(_percent_table(lines, analysis, "overview", msg("Overview")), repeats=True)


def _further(sections: Sequence[Section], analysis: Analysis) -> doc.Part:
    """Return metrics that do not answer: the percent of the baseline of each platform, or its mean without one; what
    is undecided has no bound. Where they are many, the command that prints their tables."""
    lines = [(section, point) for section in sections for point in section.points]
    if len(lines) > _MOST_FURTHER:
        tables = plural("table of {count} metric", "tables of {count} metrics", len(sections))
        command = doc.Styled(f"vtax show {analysis.name} --all", "code")
        return doc.Paragraph(joined([command, tables], ": "), "muted")
    title = plural("{count} more metric", "{count} more metrics", len(sections))
    table = _percent_table(lines, analysis, "further", msg("Further metrics"))
    return doc.Titled(title, (table,), is_folded=True)


def _percent_table(
    lines: Sequence[tuple[Section, ResultPoint]], analysis: Analysis, key: str, label: doc.Message
) -> doc.Table:
    """Return a row for every metric and point: the baseline's mean, and the percent of it of each platform."""
    platforms = _compared(analysis)
    columns = (
        doc.Column("benchmark", msg("benchmark"), wraps=True),
        doc.Column("baseline", analysis.baseline, is_number=True),
        *(doc.Column(p.name, shared.platform_of(p), is_number=True) for p in platforms),
    )
    names = [platform.name for platform in platforms]
    rows = [
        (
            _overview_name(section, point, analysis),
            _base_mean(section, point),
            *_shares(section, point, names),
        )
        for section, point in lines
    ]
    return doc.table_of(columns, rows, key=key, label=label, style="overview")


def matrix_of(analysis: Analysis) -> doc.Document:
    """Return the matrix alone, such as of a run that is being measured."""
    return doc.Document("", tuple(_matrix(analysis, Options("brief"))))


def _matrix(analysis: Analysis, options: Options) -> Iterator[doc.Part]:
    """Yield the same for a terminal, its longer side downwards; nothing where a side does not fit, and the
    command where they are many."""
    compared = _compared(analysis)
    points = [(section, point) for section in analysis.primary for point in section.points]
    if not 0 < min(len(compared), len(points)) <= _MOST_COLUMNS:
        return
    if (count := len(compared) * len(points)) > _MOST_CELLS and not options.every_metric:
        yield doc.Paragraph(
            msg(
                "vtax show {run} --all: percent of {baseline} in each of {count} comparisons",
                run=analysis.name,
                baseline=analysis.baseline,
                count=doc.Count(count),
            ),
            "muted",
        )
        return
    titles_across: list[doc.Inline] = [shared.platform_of(platform) for platform in compared]
    down: list[doc.Inline] = [_short_name(section, point, analysis) for section, point in points]
    platforms = [platform.name for platform in compared]
    cells = _matrix_cells(analysis, points, platforms)
    names = msg("benchmark")
    if len(points) <= len(compared):
        titles_across, down, cells = (
            down,
            titles_across,
            [list(column) for column in zip(*cells, strict=True)],
        )
        names = msg("platform")
    rows = [(name, *row) for name, row in zip(down, cells, strict=True)]
    columns = (
        doc.Column("name", names),
        *(doc.Column(f"column-{n}", title) for n, title in enumerate(titles_across)),
    )
    text = msg(
        "Percent of {baseline}, higher is better; of a time, how much longer it is. ≥ and ≤ give the end of the "
        "interval; 5 % slower is 5 % more time:",
        baseline=analysis.baseline,
    )
    if analysis.costs:
        text = msg(
            "Percent of {baseline}. Above: speed, higher is better; of a time, how much longer it is. Below: CPU of "
            "the host for the same work, lower is better. ≥ and ≤ give the end of the interval; 5 % slower is 5 % "
            "more time:",
            baseline=analysis.baseline,
        )
    yield doc.Paragraph(joined([*_adjusted(analysis), text], " "), "muted")
    yield doc.table_of(columns, rows, key="matrix", label=msg("Overview"))


def _beside(analysis: Analysis) -> list[Section]:
    """Return what answers, the cost of each benchmark table after its speeds."""
    labels = dict.fromkeys(section.label for section in analysis.answered)
    return [section for label in labels for section in analysis.answered if section.label == label]


def _answer_lines(analysis: Analysis) -> Iterator[tuple[Section, ResultPoint]]:
    """Yield every point of what answers: its speeds, and below them what they cost."""
    for _, sections in groupby(_beside(analysis), key=lambda section: section.label):
        of_label = list(sections)
        keys = dict.fromkeys(point.key for section in of_label for point in section.points)
        for key in keys:
            for section in of_label:
                yield from ((section, point) for point in section.points if point.key == key)


def _matrix_cells(
    analysis: Analysis,
    points: Sequence[tuple[Section, ResultPoint]],
    platforms: Sequence[str],
) -> list[list[doc.Inline]]:
    """Return a row for every point of a speed: the speed of each platform, and below it what it costs.

    A cost of several speeds stands below the first of them.
    """
    cells: list[list[doc.Inline]] = []
    costs: list[tuple[Section, ResultPoint]] = []
    for section, point in points:
        row = list(_shares(section, point, platforms, is_plain=True))
        cost = _cost_at(section, point, analysis)
        if cost is not None and cost not in costs:
            costs.append(cost)
            below = _shares(*cost, platforms, is_plain=True, shows="estimate")
            row = [_two_lines(*pair) for pair in zip(row, below, strict=True)]
        cells.append(row)
    return cells


def _two_lines(speed: doc.Inline, cost: doc.Inline) -> doc.Inline:
    """Return the speed of a cell, and its cost in a line of its own where it has one."""
    if cost == doc.Nothing():
        return speed
    return joined([speed, joined([muted(msg("CPU")), cost], " ")], "\n")


def _cost_at(
    section: Section, point: ResultPoint, analysis: Analysis
) -> tuple[Section, ResultPoint] | None:
    """Return what the host spends on the work of a speed at a point; None where that is not counted."""
    cost = cost_section(section, analysis)
    for cost_point in cost.points if cost else ():
        if cost and cost_point.key == point.key:
            return cost, cost_point
    return None


def _adjusted(analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield why an interval beyond the margin has no word, where one has none."""
    families = set()
    for section, _, row in every_row(analysis.answered):
        verdict, ratio = row.verdict, row.ratio
        if verdict is None or ratio is None or verdict.family < 2:
            continue
        if leaning_of(verdict, ratio, section):
            families.add(verdict.family)
    if families:
        counts = listed(map(doc.Count, sorted(families)))
        yield msg("Verdicts allow for {families} comparisons, intervals for one.", families=counts)


def _short_name(section: Section, point: ResultPoint, analysis: Analysis) -> doc.Inline:
    """Return the benchmark; its metric only where it has several."""
    is_alone = sum(candidate.label == section.label for candidate in analysis.primary) == 1
    metric = "" if is_alone else shared.metric_of(section)
    margin = shared.own_margin(section, analysis)
    return joined([section.label, metric, shared.levels(point), margin], " ")


def _overview_name(section: Section, point: ResultPoint, analysis: Analysis) -> doc.Inline:
    details = joined([shared.metric_of(section), shared.levels(point)])
    label: doc.Inline = section.label
    if section.is_answer:
        label = doc.Link(section.label, _key(_place(section, analysis), analysis))
    name = joined([label, muted(details)], ": ")
    return joined([name, shared.own_margin(section, analysis)], " ")


def _base_mean(section: Section, point: ResultPoint) -> doc.Inline:
    """Return the baseline's mean with its half-width and unit: `616 ±199 events/s`."""
    row = next((row for row in point.rows if row.platform.is_baseline), None)
    return doc.Nothing() if row is None else _mean(section, row)


def _mean(section: Section, row: Row) -> doc.Inline:
    base = row.summary
    if base is None:
        return doc.Nothing()
    scale = scale_for(section.metric.unit, [base.mean])  # each row has its unit beside it
    return muted(doc.Mean(base.mean, (base.high - base.low) / 2, scale, "both", row.step))


def _shares(
    section: Section,
    point: ResultPoint,
    names: Sequence[str],
    *,
    is_plain: bool = False,
    shows: Literal["both", "estimate"] = "both",
) -> Iterator[doc.Inline]:
    """Yield the percentages of platforms with their words. is_plain: on a terminal. shows: see `doc.Relative`."""
    rows = {row.platform.name: row for row in point.rows}
    for name in names:
        row = rows.get(name)
        if row is None:
            yield doc.Nothing()
            continue
        if row.ratio is None or row.verdict is None:
            yield doc.Nothing() if section.is_answer else _mean(section, row)
            continue
        verdict = shared.verdict_of(row.verdict, row.ratio, section, is_compact=is_plain)
        if not section.is_answer:
            verdict = replace(verdict, bound="")
        share = replace(shared.relative_of(row.ratio, section), verdict=verdict, shows=shows)
        is_muted = is_plain and row.verdict.kind == "undecided"
        yield muted(share) if is_muted else share


def _rest(analysis: Analysis, options: Options) -> Iterator[doc.Part]:
    """Yield the warnings, where everything is wanted or nothing measured, and how to see what is not shown; reports
    have a view of warnings."""
    if options.depth == "report":
        return
    if not is_measured(analysis):  # then each row lacks its figure, which is no news
        yield from shared.warnings_part(
            [w for w in analysis.warnings if w.kind != STATISTICS], shows_code=True
        )
    elif options.every_metric:
        yield from shared.warnings_part(analysis.warnings, shows_code=True)
    else:
        remainder = joined(_more(analysis, len(_shown_sections(analysis, options))), "; ")
        if remainder != "":
            yield doc.Paragraph(remainder, "muted")


def _more(analysis: Analysis, shown_count: int) -> Iterator[doc.Inline]:
    """Yield the commands that show the rest. shown_count: number of metrics with a table."""
    command = f"vtax show {analysis.name} --all"
    hidden = len(analysis.sections) - shown_count
    if hidden:
        of = plural("table of {count} metric", "tables of {count} metrics", hidden)
        if shown_count:
            of = plural("{count} more metric", "{count} more metrics", hidden)
        yield joined([command, of], ": ")
        if not shown_count and len({section.label for section in analysis.sections}) > 1:
            yield msg("--benchmark NAME: those of one")
    if count := len(analysis.warnings):
        of = plural("{count} warning", "{count} warnings", count)
        yield joined([f"vtax show {analysis.name} --warnings", of], ": ")


VIEW = register_view(
    View(
        "result",
        msg("Result"),
        msg("The result; the default view."),
        document,
        place=10,
        has_chapters=True,
    )
)
