"""Any recorded factor of a run as rows, columns and panels: the figures of the result, arranged anew.

A factor is whatever tells two figures apart: the platform, the benchmark, its metric, the topology, a factor of the
study, a setting that all cells share, and which part of the run a figure is of (its block, session or host).

Whole cells have the means, ratios and intervals of the result. A part has the mean of its blocks' means and the ratio
within its blocks, each with an interval over these blocks (over sessions, where it has several). A figure as percent
of that at another level is a ratio within blocks, of percents of the baseline a ratio of ratios. Nothing is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from shlex import quote
from typing import Annotated

from vtax.described import BESIDE, Means, Only
from vtax.errors import BadInput
from vtax.grouping import by_key
from vtax.levels import (
    BENCHMARK,
    HOST,
    METRIC,
    PLATFORM,
    TOPOLOGY,
    KnownLevels,
    Levels,
    unknown,
)
from vtax.question import EVERYTHING, Selection, residue
from vtax.report import document as doc
from vtax.report.analysis.factors import (
    BLOCK,
    PARTS,
    SESSION,
    factors_of,
    first_spellings,
    ordered,
    recorded,
)
from vtax.report.analysis.sessions import MeasuredSession
from vtax.report.analysis.source import Source
from vtax.report.analysis.values import (
    Analysis,
    Estimate,
    OfSection,
    ResultPoint,
    Row,
    Section,
    every_row,
)
from vtax.report.analysis.warnings import at_places
from vtax.report.answers.hosts.compute import hosts_of
from vtax.report.answers.pivot.values import PERCENTILES, Quantity, Values, blocks_in
from vtax.report.document import levels_of, msg
from vtax.store.records import CellRecord, UntestedRecord

TablePlace = tuple[str, str, str]
"""(level of the panel, of the row, of the column); empty where there is no such axis."""

_NOT_HERE = msg("not in this run")
_MOST_LEVELS = 6  # that an error lists


@dataclass(frozen=True)
class Axes:
    """Names of factors. columns, panels: empty for none."""

    rows: Annotated[str, Means("factor", name="row")] = PLATFORM
    columns: Annotated[str, Means("factor, or empty", name="column")] = ""
    panels: Annotated[str, Means("factor, or empty", name="panel")] = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Those that there are: panels, rows, columns."""
        return tuple(name for name in (self.panels, self.rows, self.columns) if name)


@dataclass(frozen=True)
class PivotCell(OfSection):
    """A figure and what it is of. levels: of every recorded factor. value: None where there is none, for a reason.

    is_whole: whether it is of all blocks of its cell, and so has the verdict of the row.
    """

    section: Section
    row: Annotated[
        Row,
        Means("platform of its cell; null without one", name="platform", take="platform.name"),
        Means("factor -> level of it, or null", name="levels", take="cell.levels"),
    ]
    levels: Mapping[str, str]
    value: Annotated[Estimate | None, BESIDE]
    unit: Annotated[str, Means("unit of a mean; empty for ratios and shares, fractions of 1")]
    blocks: Annotated[int, Means("blocks that the value is of")]
    is_whole: bool
    reason: doc.Inline = ""

    @property
    def verdict(
        self,
    ) -> Annotated[
        str | None, Means("of the result; null of a part of the run and of the baseline")
    ]:
        """The word of its row."""
        return self.row.verdict.kind if self.row.verdict and self.is_whole else None


@dataclass(frozen=True)
class PivotPlace:
    """A place of the table. cell: None where the run has none."""

    panel: Annotated[str, Means("its level")]
    row: Annotated[str, Means("its level")]
    column: Annotated[str, Means("its level")]
    cell: Annotated[
        PivotCell | None,
        Only(
            "row.platform.name",
            "label",
            "metric.name",
            "unit",
            "row.cell.levels",
            "value.value",
            "value.low",
            "value.high",
            "blocks",
            "verdict",
        ),
    ]
    reason: Annotated[doc.Inline, Means("why there is no value; empty where there is one")]


