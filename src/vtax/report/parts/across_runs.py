"""What a contrast across runs shows beside its ratios: the range of the next sessions, and the ratio of ratios."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vtax.report.analysis.compared import Compared, Contrasts
from vtax.report.document import (
    Column,
    Count,
    Factor,
    Group,
    Inline,
    Paragraph,
    Part,
    Share,
    Table,
    joined,
    levels_of,
    msg,
)
from vtax.report.document import Row as TableRow
from vtax.report.document import Section as Titled
from vtax.report.parts import shared
from vtax.stats.ratio import Ratio as Estimate


def interval_title(found: Contrasts, ratios: Sequence[Estimate | None]) -> Inline:
    """Return the head of a column of intervals; it names those that say nothing of another session."""
    level = Share(found.confidence, "declared")
    known = [ratio for ratio in ratios if ratio is not None]
    if known and all(map(found.is_of_one_session, known)):
        return msg("{level} interval of these sessions", level=level)
    return msg("{level} interval", level=level)


def notes(compared: Sequence[Compared], found: Contrasts) -> Iterator[Part]:
    """Yield a sentence where an interval of a mean is over sessions and that of its ratio over blocks."""
    several = [side for side in (found.treatment, found.baseline)
               if sum(len(run.analysis.sessions) for run in side.runs) > 1]  # fmt: skip
    if several and any(found.is_of_one_session(each.ratio) for each in compared):
        text = msg("± of {run} is over sessions, the interval of the percent over blocks", run=several[0].name)
        yield Paragraph(text, "muted")


def parts(compared: Sequence[Compared], found: Contrasts) -> Iterator[Part]:
    """Yield a table of each; none where there is nothing for it."""
    if found.is_paired:
        return
    if rows := list(_next(compared)):
        columns: tuple[Column, ...] = (
            shared.PLATFORM,
            Column("metric", msg("metric"), wraps=True),
            Column("sessions", msg("sessions\nper side"), is_number=True),
            Column("percent", msg("percent of {baseline}", baseline=found.baseline.name), is_number=True),
            Column("next", msg("the next sessions,\n{level}", level=Share(found.confidence, "declared"))),
        )
        yield _section(msg("Next sessions"), "next-sessions", columns, rows)
    if rows := list(_relative(compared)):
        interval = interval_title(found, [each.relative for each in compared])
        title = msg("percent of {run}, both relative\nto {baseline} [{interval}]", run=found.baseline.name,
                    baseline=found.common_baseline, interval=interval)  # fmt: skip
        columns = (
            shared.PLATFORM,
            Column("metric", msg("metric"), wraps=True),
            Column("ratio_of_ratios", title, is_number=True),
        )
        note = msg(
            "Effects common to a platform and to {baseline} cancel.",
            baseline=found.common_baseline,
        )
        title = msg("Relative to {baseline}", baseline=found.common_baseline)
        yield _section(title, "ratio-of-ratios", columns, rows, Paragraph(note, "muted"))


def _section(
    title: Inline, key: str, columns: tuple[Column, ...], rows: Sequence[TableRow], *further: Part
) -> Titled:
    table = Table(columns, (Group(tuple(rows)),), key=key, label=title, style="result")
    return Titled(title, (table, *further), key=key)


def _next(compared: Sequence[Compared]) -> Iterator[TableRow]:
    for each in compared:
        ratio, better = each.ratio, each.section.better
        if ratio is None or ratio.predicted_low is None or ratio.predicted_high is None:
            continue
        shown = replace(shared.relative_of(ratio, better), shows="estimate")
        yield TableRow((*_names(each), Count(ratio.n_sessions), shown, shared.predicted_of(ratio, better)))


def _relative(compared: Sequence[Compared]) -> Iterator[TableRow]:
    for each in compared:
        if (ratio := each.relative) is not None:
            yield TableRow((*_names(each), shared.relative_of(ratio, each.section.better)))


def _names(each: Compared) -> tuple[Inline, Inline]:
    name = joined([each.section.name, Factor(levels_of(each.levels)) if each.levels else ""])
    return shared.platform_of(each.treatment.platform), name
