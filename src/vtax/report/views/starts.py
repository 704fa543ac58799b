"""How long guests take to start, by stages: median, 95th and 99th percentile over all starts of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vtax.report.analysis import Analysis
from vtax.report.analysis.source import Source
from vtax.report.analysis.starts import QUANTILES, StageTimes, fewest_starts, stage_times
from vtax.report.document import (
    Column,
    Count,
    Document,
    Factor,
    Group,
    Inline,
    Interval,
    Nothing,
    Paragraph,
    Part,
    Quantity,
    Relative,
    Scale,
    Table,
    joined,
    levels_of,
    msg,
    muted,
)
from vtax.report.document import Row as TableRow
from vtax.report.document import Section as Titled
from vtax.report.parts import shared
from vtax.report.views.base import Options, View
from vtax.stats.intervals import Interval as Bounds

_SECONDS = Scale("s")
_STAGES = {
    "executing": msg("first process or instruction"),
    "agent_ready": msg("agent ready"),
    "server_answer": msg("first answer of a server"),
}


def document(source: Source, _: Options) -> Document:
    """Return a table for every combination of levels; what the bounds mean."""
    confidence = source.analysis.rule.confidence
    made = document_of(stage_times(source.data, source.samples, confidence), source.analysis)
    return shared.of_blocks(made, source.analysis)


def document_of(found: Sequence[StageTimes], analysis: Analysis) -> Document:
    """Return the document of start times."""
    if not found:
        text = msg("No benchmark of this run times starts of guests.")
        return Document(VIEW.title, (Paragraph(text),), data=[], nothing=text)
    parts: list[Part] = []
    for label, levels in dict.fromkeys((each.cell.label, tuple(each.levels.items())) for each in found):
        group = [each for each in found if (each.cell.label, tuple(each.levels.items())) == (label, levels)]
        title = joined([label, Factor(levels_of(dict(levels))) if levels else ""], " · ")
        tables = [_table(group, analysis)]
        if compared := [each for each in group if each.ratios]:
            tables.append(_ratios(compared, analysis))
        parts.append(Titled(title, tuple(tables), subtitle=msg("seconds since the request, lower is better")))
    note = msg(
        "In brackets: {level} intervals between order statistics, free of a distribution, for as many independent "
        "starts as those of the blocks are worth. ∞: the upper bound is not known; for the 99th percentile it needs "
        "at least {starts} independent starts.",
        level=analysis.level, starts=Count(fewest_starts(analysis.rule.confidence)),
    )  # fmt: skip
    return Document(VIEW.title, (*parts, Paragraph(note, "muted")), data=list(found))


def _table(found: Sequence[StageTimes], analysis: Analysis) -> Table:
    titles = {"p50": msg("median (s)"), "p95": msg("95th\npercentile (s)"), "p99": msg("99th\npercentile (s)")}
    columns = [Column("stage", msg("request to")), Column("starts", msg("starts"), is_number=True)]
    for name in QUANTILES:
        columns += [Column(name, titles[name], is_number=True), Column(f"{name}_interval", msg("interval"))]
    groups = []
    for platform in dict.fromkeys(each.cell.platform for each in found):
        rows = [_row(each) for each in found if each.cell.platform == platform]
        groups.append(Group(tuple(rows), analysis.platform_of(platform)))
    return Table(tuple(columns), tuple(groups), key=f"{found[0].cell.label} starts", label=msg("Start times"))


def _ratios(found: Sequence[StageTimes], analysis: Analysis) -> Table:
    """Return the percents of the baseline with their intervals; no verdict looks at them."""
    columns = [Column("stage", msg("request to"))]
    for name, title in (("p50", msg("median")), ("p95", msg("95th\npercentile")), ("p99", msg("99th\npercentile"))):
        columns.append(Column(name, joined([title, msg("[interval]")]), is_number=True))
    groups = []
    for platform in dict.fromkeys(each.cell.platform for each in found):
        rows = [
            TableRow((_STAGES.get(each.stage, each.stage), *map(_relative, each.ratios.values())))
            for each in found
            if each.cell.platform == platform
        ]
        groups.append(Group(tuple(rows), analysis.platform_of(platform)))
    label = msg("Percent of {baseline}", baseline=analysis.baseline)
    return Table(tuple(columns), tuple(groups), key=f"{found[0].cell.label} starts ratios", label=label)


def _relative(found: Bounds) -> Inline:
    """Return a ratio of times as a share of performance."""
    low, high = (1 / found.high, 1 / found.low) if found.low > 0 and math.isfinite(found.high) else (0.0, math.inf)
    return Relative(1 / found.estimate if found.estimate else math.inf, low, high)


def _row(times: StageTimes) -> TableRow:
    cells: list[Inline] = [_STAGES.get(times.stage, times.stage), Count(times.starts)]
    for name in QUANTILES:
        quantile = times.quantiles[name]
        cells += [Quantity(quantile.estimate, _SECONDS, 3), muted(_bounds(quantile))]
    return TableRow(tuple(cells))


def _bounds(quantile: Bounds) -> Inline:
    if math.isfinite(quantile.high) and math.isfinite(quantile.low):
        return Interval(quantile.low, quantile.high, "quantity", _SECONDS)
    if math.isfinite(quantile.low):
        return msg("[{low}, ∞)", low=Quantity(quantile.low, _SECONDS, 3))
    return Nothing()


VIEW = View("starts", msg("Start times"), msg("Start times by stage, with percentiles."), document, 22)
