"""The figures and tables of the publication that a study repeats, drawn from a run: as published, and from blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from vtax.described import BESIDE, Means, Only
from vtax.levels import BENCHMARK, METRIC
from vtax.report import document as doc
from vtax.report.analysis.claim_cells import mapping_of
from vtax.report.analysis.published import Repeated, repeated
from vtax.report.analysis.source import Source
from vtax.report.analysis.values import Analysis, Estimate
from vtax.report.answers.figures.chart import chart_of, left_of, mapped_notes, right_of, title_of
from vtax.report.answers.figures.compute import (
    Drawing,
    Plotted,
    drawings,
    efficiency_of,
    named_in_figures,
)
from vtax.report.document import joined, listed, msg, muted, plural, scale_for
from vtax.report.parts import shared
from vtax.report.views.base import Options, View, register_view
from vtax.stats.checks import Better
from vtax.study.figures import Quantity


@dataclass(frozen=True)
class FigureResult:
    """A figure as programs read it."""

    drawing: Annotated[Drawing, BESIDE]
    sides: Annotated[
        Mapping[Quantity, Mapping[str, doc.Inline]],
        Means("quantity -> `left`, `right`: what is drawn on either side"),
    ]
    why_not: Annotated[doc.Inline, Means("why it is not drawn")]


@dataclass(frozen=True)
class FiguresResult:
    """All figures as programs read them: values in the unit of the metric, ratios and shares as fractions of 1."""

    analysis: Annotated[Analysis, Only("confidence")]
    repeated: Annotated[Repeated, Only("publication", "changed_by")]
    figures: Annotated[
        tuple[FigureResult, ...], Means("all that the study declares, with their values")
    ]


def document(source: Source, options: Options) -> doc.Document:
    """Return every figure of the run's study with its values; figures are of the whole run."""
    analysis, data = source.whole.analysis, source.whole.data
    mapped = mapping_of(options.mapped, *named_in_figures(analysis))
    figures = drawings(analysis, data, mapped)
    if not figures:
        text = msg("the study of this run declares no figures")
        return doc.Document(VIEW.title, (doc.Paragraph(text),), nothing=text)
    notes = mapped_notes(
        {there: notes for drawing in figures for there, notes in drawing.mapped.items()}
    )
    parts: list[doc.Part] = [doc.Paragraph(text, "caution") for text in notes]
    parts.append(_overview(figures))
    parts += [_section(drawing, analysis) for drawing in figures if drawing.is_measured]
    return doc.Document(VIEW.title, tuple(parts), colours=analysis.colours)


def _overview(drawings: Sequence[Drawing]) -> doc.Table:
    columns = (
        doc.Column("id", msg("figure")),
        doc.Column("title", msg("title"), wraps=True),
        doc.Column("drawn", msg("drawn here"), wraps=True),
    )
    rows = [
        doc.TableRow((drawing.figure.id, title_of(drawing), _drawn(drawing)))
        for drawing in drawings
    ]
    return doc.Table(
        columns,
        (doc.Group(tuple(rows)),),
        key="figures",
        label=msg("figures of the publication"),
        style="list",
    )


def _drawn(drawing: Drawing) -> doc.Inline:
    """Say of which platforms a figure is, or why it is not drawn."""
    if not drawing.is_measured:
        return muted(why_not(drawing))
    names = list(
        dict.fromkeys(place.platform for place in drawing.places if place.here or place.tests)
    )
    platforms: doc.Inline = ", ".join(names)
    if drawing.absent:
        return msg(
            "{platforms}; without a value: {absent}",
            platforms=platforms,
            absent=", ".join(drawing.absent),
        )
    return platforms


def why_not(drawing: Drawing) -> doc.Inline:
    """Return why a figure has no value."""
    if drawing.figure.host and drawing.figure.host > drawing.hosts:
        count = plural("{count} host", "{count} hosts", drawing.hosts)
        return msg(
            "not drawn: it is of host {number}, and this run has sessions of {hosts}; vtax merge combines runs of "
            "several",
            number=str(drawing.figure.host),
            hosts=count,
        )
    if drawing.absent:
        return msg("not drawn: no value of {platforms}", platforms=listed(drawing.absent))
    return msg("not drawn: the run has no value of its cells")


def _section(drawing: Drawing, analysis: Analysis) -> doc.Titled:
    values = doc.Titled(msg("Values"), (_values(drawing, analysis),), is_folded=True)
    return doc.Titled(
        title_of(drawing),
        (chart_of(drawing, analysis, is_alone=False), values),
        key=f"figure {drawing.figure.id}",
    )


