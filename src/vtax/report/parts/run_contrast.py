"""Two whole runs against each other: a row per platform and point that both have, and what only one of them has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from vtax.report.analysis import Row
from vtax.report.analysis.compared import Compared, Contrasts
from vtax.report.document import (
    Bullets,
    Column,
    Count,
    Factor,
    Group,
    Inline,
    Mean,
    Message,
    Part,
    Scale,
    Share,
    Table,
    first_of,
    joined,
    levels_of,
    msg,
    muted,
    plural,
    styled,
)
from vtax.report.document import Row as TableRow
from vtax.report.document import Section as Titled
from vtax.report.document.stored_texts import unit_of
from vtax.report.parts import across_runs, shared
from vtax.stats.verdict import Kind
from vtax.store.records import CellRecord

_MAX_NAMED = 8
_KINDS: dict[Kind, Message] = {
    "slower": msg("slower"), "faster": msg("faster"), "equivalent": msg("equivalent"), "undecided": msg("undecided"),
}  # fmt: skip


def table(compared: Sequence[Compared], found: Contrasts) -> Table:
    """Of one metric: both means, their ratio with its interval, and the verdict on the treatment."""
    scale = shared.scale_of(compared[0].section)
    level = Share(found.confidence, "declared")
    half = msg("±{level}", level=level)
    interval = across_runs.interval_title(found, [each.ratio for each in compared])
    columns = (
        shared.PLATFORM,
        Column("treatment_mean", _heading(found.treatment.name, scale), is_number=True),
        Column("treatment_half_width", half, room="wide"),
        Column("baseline_mean", _heading(found.baseline.name, scale), is_number=True),
        Column("baseline_half_width", half, room="wide"),
        Column("percent", shared.percent_title(found.baseline.name, interval), is_number=True),
        Column("verdict", msg("verdict")),
    )
    groups = [
        Group(
            tuple(TableRow((shared.platform_of(each.treatment.platform), *_cells(each, scale))) for each in of_point),
            Factor(levels) if levels else "",
        )
        for levels, of_point in groupby(compared, key=lambda each: levels_of(each.levels))
    ]
    section = compared[0].section
    return Table(columns, tuple(groups), key=section.name, label=shared.title_of(section), style="result")


def _heading(run: str, scale: Scale) -> Inline:
    return msg("{run},\n{unit}", run=run, unit=unit_of(scale.unit))


def _cells(each: Compared, scale: Scale) -> list[Inline]:
    cells = [*_mean(each.treatment, scale), *_mean(each.baseline, scale)]
    if each.ratio is None:
        return [*cells, "", styled(each.reason, "error")]
    verdict = shared.verdict_of(each.verdict) if each.verdict else shared.no_verdict()
    return [*cells, styled(shared.relative_of(each.ratio, each.section.better), "strong"), verdict]


def _mean(row: Row, scale: Scale) -> tuple[Inline, Inline]:
    if row.summary is None:
        return "", ""
    half = (row.summary.high - row.summary.low) / 2
    return Mean(row.summary.mean, half, scale), muted(Mean(row.summary.mean, half, scale, "half-width"))


def summary(found: Contrasts, shown: Sequence[Compared]) -> Iterator[Part]:
    """Yield how many verdicts there are of each kind and where, then the cells that are not compared, and why."""
    if shown:
        yield Titled(msg("Summary"), (Bullets(tuple(_counts(found, shown))),), key="answer", role="summary")
    if found.mismatched:
        names = [joined([_name(each.treatment), joined(each.reasons, "; ")], ": ") for each in found.mismatched]
        title = msg("Settings differ, not compared")
        yield Titled(title, (Bullets(tuple(first_of(names, _MAX_NAMED))),), key="mismatched")
    unmatched = (found.treatment, found.unmatched.treatment), (found.baseline, found.unmatched.baseline)
    for side, cells in unmatched:
        if cells:
            title = msg("Only in {run}, not compared", run=side.name)
            yield Titled(
                title,
                (Bullets(tuple(first_of(list(map(_name, cells)), _MAX_NAMED))),),
                key=f"only-{side.analysis.name}",
            )


def _counts(found: Contrasts, shown: Sequence[Compared]) -> Iterator[Inline]:
    run = found.treatment.name
    for kind, word in _KINDS.items():
        names = [_place(each) for each in shown if each.verdict is not None and each.verdict.kind == kind]
        if len(names) == len(shown):
            yield msg("{run} is {verdict} in all {count}", run=run, verdict=word, count=Count(len(names)))
        elif names:
            text = msg(
                "{run} is {verdict} in {count} of {total}", run=run, verdict=word,
                count=Count(len(names)), total=Count(len(shown)),
            )  # fmt: skip
            yield joined([text, joined(first_of(names, _MAX_NAMED), "; ")], ": ")
    if unjudged := [each for each in shown if each.ratio is not None and each.verdict is None]:
        names = [_place(each) for each in unjudged] if len(unjudged) < len(shown) else []
        yield joined([unjudged[0].reason, joined(first_of(names, _MAX_NAMED), "; ")], ": ")
    if without := [_place(each) for each in shown if each.ratio is None]:
        yield joined([plural("{count} has no result", "{count} have no result", len(without)),
                      joined(first_of(without, _MAX_NAMED), "; ")], ": ")  # fmt: skip


def _place(each: Compared) -> Inline:
    return joined(
        [each.treatment.platform.name, each.section.name, Factor(levels_of(each.levels)) if each.levels else ""]
    )


def _name(cell: CellRecord) -> Inline:
    return joined([cell.platform, cell.label, Factor(levels_of(cell.levels)) if cell.levels else ""])
