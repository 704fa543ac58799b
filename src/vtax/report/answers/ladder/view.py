"""Ladders: a sentence of what the cost of a platform is made of, a table of rungs and a waterfall."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.source import Source
from vtax.report.analysis.values import Section
from vtax.report.answers.ladder.compute import Ladder, LadderStep, ladders
from vtax.report.answers.ladder.orders import BothOrders, both_orders
from vtax.report.document import in_brackets, joined, listed, msg, muted
from vtax.report.parts import shared
from vtax.report.views.base import Options, View, register_view
from vtax.stats.margin import edges
from vtax.stats.ratio import Ratio


def sentences(ladders_of_run: tuple[Ladder, ...], analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield what each ladder is made of, the largest step first, and how it is avoided."""
    for ladder in ladders_of_run:
        parts: list[doc.Inline] = []
        if ladder.total is not None:
            share = shared.relative_of(ladder.total, ladder.section, analysis.baseline)
            parts.append(msg("{share} in all", share=share))
        parts += [_said(step, ladder) for step in ladder.decided]
        parts += _rest(ladder)
        subject = joined([shared.platform_of(ladder.top.platform), _title(ladder)], " · ")
        yield joined([subject, joined(parts, "; ")], ": ")


def advice(ladders_of_run: tuple[Ladder, ...]) -> Iterator[doc.Inline]:
    """Yield how the cost of a step is avoided, or what it gains is had, each once."""
    costs: dict[str, str] = {}
    gains: dict[str, str] = {}
    for ladder in ladders_of_run:
        for step in ladder.decided:
            mechanism = ", ".join(step.adds)
            if step.verdict is not None and step.verdict.kind in ("slower", "costs-more"):
                costs.update(dict.fromkeys(step.remedies, mechanism))
            else:
                gains.update(dict.fromkeys(step.choices, mechanism))
    for remedy, mechanism in costs.items():
        yield msg("{mechanism} costs: {remedy}", mechanism=mechanism, remedy=remedy)
    for choice, mechanism in gains.items():
        yield msg("{mechanism} gains: {choice}", mechanism=mechanism, choice=choice)


