"""A chart as data: a figure of a publication, twice side by side, with the statistics of each side named.

A history, values over time, has one side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vtax.report.document.cells import UNSCALED, Scale
from vtax.report.document.text import Inline

Bounded = tuple[float, float | None, float | None]
"""(value, low, high), None without an interval."""


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
    """Something that happened at an x of a panel, on the way between two values. label: what."""

    panel: int
    x: float
    label: Inline


@dataclass(frozen=True)
class Chart:
    """A figure of a publication: on the left as the publication computes it, on the right with intervals from blocks.

    A `history` has right sides alone: values over Unix times, and events. has_one_side: so does this one.
    has_one_range: the axes of all panels have one range, so that panels can be compared.

    key: its id. notes: sentences below it. x_labels, y_labels: of indexes; of lines over numbers (number,
    label). is_banded: of lines, intervals are bands along them. printed: what the sign of printed values means, empty
    without any. bands: of lines over tests, the mean of each series with its interval, on the right. is_share: values
    are shown in percent.
    """

    kind: Literal["bars", "lines", "heatmap", "table", "history"]
    key: str
    title: Inline
    notes: tuple[Inline, ...]
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
    has_one_range: bool = False
    is_banded: bool = False
