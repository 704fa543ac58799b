"""Sweeps of a run whose study declares no figure of them: factors of numbers, and the axes they are drawn along."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import Literal

from vtax.report.analysis.drawings import drawing_of, figures_of
from vtax.report.analysis.figure_values import Drawing
from vtax.report.analysis.values import Analysis, Section
from vtax.study.claims import number_of
from vtax.study.figures import PLATFORM, FigureTable

_DECADE = 10.0  # largest / smallest level, from which an axis may be logarithmic
_MOST, _MOST_VALUES = 6, 1000  # figures of a report and their values, together less than 1 MB of a page
_MANY_CELLS = 400  # beyond which the page is large without them, and has one

Kind = Literal["lines", "values", "efficiency"]


@dataclass(frozen=True)
class Sweep:
    """A drawing over one factor of numbers (lines), or over two (a heatmap of its values or of efficiencies).

    where: factor -> the only level, of factors that have no axis.
    """

    section: Section
    kind: Kind
    drawing: Drawing
    where: Mapping[str, str]


def sweeps(analysis: Analysis) -> tuple[list[Sweep], int]:
    """(sweeps of all primary metrics, how many more are left out so that the report stays small).

    Metrics that a declared figure draws have none: the same values would be drawn twice. Where there are too many,
    every kind has a figure before any has a second one.
    """
    declared = {(label, metric) for table in figures_of(analysis) for label in table.benchmarks
                for metric in table.metrics}  # fmt: skip
    wanted = [
        (turn, section, kind, table, where) for section in analysis.primary
        if (section.label, section.metric.name) not in declared
        for turn, kind, table, where in _tables(section, analysis)
    ]  # fmt: skip
    cells = sum(len(section.rows) for section in analysis.primary)
    most = 1 if cells > _MANY_CELLS else _MOST
    found: list[Sweep] = []
    left_out = values = 0
    for _, section, kind, table, where in sorted(wanted, key=lambda each: each[0]):
        drawing = drawing_of(analysis, table)
        if len({place.levels[table.x] for place in drawing.places if place.here}) < 2:
            continue
        if len(found) >= most or values + len(drawing.places) > _MOST_VALUES:
            left_out += 1
            continue
        values += len(drawing.places)
        found.append(Sweep(section, kind, drawing, where))
    return found, left_out


def is_logarithmic(numbers: Sequence[float]) -> bool:
    """Return whether an axis is: its numbers span a decade or more, and grow by factors rather than by steps."""
    found = sorted(set(numbers))
    if len(found) < 2 or found[0] <= 0 or found[-1] / found[0] < _DECADE:
        return False
    logs = [math.log(number) for number in found]
    return _unevenness(logs) <= _unevenness(found)


def _unevenness(numbers: Sequence[float]) -> float:
    """Return the largest step between neighbours over the mean step: 1 of numbers at equal distances."""
    steps = [high - low for low, high in pairwise(numbers)]
    return max(steps) * len(steps) / sum(steps)


def _tables(section: Section, analysis: Analysis) -> Iterator[tuple[int, Kind, FigureTable, Mapping[str, str]]]:
    """(its turn, from 0, among figures of the same axes, kind, figure, levels of factors that have no axis).

    Lines over every factor of numbers, and heatmaps over every two.
    """
    varied = _varied(section)
    numbers = {name: _numbers(levels) for name, levels in varied.items()}
    swept = [name for name, found in numbers.items() if found]
    for x in swept:
        log = ["x"] if is_logarithmic(numbers[x]) else []
        rest = sorted((name for name in varied if name != x), key=lambda name: len(varied[name]))
        for turn, where in enumerate(_combined(varied, rest[1:])):
            panel = rest[0] if rest else None
            yield turn, "lines", _table(section, kind="lines", x=x, panel=panel, where=where, log=log), where
    for first, second in combinations(swept, 2):
        x, y = (first, second) if len(varied[first]) >= len(varied[second]) else (second, first)
        for turn, where in enumerate(_combined(varied, [name for name in varied if name not in (x, y)])):
            axes = {"kind": "heatmap", "x": x, "y": y, "panel": PLATFORM, "where": where}
            yield turn, "values", _table(section, **axes), where
            without = [analysis.baseline]
            yield turn, "efficiency", _table(section, **axes, quantity="efficiency", without=without), where


def _combined(varied: Mapping[str, Sequence[str]], names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Return every combination of the levels of these factors."""
    return (dict(zip(names, levels, strict=True)) for levels in product(*(varied[name] for name in names)))


def _varied(section: Section) -> dict[str, list[str]]:
    """Factor -> its levels as text, of those with several."""
    found: dict[str, dict[str, None]] = {}
    for point in section.points:
        for name, level in point.levels.items():
            found.setdefault(name, {})[str(level)] = None
    return {name: list(levels) for name, levels in found.items() if len(levels) > 1}


def _numbers(levels: Sequence[str]) -> list[float]:
    """Levels as numbers; none where one of them is a word."""
    found = [number_of(level) for level in levels]
    known = [number for number in found if number is not None and math.isfinite(number)]
    return known if len(known) == len(found) else []


def _table(section: Section, **given: object) -> FigureTable:
    name = section.name
    text = {"id": "sweep", "title": name, "title_pt": name}
    return FigureTable.model_validate(text | {"benchmark": section.label, "metric": section.metric.name} | given)