@dataclass(frozen=True)
class Pivot:
    """Figures by the levels of up to three factors.

    panels, rows, columns: platforms in the order of the run, numbers ascending; one empty level for an axis that is
    not there. empty: why places have no figure. where: factor -> levels. warnings: of the cells that are shown,
    and of the whole run.
    """

    analysis: Annotated[Analysis, Only("confidence", "baseline")]
    axes: Annotated[Axes, Means("names of factors", name="factors")]
    quantity: Annotated[
        Quantity, Means("`mean`, `efficiency`, `p50`, `p95` or `p99`", name="value")
    ]
    panels: Annotated[
        tuple[str, ...],
        Means("their levels, in the order of the run; an empty one without a factor"),
    ]
    rows: Annotated[tuple[str, ...], Means("likewise")]
    columns: Annotated[tuple[str, ...], Means("likewise")]
    cells: Mapping[TablePlace, PivotCell]
    empty: Mapping[TablePlace, doc.Inline]
    where: Annotated[Selection, Means("factor -> levels that are shown", take="choices")]
    to: Annotated[
        Selection, Means("factor -> level whose figures are 1; empty for none", take="choices")
    ]
    warnings: Annotated[
        tuple[doc.Warning, ...], Means("those of the whole run, and of the cells that are shown")
    ]

    @property
    def places(
        self,
    ) -> Annotated[tuple[PivotPlace, ...], Means("every combination of levels", name="cells")]:
        """All places, those with a cell first."""
        return tuple(
            PivotPlace(*place, self.cells.get(place), self.empty.get(place, ""))
            for place in dict.fromkeys((*self.cells, *self.empty))
        )

    @property
    def is_relative(self) -> bool:
        """Whether the values are shares of 1, more being better, rather than of the metric's unit."""
        return bool(self.to) or self.quantity == "efficiency"

    def is_reference(self, cell: PivotCell) -> bool:
        """Return whether a figure is what others are percents of."""
        if self.quantity == "efficiency" and cell.row.platform.is_baseline:
            return True
        return bool(self.to) and self.to.selects(Levels(cell.levels))

    @property
    def sections(self) -> list[Section]:
        """The sections of the figures, each once."""
        return list({id(cell.section): cell.section for cell in self.cells.values()}.values())

    def rows_of(self, panel: str) -> tuple[str, ...]:
        """Return the rows of a panel: those with a figure there, or a reason why there is none."""
        places = {*self.cells, *self.empty}
        rows = {row for at_panel, row, _ in places if at_panel == panel}
        return tuple(row for row in self.rows if row in rows)


def pivot(
    source: Source,
    axes: Axes,
    quantity: Quantity,
    *,
    metric: str = "",
    where: Iterable[str] = (),
    to: str = "",
    every_metric: bool = False,
) -> Pivot:
    """Return the figures of a run by factors. metric: the only one, else the primary ones, or all. where:
    `FACTOR=LEVEL`. to: `FACTOR=LEVEL`, whose figures are 100 %, and the columns without others; empty for none.

    Raises BadInput for a factor, level or metric that the run does not have, for axes that are the same, when no
    figure is left, and when several are left for one place.
    """
    return _PivotBuilder(source, axes, quantity, metric, tuple(where), to, every_metric).built()


