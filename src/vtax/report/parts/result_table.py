"""The table of a metric: means, ratios with intervals, and verdicts of every platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vtax.report import document as doc
from vtax.report.analysis import Row, Section
from vtax.report.document import joined, msg, muted, scale_for, styled
from vtax.report.document.terms import unit_of
from vtax.report.parts import shared

_Costs = Mapping[tuple[str, str], tuple[Row, doc.Scale]]
"""(platform, key of the point) -> its CPU time of the host for a unit of work, and the scale of that."""


def result_table(
    section: Section,
    level: doc.Share,
    baseline: doc.Inline,
    names: Mapping[str, int],
    blocks: int | None = None,
    cost: Section | None = None,
) -> doc.Table:
    """Return a row per platform below every point. level: of the intervals. baseline: what is 100 %.

    blocks: of the run; where a row has others, every row says how many, however little room there is. cost: the CPU
    time that the host spends on a unit of the same work.
    """
    of_rows = {row.blocks.size for row in section.rows if row.summary is not None}
    mean: doc.Inline = msg("mean")
    if len(scales := set(shared.scales_of(section))) == 1:
        mean = msg("mean,\n{unit}", unit=unit_of(scales.pop().unit))
    columns = (
        shared.PLATFORM,
        doc.Column("mean", mean, is_number=True),
        doc.Column("half_width", msg("±{level}", level=level), of="mean"),
        doc.Column("cv", msg("CV"), is_number=True, room="wide"),
        doc.Column("trials", msg("trials"), is_number=True, room="wide"),
        doc.Column(
            "blocks", msg("blocks"), is_number=True, room="wide" if of_rows <= {blocks} else ""
        ),
        doc.Column(
            "percent",
            _share_title(section, baseline, msg("{level} interval", level=level)),
            is_number=True,
        ),
        doc.Column("sketch", msg("percent ◆\ninterval ░"), room="sketch"),
        doc.Column("verdict", msg("verdict")),
        *(_cost_columns(cost, baseline) if cost else ()),
    )
    costs = _costs_of(cost) if cost else None
    has_units = len({scale.unit for _, scale in (costs or {}).values()}) > 1

    def cells(row: Row, scale: doc.Scale) -> Sequence[doc.Inline]:
        row_cells = _cells(row, section, scale)
        return (
            row_cells
            if costs is None
            else [*row_cells, *_cost_cells(costs, row, has_units=has_units)]
        )

    rows = shared.scaled_groups(section, cells, names)
    return doc.Table(
        columns, rows, key=section.name, label=shared.title_of(section), style="result"
    )


def _cells(row: Row, section: Section, scale: doc.Scale) -> Sequence[doc.Inline]:
    if row.summary is None:
        return ["", "", "", "", "", "", "", _verdict(row, section)]
    row_cells: list[doc.Inline] = [
        *shared.mean_cells(row, scale),
        doc.Share(row.summary.cv),
        doc.Count(row.summary.n),
        doc.Count(int(row.blocks.size)),
    ]
    if row.platform.is_baseline:
        return [
            *row_cells,
            _baseline_cell(section),
            doc.Bar(1.0, 1.0, 1.0),
            _verdict(row, section),
        ]
    if row.ratio is None:
        return [*row_cells, "", "", _verdict(row, section)]
    relative = shared.relative_of(row.ratio, section)
    bar = doc.Bar(relative.low, relative.estimate, relative.high)
    return [*row_cells, styled(relative, "strong"), bar, _verdict(row, section)]


def _share_title(section: Section, baseline: doc.Inline, interval: doc.Inline) -> doc.Inline:
    """Return the head of the column of ratios."""
    if not shared.is_inverse(section):
        return shared.percent_title(baseline, interval)
    return msg("against {baseline}\n[{interval}]", baseline=baseline, interval=interval)


def _baseline_cell(section: Section) -> doc.Inline:
    word = muted(msg("baseline"))
    return word if shared.is_inverse(section) else joined([doc.Share(1.0, "whole"), word], " ")


def _verdict(row: Row, section: Section) -> doc.Inline:
    parts: list[doc.Inline] = []
    if row.verdict is not None:
        parts.append(shared.verdict_of(row.verdict, row.ratio, section))
    elif row.reason:
        parts.append(styled(row.reason, "error"))
    elif row.ratio is not None:
        parts.append(shared.no_verdict(section))
    if row.target_missed:
        parts.append(styled(msg("target missed"), "caution"))
    if row.failed:
        parts.append(styled(msg("{count} failed", count=doc.Count(row.failed)), "error"))
    return joined(parts)


def _costs_of(section: Section) -> _Costs:
    """Return the rows of a metric of costs, by what tables find them with."""
    return {
        (row.platform.name, point.key): (row, scale)
        for point, scale in zip(section.points, _cost_scales(section), strict=True)
        for row in point.rows
    }


def _cost_scales(section: Section) -> list[doc.Scale]:
    """Return the unit of each point's costs."""
    return [
        scale_for(section.metric.unit, [r.summary.mean for r in p.rows if r.summary])
        for p in section.points
    ]


def _cost_columns(section: Section, baseline: doc.Inline) -> tuple[doc.Column, ...]:
    """Return the mean and an interval where there is room for them, and what share of the baseline's it is."""
    units = {scale.unit for scale in _cost_scales(section)}
    title = (
        msg("host CPU,\n{unit}", unit=unit_of(units.pop())) if len(units) == 1 else msg("host CPU")
    )
    return (
        doc.Column("host_cpu", title, is_number=True, room="wide"),
        doc.Column(
            "host_cpu_percent",
            msg("host CPU, percent\nof {baseline}", baseline=baseline),
            is_number=True,
            room="spare",
        ),
        doc.Column("host_cpu_interval", msg("interval"), room="wide", of="host_cpu_percent"),
    )


def _cost_cells(costs: _Costs, row: Row, *, has_units: bool) -> Sequence[doc.Inline]:
    """Return what the columns of costs show of a row. has_units: points have different ones."""
    cost_row, scale = costs.get((row.platform.name, row.cell.point), (None, doc.Scale("")))
    if cost_row is None or cost_row.summary is None:
        return "", "", ""
    number = doc.Mean(
        cost_row.summary.mean, (cost_row.summary.high - cost_row.summary.low) / 2, scale
    )
    mean = joined([number, unit_of(scale.unit)], " ") if has_units else number
    if cost_row.platform.is_baseline:
        return mean, doc.Share(1.0, "whole"), ""
    if cost_row.ratio is None:
        return mean, "", ""
    share_cell = doc.Relative(
        cost_row.ratio.estimate, cost_row.ratio.low, cost_row.ratio.high, "amount", "estimate"
    )
    return mean, share_cell, replace(share_cell, shows="interval")
