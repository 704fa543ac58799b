"""Ladders: a sentence of what the cost of a platform is made of, a table of rungs and a waterfall."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.source import Source
from vtax.report.answers.ladder.compute import Ladder, LadderStep, ladders
from vtax.report.document import in_brackets, joined, listed, msg, muted, styled
from vtax.report.parts import shared
from vtax.report.views.base import Options, View, register_view
from vtax.stats.margin import edges

_LARGEST = 2


def sentences(found: tuple[Ladder, ...], analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield what each ladder is made of, the largest step first, and how it is avoided."""
    for ladder in found:
        parts: list[doc.Inline] = []
        if ladder.total is not None:
            share = shared.relative_of(ladder.total, ladder.section, analysis.baseline)
            parts.append(msg("{share} in all", share=share))
        parts += [_said(step, ladder) for step in ladder.decided]
        parts += _rest(ladder)
        parts += _interactions(ladder, analysis)
        about = joined([shared.platform_of(ladder.top.platform), _title(ladder)], " · ")
        yield joined([about, joined(parts, "; ")], ": ")


def remedies(found: tuple[Ladder, ...]) -> Iterator[doc.Inline]:
    """Yield how the cost of a step that costs something is avoided, each once."""
    said: dict[str, str] = {}
    for ladder in found:
        for step in ladder.decided:
            if step.verdict is not None and step.verdict.kind in ("slower", "costs-more"):
                said.update(dict.fromkeys(step.remedies, ", ".join(step.adds)))
    for remedy, mechanism in said.items():
        yield joined([mechanism, remedy], ": ")


def alone_line(found: tuple[Ladder, ...], analysis: Analysis) -> Iterator[doc.Part]:
    """Yield how to find out whether the largest steps cost the same without the rungs below them."""
    drivers = {each.name: each.identity.get("driver") for each in analysis.platforms}
    options: dict[str, None] = {}
    for ladder in found:
        for step in ladder.decided[:_LARGEST]:
            name, below = step.row.platform.name, step.below.platform.name
            if (
                step.alone is None
                and below != analysis.baseline
                and drivers[name] == drivers[below]
            ):
                options[f"--alone {name}"] = None
    if options:
        yield doc.Paragraph(
            msg(
                "Whether that costs the same without the rungs below: the same command with {options}",
                options=styled(" ".join(list(options)[:_LARGEST]), "code"),
            )
        )


def section(ladder: Ladder, analysis: Analysis, *, is_drawn: bool = False) -> doc.Titled:
    """Return the table of a ladder, and its waterfall where that is wanted."""
    parts: list[doc.Part] = [_table(ladder, analysis)]
    if is_drawn:
        parts.append(_waterfall(ladder, analysis))
    subtitle = shared.subtitle_of(ladder.section)
    return doc.Titled(_title(ladder), tuple(parts), subtitle=subtitle)


def _table(ladder: Ladder, analysis: Analysis) -> doc.Table:
    """Return a row for each rung: its percent of the rung below, the verdict on that, and its percent of the ground."""
    interval = msg("{level} interval", level=analysis.level)
    columns = (
        doc.Column("adds", msg("rung adds"), wraps=True),
        shared.PLATFORM,
        doc.Column(
            "step",
            msg("percent of the rung below\n[{interval}]", interval=interval),
            is_number=True,
        ),
        doc.Column("verdict", msg("verdict")),
        doc.Column(
            "total", shared.percent_title(analysis.baseline, interval), is_number=True, room="wide"
        ),
    )
    rows = [_cells(step, ladder) for step in ladder.steps]
    key = f"ladder {ladder.section.name} {ladder.point.key}"
    return doc.table_of(columns, rows, key=key, label=msg("rungs"))


