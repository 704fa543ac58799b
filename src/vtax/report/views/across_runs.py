"""What a contrast across runs shows beside its ratios: the ratio of ratios, and the range of the next sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vtax.report.analysis.compared import Compared, Contrasts
from vtax.report.document import (
    Column,
    Count,
    Factor,
    Group,
    Inline,
    Interval,
    Nothing,
    Part,
    Ratio,
    Share,
    Table,
    joined,
    levels_of,
    msg,
)
from vtax.report.document import Row as TableRow
from vtax.report.document import Section as Titled
from vtax.report.views import shared
from vtax.stats.ratio import Ratio as Estimate


def parts(compared: Sequence[Compared], found: Contrasts) -> Iterator[Part]:
    """A table of both; nothing where there is neither."""
    has_relative = any(each.relative for each in compared)
    has_sessions = any(each.ratio and each.ratio.n_sessions > 1 for each in compared)
    if found.is_paired or not (has_relative or has_sessions):
        return
    level = Share(found.confidence, "declared")
    columns = [shared.PLATFORM, Column("metric", msg("metric"), wraps=True)]
    if has_relative:
        title = msg("ratio of ratios\nto {baseline}", baseline=found.common_baseline)
        columns.append(Column("ratio_of_ratios", title, is_number=True))
        columns.append(Column("interval", msg("{level}\ninterval", level=level), joins=True))
    if has_sessions:
        columns.append(Column("sessions", msg("sessions\nper side"), is_number=True))
        columns.append(Column("next", msg("ratio of the next\nsessions, {level}", level=level)))
    rows = []
    for each in compared:
        name = joined([each.section.name, Factor(levels_of(each.levels)) if each.levels else ""])
        cells: list[Inline] = [shared.platform_of(each.treatment.platform), name]
        cells += _estimate(each.relative) if has_relative else []
        cells += _next(each.ratio) if has_sessions else []
        rows.append(TableRow(tuple(cells)))
    title = msg("Ratio of ratios") if has_relative else msg("Next sessions")
    table = Table(tuple(columns), (Group(tuple(rows)),), key="across-runs", label=title, style="result")
    yield Titled(title, (table,), key="across-runs")


def _estimate(ratio: Estimate | None) -> list[Inline]:
    if ratio is None:
        return [Nothing(), ""]
    return [Ratio(ratio.estimate), Interval(ratio.low, ratio.high, "ratio")]


def _next(ratio: Estimate | None) -> list[Inline]:
    if ratio is None or ratio.predicted_low is None or ratio.predicted_high is None:
        return [Nothing(), Nothing()]
    return [Count(ratio.n_sessions), Interval(ratio.predicted_low, ratio.predicted_high, "ratio")]