def _values(drawing: Drawing, analysis: Analysis) -> doc.Table:
    """Return every value of a figure: as the publication computes it, from blocks, and as printed."""
    is_table, statistic = drawing.figure.is_of_largest_cv, drawing.figure.statistic
    better = {(s.label, s.metric.name): s.better for s in analysis.sections}
    columns = [
        shared.PLATFORM,
        doc.Column("tests", msg("tests"), is_number=True),
        doc.Column(
            "test_mean", msg("CV of tests") if is_table else msg("mean of tests"), is_number=True
        ),
    ]
    if statistic != "mean" and not is_table:
        heading = {
            "sd": msg("SD of tests"),
            "cv": msg("CV of tests"),
            "t_interval": msg("t-interval of tests"),
        }
        columns.append(doc.Column("test_statistic", heading[statistic], is_number=True))
    columns.append(
        doc.Column("mean", msg("half-width") if is_table else msg("from blocks"), is_number=True)
    )
    if not is_table:
        columns += [
            doc.Column("interval", msg("interval"), of="mean", joins=True),
            doc.Column(
                "percent",
                shared.percent_title(analysis.baseline, msg("interval")),
                is_number=True,
                room="wide",
            ),
        ]
    has_printed = any(place.printed for place in drawing.places)
    if has_printed:
        columns.append(doc.Column("printed", msg("printed"), is_number=True))
    marks = {platform.name: platform.marks for platform in analysis.platforms}
    groups: dict[tuple[tuple[str, str], ...], list[doc.TableRow]] = {}
    units: dict[tuple[tuple[str, str], ...], str] = {}
    for place in drawing.places:
        key = _group_of(drawing, place)
        units.setdefault(key, "" if place.quantity != "value" else place.unit)
        of = better.get((place.levels.get(BENCHMARK, ""), place.levels.get(METRIC, "")), "higher")
        cells = list(_cells(place, drawing, of, is_table=is_table, has_printed=has_printed))
        groups.setdefault(key, []).append(
            doc.TableRow((doc.PlatformCell(place.platform, marks.get(place.platform, ())), *cells))
        )
    groups_of_rows = tuple(
        doc.Group(tuple(rows), joined([doc.Factor(key) if key else "", units[key]], ", "))
        for key, rows in groups.items()
    )
    label = msg("values of {figure}", figure=drawing.figure.id)
    return doc.Table(tuple(columns), groups_of_rows, key=drawing.figure.id, label=label)


def _group_of(drawing: Drawing, place: Plotted) -> tuple[tuple[str, str], ...]:
    """Return the levels that rows of a table share."""
    shared_levels = [
        (name, level) for name, level in place.levels.items() if name not in (BENCHMARK, METRIC)
    ]
    shared_levels = [
        (name, level)
        for name, level in shared_levels
        if len({p.levels.get(name) for p in drawing.places}) > 1
    ]
    for name in (BENCHMARK, METRIC):
        if drawing.figure.is_of_largest_cv or len({p.levels[name] for p in drawing.places}) > 1:
            shared_levels.append((name, place.levels[name]))
    if len({p.host for p in drawing.places}) > 1:
        shared_levels.append(("host", str(place.host)))
    if len(drawing.figure.quantities) > 1:
        shared_levels.append(("quantity", place.quantity))
    return tuple(shared_levels)


def _cells(
    place: Plotted, drawing: Drawing, better: Better, *, is_table: bool, has_printed: bool
) -> Iterator[doc.Inline]:
    tests, quantity = place.tests, place.quantity
    yield doc.Count(tests.n) if tests else doc.Nothing()
    yield _shown(tests.mean, quantity) if tests else doc.Nothing()
    if drawing.figure.statistic != "mean" and not is_table:
        yield _statistic(place, drawing)
    yield _shown(place.here.value, quantity) if place.here else doc.Nothing()
    if not is_table:
        yield _interval(place.here, quantity)
        share = efficiency_of(better, place.ratio)
        yield shared.share_of(share.value, share.low, share.high) if share else doc.Nothing()
    if has_printed:
        yield _printed(place.printed, quantity)


def _statistic(place: Plotted, drawing: Drawing) -> doc.Inline:
    tests = place.tests
    if tests is None or not np.isfinite(tests.sd):
        return doc.Nothing()
    if drawing.figure.statistic == "sd":
        return doc.Number(tests.sd, 3)
    return (
        doc.Share(tests.cv)
        if drawing.figure.statistic == "cv"
        else _interval(tests.drawn, place.quantity)
    )


def _shown(value: float, quantity: Quantity) -> doc.Inline:
    if not np.isfinite(value):
        return doc.Nothing()
    if quantity == "efficiency":
        return doc.Relative(value)
    return doc.Share(value) if quantity == "largest_cv" else doc.Number(value, 4)


def _interval(estimate: Estimate | None, quantity: Quantity) -> doc.Inline:
    if estimate is None or estimate.low is None or estimate.high is None:
        return doc.Nothing()
    if quantity == "efficiency":
        return doc.Relative(estimate.value, estimate.low, estimate.high, shows="interval")
    return doc.IntervalCell(estimate.low, estimate.high, "quantity", scale_for("", ()))


def _printed(printed: Estimate | None, quantity: Quantity) -> doc.Inline:
    if printed is None:
        return doc.Nothing()
    value = _shown(printed.value, quantity)
    if printed.high is None:
        return value
    return msg(
        "{number} ± {deviation}",
        number=value,
        deviation=doc.Number(printed.high - printed.value, 3),
    )


def exported(drawings: Sequence[Drawing], analysis: Analysis) -> FiguresResult:
    """Return the figures for programs."""
    figures = []
    for drawing in drawings:
        sides = {}
        for quantity in drawing.figure.quantities:
            left = left_of(drawing, analysis, quantity)
            sides[quantity] = {"left": left, "right": right_of(drawing, analysis, quantity)}
        figures.append(
            FigureResult(drawing, sides, "" if drawing.is_measured else why_not(drawing))
        )
    return FiguresResult(analysis, repeated(analysis), tuple(figures))


VIEW = register_view(
    View(
        "figures",
        msg("Figures of the publication"),
        msg("The figures and tables of the publication that the study repeats, from this run."),
        document,
        place=13,
        command="figures",
    )
)
