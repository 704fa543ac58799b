"""Errors of a pivot: no figure is left, or several for one place, with what to type instead."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

from vtax.errors import BadInput
from vtax.levels import BENCHMARK, METRIC, PLATFORM, TOPOLOGY, Levels
from vtax.question import Selection, residue
from vtax.report.analysis.factors import PARTS
from vtax.report.analysis.values import Analysis

if TYPE_CHECKING:
    from vtax.report.answers.pivot.compute import Axes, PivotCell

_MOST_LEVELS = 6  # that an error lists


def no_figure(analysis: Analysis, axes: Axes, metric: str, where: Selection) -> BadInput:
    """Return the error for axes and conditions that leave no figure."""
    what = f"with {where.show(', ')}" if where else ""
    wanted = f"a level of {' and '.join(axes.names)}"
    of_metric = f" of {metric}" if metric else " of a primary metric"
    return BadInput(
        f"no figure{of_metric} of {analysis.name} {what} has {wanted}".replace("  ", " "),
        hint="--all includes metrics that are not primary; vtax show prints what each benchmark has",
    )


def several_figures(axes: Axes, cells: Sequence[PivotCell]) -> BadInput:
    """Return the error for figures that share a place: what they differ in, and what to type."""
    varied = {factor for cell in cells for factor in cell.row.cell.levels}
    factors = {PLATFORM, BENCHMARK, METRIC, TOPOLOGY, *varied, *PARTS}
    found = residue([Levels(cell.levels).only(factors) for cell in cells], axes.names)
    order = (BENCHMARK, METRIC, TOPOLOGY, *sorted(found))
    differing = {name: found[name] for name in order if name in found}
    if BENCHMARK in differing:  # whose settings differ with it
        differing = {BENCHMARK: differing[BENCHMARK]}
    listed = [f"{name} ({_some(levels)})" for name, levels in differing.items()]
    name, levels = next(iter(differing.items()), ("", [""]))
    options = (("--cols", axes.columns), ("--panel", axes.panels))
    free = next((axis for axis, used in options if not used), "")
    one = {
        BENCHMARK: f"--benchmark {quote(levels[0])}",
        METRIC: f"--metric {quote(levels[0])}",
        PLATFORM: f"--platform {quote(levels[0])}",
    }.get(name, f"--where {quote(f'{name}={levels[0]}')}")
    return BadInput(
        f"several figures are left for each place; they differ in {', '.join(listed)}",
        hint=f"choose a level: {one}; or show all: {free} {name}"
        if free
        else f"choose a level: {one}",
    )


def _some(levels: Sequence[str]) -> str:
    more = f", and {len(levels) - _MOST_LEVELS} more" if len(levels) > _MOST_LEVELS else ""
    return ", ".join(levels[:_MOST_LEVELS]) + more