def order_sentences(orders: Sequence[BothOrders], analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield what each mechanism costs in both orders, and whether that is the same."""
    for order in orders:
        parts = [_first(order, analysis), _last(order), *_interaction(order)]
        subject = [shared.platform_of(order.whole.platform), _title(order), order.mechanism]
        yield joined([joined(subject, " \N{MIDDLE DOT} "), joined(parts, "; ")], ": ")


def _first(order: BothOrders, analysis: Analysis) -> doc.Inline:
    if order.first is None or order.first.ratio is None:
        return msg("not added to {baseline} alone", baseline=analysis.baseline)
    share = shared.relative_of(order.first.ratio, order.section, analysis.baseline)
    return msg("added to {baseline} first {share}", baseline=analysis.baseline, share=share)


def _last(order: BothOrders) -> doc.Inline:
    whole_name = order.whole.platform.name
    if order.last is None or order.last.ratio is None:
        return msg("not left out of {platform}, which cannot be without it", platform=whole_name)
    below = order.last.below.platform.name
    share = shared.relative_of(order.last.ratio, order.section, below)
    if order.taking:
        return msg(
            "left out of {platform} last, with {taking}, {share}",
            platform=whole_name,
            taking=order.taking,
            share=share,
        )
    return msg("left out of {platform} last {share}", platform=whole_name, share=share)


def _interaction(order: BothOrders) -> Iterator[doc.Inline]:
    interaction = order.interaction
    if interaction is None:
        return
    share = _divided(interaction, order)
    if interaction.low <= 1 <= interaction.high:
        yield msg("the last divided by the first {share}: no difference is shown", share=share)
    elif order.taking:
        yield msg("the last, which has more in it, divided by the first {share}", share=share)
    else:
        yield msg(
            "the last divided by the first {share}: mechanisms act on each other", share=share
        )


def _divided(interaction: Ratio, order: BothOrders) -> doc.Relative:
    """Return the last order divided by the first, both as they are told: of a time how much longer it is."""
    if shared.is_inverse(order.section):
        return shared.share_of(interaction.estimate, interaction.low, interaction.high)
    share = interaction.efficiency(order.section.share_better)
    return shared.share_of(share.estimate, share.low, share.high)


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
    return doc.table_of(columns, rows, key=key, label=msg("rungs"), style="list")


def orders_sections(orders: Sequence[BothOrders], analysis: Analysis) -> Iterator[doc.Titled]:
    """Yield a table of the mechanisms for each metric and point."""
    for (_, key), group in groupby(orders, key=lambda order: (order.section.name, order.point.key)):
        of_point = list(group)
        section = of_point[0].section
        rows: list[Sequence[doc.Inline]] = []
        for order in of_point:
            rows += _rows_of_orders(order, analysis)
        interval = msg("percent\n[{level} interval]", level=analysis.level)
        columns = (
            doc.Column("mechanism", msg("mechanism"), wraps=True),
            doc.Column("order", msg("order"), wraps=True),
            doc.Column("percent", interval, is_number=True),
            doc.Column("verdict", msg("verdict")),
        )
        table = doc.table_of(
            columns,
            rows,
            key=f"orders {section.name} {key}",
            label=msg("mechanisms"),
            style="list",
        )
        yield doc.Titled(_title(of_point[0]), (table,), subtitle=shared.subtitle_of(section))


def _rows_of_orders(order: BothOrders, analysis: Analysis) -> Iterator[Sequence[doc.Inline]]:
    whole_name = order.whole.platform.name
    last_label = msg("left out of {platform} last", platform=whole_name)
    if order.taking:
        last_label = msg(
            "left out of {platform} last, with {taking}", platform=whole_name, taking=order.taking
        )
    first = msg("added to {baseline} first", baseline=analysis.baseline)
    for name, step in ((first, order.first), (last_label, order.last)):
        if step is not None:
            yield order.mechanism, name, *_ratio_cells(step, order.section)
    if order.interaction is not None:
        share = _divided(order.interaction, order)
        yield order.mechanism, msg("the last divided by the first"), share, doc.Nothing()


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


def _title(ladder: Ladder | BothOrders) -> doc.Inline:
    return joined([shared.title_of(ladder.section), shared.levels(ladder.point)], " · ")


def _said(step: LadderStep, ladder: Ladder) -> doc.Inline:
    """`filter of system calls 96.1 % of the rung below [95.0, 97.2]`."""
    assert step.ratio is not None
    share = shared.relative_of(step.ratio, ladder.section, msg("the rung below"))
    return joined([listed(step.adds), share], " ")


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
        if ladder.total is not None:  # which says it of all rungs
            return
        names = msg("all rungs")
    if bound != "" and least != "":
        yield msg(
            "{mechanisms} together {least} and {bound}", mechanisms=names, least=least, bound=bound
        )
    elif bound != "":
        yield msg("{mechanisms} together {bound}", mechanisms=names, bound=bound)
    elif ladder.decided:
        yield msg("nothing is decided of {mechanisms}", mechanisms=names)


def _cells(step: LadderStep, ladder: Ladder) -> tuple[doc.Inline, ...]:
    name = shared.platform_of(step.row.platform)
    adds = listed(step.adds)
    return adds, name, *_ratio_cells(step, ladder.section), _total(step, ladder)


def _ratio_cells(step: LadderStep, section: Section) -> tuple[doc.Inline, doc.Inline]:
    if step.ratio is None:
        return doc.Nothing(), muted(msg("no verdict"))
    verdict: doc.Inline = shared.no_verdict(section)
    if step.verdict is not None:
        verdict = shared.verdict_of(step.verdict, step.ratio, section)
    return shared.relative_of(step.ratio, section), verdict


def _total(step: LadderStep, ladder: Ladder) -> doc.Inline:
    ratio = step.row.ratio
    return doc.Nothing() if ratio is None else shared.relative_of(ratio, ladder.section)


def document(source: Source, options: Options) -> doc.Document:
    """Return a table and a waterfall for each metric and point; judged over the whole run, whatever is shown of it."""
    analysis = source.analysis
    ladders_of_run = ladders(source.whole.analysis)
    shown_ladders = []
    for ladder in ladders_of_run:
        if analysis.shown_cells.selects(ladder.top.cell.place):
            shown_ladders.append(ladder)
    orders = []
    for order in both_orders(source.whole.analysis):
        if analysis.shown_cells.selects(order.whole.cell.place):
            orders.append(order)
    if not (shown_ladders or orders):
        return doc.empty_document(
            VIEW.title,
            msg("the study of this run has no ladder: vtax anatomy measures one"),
            {"ladders": [], "both_orders": []},
        )
    is_drawn = options.depth == "report"
    parts: list[doc.Part] = []
    for ladder in shown_ladders:
        parts.append(section(ladder, analysis, is_drawn=is_drawn))
    parts += orders_sections(orders, analysis)
    told = msg("5 % slower is 5 % more time, so that half of a rate is 100 % slower.")
    parts.append(doc.Paragraph(told, "muted"))
    answer = doc.Document(
        VIEW.title, tuple(parts), data={"ladders": shown_ladders, "both_orders": orders}
    )
    return shared.of_blocks(answer, analysis)


VIEW = register_view(
    View(
        "ladder",
        msg("What the cost is made of"),
        msg("Every rung of a ladder against the rung below it."),
        document,
        place=12,
    )
)
