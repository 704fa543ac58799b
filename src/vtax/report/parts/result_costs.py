"""Columns beside a rate or a time: CPU time of the host for a unit of the same work, whatever the limit is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vtax.report.analysis import Row, Section
from vtax.report.document import Column, Inline, Mean, Relative, Scale, Share, msg
from vtax.report.document.stored_texts import unit_of
from vtax.report.parts import shared

Costs = Mapping[tuple[str, str], tuple[Row, Scale]]
"""(platform, key of the point) -> its CPU time of the host for a unit of work, and the scale of that."""


def costs_of(section: Section) -> Costs:
    """Return the rows of a metric of costs, by what tables find them with."""
    return {
        (row.platform.name, point.key): (row, scale)
        for point, scale in zip(section.points, shared.scales_of(section), strict=True)
        for row in point.rows
    }


def columns(section: Section, baseline: Inline) -> tuple[Column, ...]:
    """Return the mean and an interval where there is room for them, and what share of the baseline's it is."""
    unit = unit_of(shared.scale_of(section).unit)
    return (
        Column("host_cpu", msg("host CPU,\n{unit}", unit=unit), is_number=True, room="wide"),
        Column("host_cpu_percent", msg("host CPU, percent\nof {baseline}", baseline=baseline), is_number=True),
        Column("host_cpu_interval", msg("interval"), room="wide"),
    )


def cells(costs: Costs, row: Row) -> Sequence[Inline]:
    """Return what the columns show of a row."""
    found, scale = costs.get((row.platform.name, row.cell.point), (None, Scale("")))
    if found is None or found.summary is None:
        return "", "", ""
    mean = Mean(found.summary.mean, (found.summary.high - found.summary.low) / 2, scale)
    if found.platform.is_baseline:
        return mean, Share(1.0, "whole"), ""
    if found.ratio is None:
        return mean, "", ""
    shown = Relative(found.ratio.estimate, found.ratio.low, found.ratio.high, "amount", "estimate")
    return mean, shown, replace(shown, shows="interval")
