"""Figures as data, which renderers draw: rows of intervals, and charts of one or two sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vtax.report.document.cells import UNSCALED, Scale
from vtax.report.document.text import Inline

Bounded = tuple[float, float | None, float | None]
"""(value, low, high), None without an interval."""


@dataclass(frozen=True)
class _Figure:
    """A picture as data. kind: how it is drawn. key: its name in files. notes: sentences below it."""

    kind: str
    key: str
    title: Inline
    notes: tuple[Inline, ...]


@dataclass(frozen=True)
class FigureRow:
    """An estimate with its interval, and values: one per block, or as the kind of the figure says.

    shown: None for a name alone. start: where the bar of a waterfall begins. blocks: of the values, from 0.
    minutes: of the values in the run. verdict: None for an interval that is not drawn by its word.
    """

    label: Inline
    colour: int
    shown: Bounded | None
    blocks: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    text: Inline = ""
    minutes: tuple[float, ...] = ()
    verdict: str | None = None
    start: float | None = None


@dataclass(frozen=True)
class FigureGroup:
    """Rows of a figure under a line of their own."""

    title: Inline
    rows: tuple[FigureRow, ...]


@dataclass(frozen=True)
class RowFigure(_Figure):
    """Rows in groups, along one axis.

    kind: `values` are bars from zero, `ratios` lie around 1 with the band of what counts as equivalent. `order` has a
    lane for each group with a value for every trial over the minutes of the run, relative to what is usual in the
    cell (0.02 is 2 % more), and the rows of `loads` below them, from zero. `waterfall` are steps that begin where the
    one before ends. `shares` are parts of a whole that have the names `parts`. value_title, interval_title: of what a
    value and an interval show. margin: of the band. baseline: of the ratios. marks: of `order`, minutes at which
    something else begins, with a name; borders: those at which a block does. dots: what each value is of. Notes have
    no full stop.
    """

    kind: Literal["values", "ratios", "order", "shares", "waterfall"]
    axis: Inline
    groups: tuple[FigureGroup, ...]
    value_title: Inline
    interval_title: Inline
    scale: Scale = UNSCALED
    margin: float = 0.0
    baseline: Inline = ""
    parts: tuple[Inline, ...] = ()
    marks: tuple[tuple[float, Inline], ...] = ()
    borders: tuple[float, ...] = ()
    loads: tuple[FigureRow, ...] = ()
    dots: Literal["block", "host"] = "block"

    @property
    def rows(self) -> list[FigureRow]:
        """All rows that show something, in order."""
        return [row for group in self.groups for row in group.rows if row.shown is not None]


@dataclass(frozen=True)
class ChartValue:
    """One place of a chart. panel, series, y: indexes. x: an index, of lines a number. left, right: what either side
    shows there; printed: what the publication prints, on the left."""

    panel: int
    x: float
    series: int
    y: int = 0
    left: Bounded | None = None
    right: Bounded | None = None
    printed: Bounded | None = None


@dataclass(frozen=True)
class ChartPanel:
    """One drawing of a chart. axis: title of the values, with their unit. left, right: titles of the sides.

    middle: of a heatmap, the value that is neither colour, such as 1 of efficiencies; None for none.
    """

    title: Inline
    axis: Inline
    left: Inline
    right: Inline
    scale: Scale = UNSCALED
    middle: float | None = None


@dataclass(frozen=True)
class ChartSeries:
    """Meaning of a colour, a symbol and a dash. colour: a platform's number, see Platform."""

    label: Inline
    colour: int


@dataclass(frozen=True)
class ChartEvent:
    """Something that happened at an x, on the way between two values. label: what."""

    x: float
    label: Inline


@dataclass(frozen=True)
class Chart(_Figure):
    """A figure in panels: on the left as a publication computes it, on the right with intervals from blocks.

    A `history` has right sides alone: values over Unix times, and events. has_one_side: so does this one, with printed values.

    x_labels, y_labels: of indexes; of lines over numbers (number,
    label). is_banded: of lines, intervals are bands along them. printed: what the sign of printed values means, empty
    without any. bands: of lines over tests, the mean of each series with its interval, on the right. is_share: values
    are shown in percent.
    """

    kind: Literal["bars", "lines", "heatmap", "table", "history"]
    panels: tuple[ChartPanel, ...]
    series: tuple[ChartSeries, ...]
    values: tuple[ChartValue, ...]
    x_title: Inline
    x_labels: tuple[tuple[float, Inline], ...] = ()
    y_title: Inline = ""
    y_labels: tuple[Inline, ...] = ()
    printed: Inline = ""
    bands: tuple[ChartValue, ...] = ()
    events: tuple[ChartEvent, ...] = ()
    log: tuple[Literal["x", "y"], ...] = ()
    is_share: bool = False
    has_one_side: bool = False
    is_banded: bool = False


Figure = RowFigure | Chart
