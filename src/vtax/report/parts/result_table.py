"""The table of a metric: means, ratios with intervals, and verdicts of every platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtax.report.analysis import Row, Section
from vtax.report.document import (
    Bar,
    Column,
    Count,
    Inline,
    Mean,
    Scale,
    Share,
    Table,
    joined,
    msg,
    muted,
    styled,
)
from vtax.report.document.stored_texts import unit_of
from vtax.report.parts import result_costs, shared


def result_table(
    section: Section,
    level: Share,
    baseline: Inline,
    names: Mapping[str, int],
    blocks: int | None = None,
    cost: Section | None = None,
) -> Table:
    """Return a row per platform below every point. level: of the intervals. baseline: what is 100 %.

    blocks: of the run; where a row has others, every row says how many, however little room there is. cost: the CPU
    time that the host spends on a unit of the same work.
    """
    of_rows = {row.blocks.size for row in section.rows if row.summary is not None}
    mean: Inline = msg("mean")
    if len(scales := set(shared.scales_of(section))) == 1:
        mean = msg("mean,\n{unit}", unit=unit_of(scales.pop().unit))
    columns = (
        shared.PLATFORM,
        Column("mean", mean, is_number=True),
        Column("half_width", msg("±{level}", level=level)),
        Column("cv", msg("CV"), is_number=True, room="wide"),
        Column("trials", msg("trials"), is_number=True, room="wide"),
        Column("blocks", msg("blocks"), is_number=True, room="wide" if of_rows <= {blocks} else ""),
        Column("percent", shared.percent_title(baseline, msg("{level} interval", level=level)), is_number=True),
        Column("sketch", msg("percent ◆\ninterval ░"), room="sketch"),
        Column("verdict", msg("verdict")),
        *(result_costs.columns(cost, baseline) if cost else ()),
    )
    costs = result_costs.costs_of(cost) if cost else None

    def cells(row: Row, scale: Scale) -> Sequence[Inline]:
        found = _cells(row, section, scale)
        return found if costs is None else [*found, *result_costs.cells(costs, row)]

    rows = shared.scaled_groups(section, cells, names)
    return Table(columns, rows, key=section.name, label=shared.title_of(section), style="result")


def _cells(row: Row, section: Section, scale: Scale) -> Sequence[Inline]:
    if row.summary is None:
        return ["", "", "", "", "", "", "", _verdict(row)]
    half = (row.summary.high - row.summary.low) / 2
    shown: list[Inline] = [
        Mean(row.summary.mean, half, scale),
        muted(Mean(row.summary.mean, half, scale, "half-width")),
        Share(row.summary.cv), Count(row.summary.n), Count(int(row.blocks.size)),
    ]  # fmt: skip
    if row.platform.is_baseline:
        return [*shown, joined([Share(1.0, "whole"), muted(msg("baseline"))], " "), Bar(1.0, 1.0, 1.0), _verdict(row)]
    if row.ratio is None:
        return [*shown, "", "", _verdict(row)]
    relative = shared.relative_of(row.ratio, section.better)
    bar = Bar(relative.low, relative.estimate, relative.high)
    return [*shown, styled(relative, "strong"), bar, _verdict(row)]


def _verdict(row: Row) -> Inline:
    parts: list[Inline] = []
    if row.verdict is not None:
        parts.append(shared.verdict_of(row.verdict))
    elif row.reason:
        parts.append(styled(row.reason, "error"))
    elif row.ratio is not None:
        parts.append(shared.no_verdict())
    if row.target_missed:
        parts.append(styled(msg("target missed"), "caution"))
    if row.failed:
        parts.append(styled(msg("{count} failed", count=Count(row.failed)), "error"))
    return joined(parts)