class _PivotBuilder:
    """Collects the figures of a pivot and their places."""

    def __init__(
        self,
        source: Source,
        axes: Axes,
        quantity: Quantity,
        metric: str,
        where: Sequence[str],
        to: str,
        every_metric: bool,
    ) -> None:
        self.analysis, self.quantity, self.every_metric = source.analysis, quantity, every_metric
        self.known = self._known_levels()
        self.to = EVERYTHING
        if to:
            self.to = Selection(dict([self.known.find(to, "--to", "write --to FACTOR=LEVEL")]))
        if not_compared := next(iter(self.to.only((BENCHMARK, METRIC, *PARTS)).choices), ""):
            raise BadInput(
                f"figures of one {not_compared} are no percent of another's",
                where="--to",
                hint="name the platform or a factor",
            )
        rows, columns, panels = (
            self.known.find_factor(name, option) if name else ""
            for name, option in (
                (axes.rows, "--rows"),
                (axes.columns, "--cols"),
                (axes.panels, "--panel"),
            )
        )
        if not columns:
            columns = next(iter(self.to.without((rows, panels)).choices), "")
        self.axes = Axes(rows, columns, panels)
        if len(set(self.axes.names)) < len(self.axes.names):
            raise BadInput(
                f"rows, columns and panels are of different factors, not {', '.join(self.axes.names)}",
                hint="name each factor once",
            )
        self.metric = self._metric(metric)
        form = "write --where FACTOR=LEVEL"
        self.where = Selection.parse(where, self.known, "--where", form)
        self.values = Values(source, quantity, self.to)

    def built(self) -> Pivot:
        """Return the pivot."""
        pivot_cells = list(self._cells())
        if not pivot_cells:
            raise no_figure(self.analysis, self.axes, self.metric, self.where)
        spellings = {}
        for name in self.axes.names:
            spellings[name] = first_spellings(name, (cell.levels[name] for cell in pivot_cells))
        at_place = by_key((self._place(cell.levels, spellings), cell) for cell in pivot_cells)
        for rivals in at_place.values():
            if len(rivals) > 1:
                raise several_figures(self.axes, rivals)
        cells = {place: rivals[0] for place, rivals in at_place.items()}
        platforms = [platform.name for platform in self.analysis.platforms]
        at_panels, at_rows, at_columns = zip(*cells, strict=True)
        panels = ordered(self.axes.panels, at_panels, platforms)
        rows = ordered(self.axes.rows, at_rows, platforms)
        columns = ordered(self.axes.columns, at_columns, platforms)
        return Pivot(
            self.analysis,
            self.axes,
            self.quantity,
            panels,
            rows,
            columns,
            cells,
            self._empty(cells, panels, rows, columns),
            self.where,
            self.to,
            self._warnings(pivot_cells),
        )

    def _empty(
        self,
        cells: Mapping[TablePlace, PivotCell],
        panels: Sequence[str],
        rows: Sequence[str],
        columns: Sequence[str],
    ) -> dict[TablePlace, doc.Inline]:
        """Return why places have no figure; lines without any cell that could be here are left out."""
        empty: dict[TablePlace, doc.Inline] = {}
        for panel, row in product(panels, rows):
            reasons: dict[TablePlace, doc.Inline] = {}
            for column in columns:
                place = panel, row, column
                if place not in cells:
                    reasons[place] = self._why_empty(place)
                elif cells[place].value is None:
                    reasons[place] = cells[place].reason
            has_cell = any((panel, row, column) in cells for column in columns)
            if has_cell or any(reason != _NOT_HERE for reason in reasons.values()):
                empty |= reasons
        return empty

    def _metric(self, text: str) -> str:
        names = list(dict.fromkeys(section.metric.name for section in self.analysis.sections))
        metric = next((name for name in names if name.casefold() == text.strip().casefold()), "")
        if text and not metric:
            raise unknown("metric", text, names, "--metric", self.analysis.name)
        return metric

    def _known_levels(self) -> KnownLevels:
        """Return every factor of the run with its levels, in the order of the run."""
        cells = (
            recorded(row.cell, section.metric.name)
            for section, _, row in every_row(self.analysis.sections)
        )
        parts = (labels for labels, _ in self._blocks())
        return KnownLevels(self.analysis.name, chain(cells, parts), factors_of(self.analysis))

    def _blocks(self) -> Iterator[tuple[dict[str, str], MeasuredSession]]:
        """(level of every part, its session with this block alone) of every block."""
        names = {}
        for host in hosts_of(self.analysis):
            names.update(dict.fromkeys(host.numbers, host.name))
        for session in self.analysis.sessions:
            for block in session.blocks:
                labels = {
                    BLOCK: str(block + 1),
                    SESSION: str(session.number),
                    HOST: names[session.number],
                }
                yield labels, replace(session, blocks=(block,))

    def _cells(self) -> Iterator[PivotCell]:
        """Yield every figure that is shown."""
        parts = [
            (labels, sessions)
            for labels, sessions in self._parts()
            if self.where.only(PARTS).selects(Levels(labels))
        ]
        of_cells = self.where.without(PARTS)
        axes = {*self.axes.names} - {*PARTS}
        for section in self.analysis.sections:
            if self.metric and section.metric.name != self.metric:
                continue
            if not (
                self.metric
                or self.every_metric
                or section.metric.is_primary
                or METRIC in self.where.choices
            ):
                continue
            for point in section.points:
                for row in point.rows:
                    levels = recorded(row.cell, section.metric.name)
                    if axes <= levels.keys() and of_cells.selects(Levels(levels)):
                        for labels, sessions in parts:
                            yield self._cell(section, point, row, {**levels, **labels}, sessions)

    def _parts(self) -> Iterator[tuple[dict[str, str], list[MeasuredSession]]]:
        """(levels, sessions with their blocks) of every part that axes or conditions tell apart; else all at once."""
        part_names = [
            name for name in PARTS if name in self.axes.names or name in self.where.choices
        ]
        if not part_names:
            yield {}, []
            return
        groups: dict[tuple[str, ...], dict[int, MeasuredSession]] = {}
        for labels, session in self._blocks():
            group = groups.setdefault(tuple(labels[name] for name in part_names), {})
            session_so_far = group.get(session.number)
            blocks = (*session_so_far.blocks, *session.blocks) if session_so_far else session.blocks
            group[session.number] = replace(session, blocks=blocks)
        for key, sessions in groups.items():
            yield dict(zip(part_names, key, strict=True)), list(sessions.values())

    def _cell(
        self,
        section: Section,
        point: ResultPoint,
        row: Row,
        levels: Mapping[str, str],
        sessions: Sequence[MeasuredSession],
    ) -> PivotCell:
        """Return the figure of a row, of these sessions alone where there are any."""
        is_whole = not sessions and not self.to and self.quantity not in PERCENTILES
        unit = "" if self.to or self.quantity == "efficiency" else section.metric.unit
        count = int(blocks_in(row, sessions).sum())
        if row.summary is None or not count:
            absence = (
                row.reason if row.summary is None else msg("no trial that went well in this part")
            )
            return PivotCell(section, row, levels, None, unit, 0, is_whole, absence)
        value, reason = self.values.of(section, point, row, sessions)
        return PivotCell(
            section, row, levels, value, unit, count, is_whole, "" if value else reason
        )

    def _place(
        self, levels: Mapping[str, str], spellings: Mapping[str, Mapping[str, str]]
    ) -> TablePlace:
        """Return where a figure stands. spellings: factor -> level -> its spelling in the table."""
        panel, row, column = (
            spellings[name][levels[name]] if name else ""
            for name in (self.axes.panels, self.axes.rows, self.axes.columns)
        )
        return panel, row, column

    def _why_empty(self, place: TablePlace) -> doc.Inline:
        """Return why no figure stands at a place of the table."""
        names = (self.axes.panels, self.axes.rows, self.axes.columns)
        of_place = Selection.of(dict(zip(names, place, strict=True)))
        selection = self.where.and_also(of_place).without(("", METRIC, *PARTS))

        def fits(cell: CellRecord | UntestedRecord) -> bool:
            return selection.selects(Levels(recorded(cell, "")))

        if any(map(fits, self.analysis.cells)):
            return msg("measured, without a value of this metric")
        untested = next((point.reason for point in self.analysis.untested if fits(point)), "")
        return untested if untested else _NOT_HERE

    def _warnings(self, cells: Sequence[PivotCell]) -> tuple[doc.Warning, ...]:
        """Return the warnings of the run that are about these cells, or about all of it."""
        places = {
            doc.WarnedPlace(cell.row.platform.name, subject, levels_of(cell.row.cell.levels))
            for cell in cells
            for subject in (cell.section.name, cell.section.label, "")
        }
        return at_places(self.analysis.warnings, lambda place: replace(place, block=None) in places)


