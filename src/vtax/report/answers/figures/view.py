"""The figures and tables of the publication that a study repeats, drawn from a run: as published, and from blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from vtax.described import BESIDE, Means, Only
from vtax.report import document as doc
from vtax.report.analysis.claim_cells import mapping_of
from vtax.report.analysis.published import Repeated, repeated
from vtax.report.analysis.source import Source
from vtax.report.analysis.values import Analysis
from vtax.report.answers.figures.chart import chart_of, left_of, mapped_notes, right_of, title_of
from vtax.report.answers.figures.compute import Drawing, drawings, named_in_figures
from vtax.report.document import joined, listed, msg, plural
from vtax.report.views.base import Options, View, register_view
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
    stand_ins = mapped_notes(
        {there: here for drawing in figures for there, here in drawing.mapped.items()}
    )
    charts = [chart_of(each, analysis, is_alone=False) for each in figures if each.is_measured]
    shared_notes = _shared_notes(charts)
    mapping = "".join(f" --map {there}={here}" for there, here in options.mapped.items())
    command = doc.Styled(f"vtax figures {analysis.name}{mapping} --json", "code")
    values = joined([msg("Values"), command], ": ")
    said_once = [note for note in shared_notes if note not in stand_ins]
    missing = [_missing(drawing) for drawing in figures if not drawing.is_measured]
    parts: list[doc.Part] = [doc.Paragraph(text, "caution") for text in stand_ins]
    parts.append(doc.Paragraph(joined([*said_once, values], " "), "muted"))
    parts += [doc.Bullets(tuple(missing))] if missing else []
    for chart in charts:
        own_notes = tuple(note for note in chart.notes if note not in shared_notes)
        drawn = replace(chart, notes=own_notes)
        parts.append(doc.Titled(chart.title, (drawn,), key=f"figure {chart.key}"))
    return doc.Document(VIEW.title, tuple(parts), colours=analysis.colours)


def _shared_notes(charts: Sequence[doc.Chart]) -> list[doc.Inline]:
    """Return the notes that every one of several charts has, which a chapter says once."""
    if len(charts) < 2:
        return []
    return [note for note in charts[0].notes if all(note in chart.notes for chart in charts)]


def _missing(drawing: Drawing) -> doc.Inline:
    """Return why a figure is not drawn, after its title."""
    return joined([title_of(drawing), why_not(drawing)], ": ")


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
