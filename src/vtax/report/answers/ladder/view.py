"""Ladders: every rung of a run against the rung below it."""

from __future__ import annotations

from vtax.report import document as doc
from vtax.report.analysis.source import Source
from vtax.report.answers.ladder.compute import ladders
from vtax.report.answers.ladder.show import section
from vtax.report.document import msg
from vtax.report.parts import shared
from vtax.report.views.base import Options, View, register_view


def document(source: Source, options: Options) -> doc.Document:
    """Return a table and a waterfall for each metric and point; judged over the whole run, whatever is shown of it."""
    analysis = source.analysis
    found = ladders(source.whole.analysis)
    shown = []
    for ladder in found:
        if analysis.shown_cells.selects(ladder.top.cell.place):
            shown.append(ladder)
    if not shown:
        nothing = msg("the study of this run has no ladder: vtax anatomy measures one")
        return doc.Document(
            VIEW.title, (doc.Paragraph(nothing),), data={"ladders": []}, nothing=nothing
        )
    is_drawn = options.depth == "report"
    parts = [section(ladder, analysis, is_drawn=is_drawn) for ladder in shown]
    made = doc.Document(VIEW.title, tuple(parts), data={"ladders": shown})
    return shared.of_blocks(made, analysis)


VIEW = register_view(
    View(
        "ladder",
        msg("What the cost is made of"),
        msg("Every rung of a ladder against the rung below it."),
        document,
        place=12,
    )
)