def no_figure(analysis: Analysis, axes: Axes, metric: str, where: Selection) -> BadInput:
    """Return the error for axes and conditions that leave no figure."""
    condition = f"with {where.show(', ')}" if where else ""
    levels_of_axes = f"a level of {' and '.join(axes.names)}"
    of_metric = f" of {metric}" if metric else " of a primary metric"
    return BadInput(
        f"no figure{of_metric} of {analysis.name} {condition} has {levels_of_axes}".replace(
            "  ", " "
        ),
        hint="--all includes metrics that are not primary; vtax show prints what each benchmark has",
    )


def several_figures(axes: Axes, cells: Sequence[PivotCell]) -> BadInput:
    """Return the error for figures that share a place: what they differ in, and what to type."""
    varied_factors = {factor for cell in cells for factor in cell.row.cell.levels}
    factors = {PLATFORM, BENCHMARK, METRIC, TOPOLOGY, *varied_factors, *PARTS}
    levels_by_factor = residue([Levels(cell.levels).only(factors) for cell in cells], axes.names)
    order = (BENCHMARK, METRIC, TOPOLOGY, *sorted(levels_by_factor))
    differences = {name: levels_by_factor[name] for name in order if name in levels_by_factor}
    if BENCHMARK in differences:  # whose settings differ with it
        differences = {BENCHMARK: differences[BENCHMARK]}
    texts = [f"{name} ({_some(levels)})" for name, levels in differences.items()]
    name, levels = next(iter(differences.items()), ("", [""]))
    options = (("--cols", axes.columns), ("--panel", axes.panels))
    free_option = next((axis for axis, axis_name in options if not axis_name), "")
    choice = {
        BENCHMARK: f"--benchmark {quote(levels[0])}",
        METRIC: f"--metric {quote(levels[0])}",
        PLATFORM: f"--platform {quote(levels[0])}",
    }.get(name, f"--where {quote(f'{name}={levels[0]}')}")
    alternative = f"; or show all: {free_option} {name}" if free_option else ""
    return BadInput(
        f"several figures are left for each place; they differ in {', '.join(texts)}",
        hint=f"choose a level: {choice}{alternative}",
    )


def _some(levels: Sequence[str]) -> str:
    remainder = f", and {len(levels) - _MOST_LEVELS} more" if len(levels) > _MOST_LEVELS else ""
    return ", ".join(levels[:_MOST_LEVELS]) + remainder