def _waterfall(ladder: Ladder, analysis: Analysis) -> doc.RowFigure:
    """Return the figure of a ladder: every step begins where the one below it ends."""
    rows = [doc.FigureRow(analysis.baseline, 0, (1.0, None, None), start=1.0)]
    at = 0.0
    for step in ladder.steps:
        if step.ratio is None or step.verdict is None:
            continue
        share = shared.relative_of(step.ratio, ladder.section)
        to = at + math.log(share.estimate)
        low, high = (
            math.exp(at + math.log(bound)) if bound and 0 < bound < math.inf else None
            for bound in (share.low, share.high)
        )
        rows.append(
            doc.FigureRow(
                joined(
                    [
                        listed(step.adds),
                        in_brackets(replace(share, low=0.0, high=math.inf)),
                    ],
                    " ",
                ),
                analysis.colours[step.row.platform.name],
                (math.exp(to), low, high),
                text=share,
                verdict=shared.verdict_of(step.verdict, step.ratio, ladder.section).look,
                start=math.exp(at),
            )
        )
        at = to
    title = _title(ladder)
    return doc.RowFigure(
        "waterfall",
        f"ladder {ladder.section.name} {ladder.point.key}",
        msg("{title}: what each rung adds", title=title),
        (
            msg(
                "A bar leads from the rung below to the rung, beside whose name its percent of that stands, with the "
                "{level} interval of the step",
                baseline=analysis.baseline,
                level=analysis.level,
            ),
        ),
        msg("percent of {baseline}", baseline=analysis.baseline),
        (doc.FigureGroup("", tuple(rows)),),
        msg("percent of the rung below"),
        msg("percent of the rung below, {level} interval", level=analysis.level),
        margin=edges(ladder.section.margin)[1] - 1,
    )


def _title(ladder: Ladder) -> doc.Inline:
    return joined([shared.title_of(ladder.section), shared.levels(ladder.point)], " · ")


def _said(step: LadderStep, ladder: Ladder) -> doc.Inline:
    """`filter of system calls 96.1 % [95.0, 97.2] of the rung below`."""
    assert step.ratio is not None
    share = shared.relative_of(step.ratio, ladder.section)
    return msg("{mechanism} {share} of the rung below", mechanism=listed(step.adds), share=share)


def _rest(ladder: Ladder) -> Iterator[doc.Inline]:
    """Yield what bounds the steps of which nothing is decided."""
    if not ladder.undecided:
        return
    bound: doc.Inline = ""
    least: doc.Inline = ""
    if ladder.rest is not None:
        kind = "costs-more" if ladder.section.metric.role == "cost" else "slower"
        least = shared.bound_of(kind, ladder.rest, ladder.section)
        bound = shared.bound_of("undecided", ladder.rest, ladder.section)
    names = listed(name for step in ladder.undecided for name in step.adds)
    if not ladder.decided:
        yield msg("no rung is decided alone")
        names = msg("all rungs")
    if bound != "" and least != "":
        yield msg(
            "{mechanisms} together {least} and {bound}", mechanisms=names, least=least, bound=bound
        )
    elif bound != "":
        yield msg("{mechanisms} together {bound}", mechanisms=names, bound=bound)
    elif ladder.decided:
        yield msg("nothing is decided of {mechanisms}", mechanisms=names)


def _interactions(ladder: Ladder, analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield what mechanisms cost alone, and whether that depends on the rungs below them."""
    for step in ladder.steps:
        if step.alone is None or step.alone.ratio is None or step.interaction is None:
            continue
        alone = shared.relative_of(step.alone.ratio, ladder.section, analysis.baseline)
        share = shared.relative_of(step.interaction, ladder.section)
        found = step.interaction
        values = {"mechanism": listed(step.adds), "alone": alone, "share": share}
        if found.low > 1 or found.high < 1:
            yield msg(
                "{mechanism} alone {alone}, and in its place {share} of that, so mechanisms act on each other",
                **values,
            )
        else:
            yield msg(
                "{mechanism} alone {alone}, and in its place {share} of that, so no difference is shown",
                **values,
            )


def _cells(step: LadderStep, ladder: Ladder) -> tuple[doc.Inline, ...]:
    name = shared.platform_of(step.row.platform)
    adds = listed(step.adds)
    if step.ratio is None:
        return adds, name, doc.Nothing(), muted(msg("no verdict")), _total(step, ladder)
    verdict: doc.Inline = shared.no_verdict(ladder.section)
    if step.verdict is not None:
        verdict = shared.verdict_of(step.verdict, step.ratio, ladder.section)
    share = shared.relative_of(step.ratio, ladder.section)
    return adds, name, share, verdict, _total(step, ladder)


def _total(step: LadderStep, ladder: Ladder) -> doc.Inline:
    ratio = step.row.ratio
    return doc.Nothing() if ratio is None else shared.relative_of(ratio, ladder.section)


def document(source: Source, options: Options) -> doc.Document:
    """Return a table and a waterfall for each metric and point; judged over the whole run, whatever is shown of it."""
    analysis = source.analysis
    found = ladders(source.whole.analysis)
    shown = []
    for ladder in found:
        if analysis.shown_cells.selects(ladder.top.cell.place):
            shown.append(ladder)
    if not shown:
        return doc.empty_document(
            VIEW.title,
            msg("the study of this run has no ladder: vtax anatomy measures one"),
            {"ladders": []},
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
