"""The figures of a publication from a run: what each place shows, as the publication computes it and from blocks.

The publications take all tests of a cell together: their mean, and beside it a standard deviation, a coefficient of
variation or Student's t-interval, as if tests were independent. `Place.tests` is that. `Place.here` is this run's own
answer: the mean of the blocks' means, or the ratio to the baseline within blocks, with its interval from blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from vtax.described import BESIDE, Means, Only
from vtax.levels import BENCHMARK, HOST, METRIC, Levels
from vtax.observations import Observations
from vtax.report.analysis.claim_cells import Mapped, check_mapping, host_here
from vtax.report.analysis.published import published_of
from vtax.report.analysis.sessions import MeasuredSession, blocks_of, of_hosts, ratio_in
from vtax.report.analysis.values import (
    Analysis,
    Estimate,
    Row,
    Section,
    bounded,
    is_other_quantity,
)
from vtax.stats.checks import Better
from vtax.stats.intervals import Interval, mean_interval
from vtax.store.query import Floats, Ints, RunData
from vtax.store.records import MARKS
from vtax.study.claims import PublishedTable
from vtax.study.figures import FigureTable, Quantity

Tests = Mapping[tuple[str, str], tuple[Ints, Floats]]
"""(key of a cell, metric) -> (block, value) of every test that went well, in the order they were made."""


@dataclass(frozen=True)
class PublicationStatistic:
    """Statistic of a publication over all tests of a cell, taken as independent. sd, cv: NaN of one.

    drawn: the mean, with the bounds that the figure's statistic has.
    """

    n: Annotated[int, Means("tests that the left side is of", name="tests")]
    mean: Annotated[
        float, Means("mean of all tests, as if they were independent", name="test_mean")
    ]
    sd: Annotated[float, Means("standard deviation of them", name="test_sd")]
    cv: Annotated[float, Means("coefficient of variation of them", name="test_cv")]
    drawn: Annotated[
        Estimate,
        Means("bounds of `statistic`", name="test_low", take="low"),
        Means("bounds of `statistic`", name="test_high", take="high"),
    ]


@dataclass(frozen=True)
class Plotted:
    """One value of a figure. levels: factor -> level as written, with `benchmark` and `metric`.

    here: of this run, from blocks. tests: as the publication computes it.
    """

    platform: Annotated[str, Means("platform of the run")]
    there: Annotated[
        str, Means("what it stands for in the publication", name="publication_platform")
    ]
    levels: Mapping[str, str]
    unit: Annotated[str, Means("unit")]
    quantity: Annotated[Quantity, Means("`value`, `efficiency` or `largest_cv`")]
    host: Annotated[int, Means("the host of a merged run; 0 for all")] = 0
    test: Annotated[int, Means("number of a single test; 0 for all")] = 0
    blocks: Annotated[int, Means("blocks that the right side is of")] = 0
    here: Annotated[Estimate | None, BESIDE] = None
    tests: Annotated[PublicationStatistic | None, BESIDE] = None
    ratio: Annotated[
        Estimate | None,
        Means("ratio to the baseline, within blocks", name="ratio", take="value"),
        Means("bounds of its interval", name="ratio_low", take="low"),
        Means("bounds of its interval", name="ratio_high", take="high"),
    ] = None
    printed: Annotated[
        Estimate | None,
        Means("number that the publication prints", name="printed", take="value"),
        Means("bounds of its interval", name="printed_low", take="low"),
        Means("bounds of its interval", name="printed_high", take="high"),
    ] = None
    marks: Annotated[tuple[str, ...], MARKS] = ()
    is_other_quantity: Annotated[
        bool,
        Means(
            "whether trials measured something else than the study asks for", name="other_quantity"
        ),
    ] = False

    @property
    def benchmark(self) -> Annotated[str, Means("label of the benchmark")]:
        """Its label."""
        return self.levels[BENCHMARK]

    @property
    def metric(self) -> Annotated[str, Means("metric")]:
        """Its metric."""
        return self.levels[METRIC]

    @property
    def factors(self) -> Annotated[Mapping[str, str], Means("factor -> level", name="levels")]:
        """The levels of factors alone."""
        return {
            name: level for name, level in self.levels.items() if name not in (BENCHMARK, METRIC)
        }


@dataclass(frozen=True)
class Drawing:
    """A figure of the publication with what a run has for it. places: in the order of sections, points, platforms.

    single: of x = `test`, every test; places are then of whole cells. hosts: how many the run has.
    """

    figure: Annotated[
        FigureTable,
        Only(
            "id",
            "title",
            "title_pt",
            "kind",
            "x",
            "y",
            "series",
            "panel",
            "statistic",
            "note",
            "left_out",
            meaning="as the study has it",
        ),
    ]
    places: tuple[Plotted, ...]
    single: tuple[Plotted, ...]
    absent: Annotated[
        tuple[str, ...], Means("platforms of it, or of the publication, without a value")
    ]
    hosts: int
    mapped: Annotated[
        Mapped,
        Means("platform or host of the publication -> the one of the run that is drawn for it"),
    ] = field(default_factory=dict)

    @property
    def values(
        self,
    ) -> Annotated[tuple[Plotted, ...], Means("every value, those of single tests last")]:
        """All places."""
        return (*self.places, *self.single)

    @property
    def is_measured(
        self,
    ) -> Annotated[bool, Means("whether the run has a value of it", name="is_drawn")]:
        """Whether the run has a value for any place."""
        return any(place.here is not None or place.tests is not None for place in self.places)


def figures_of(analysis: Analysis) -> tuple[FigureTable, ...]:
    """Return the figures that the run's study declares."""
    return tuple(
        FigureTable.model_validate(table) for table in analysis.declared.get("figure") or ()
    )


def has_means(label: str, analysis: Analysis) -> bool:
    """Return whether figures of the publication draw a benchmark's means on every platform that was tested."""
    figures = [
        figure
        for figure in figures_of(analysis)
        if label in figure.benchmarks and "value" in figure.quantities
    ]
    return all(
        any(figure.shows_platform(platform.name) for figure in figures)
        for platform in analysis.platforms
        if platform.available
    )


def drawings(analysis: Analysis, data: RunData, mapped: Mapped | None = None) -> list[Drawing]:
    """Return every figure that the run's study declares. mapped: platform of the publication -> platform of the run.

    Raises BadInput for a mapping of an unknown platform, or to one that the run did not measure.
    """
    tables, mapped = figures_of(analysis), dict(mapped or {})
    if mapped:
        check_mapping(analysis, mapped, *named_in_figures(analysis), "figure")
    tests = cell_tests(data) if tables else {}
    return [_Selection(analysis, tests, table, mapped).drawing() for table in tables]


def named_in_figures(analysis: Analysis) -> tuple[list[str], set[int]]:
    """Return the platforms of the publication, and the numbers of the hosts that figures name."""
    tables = figures_of(analysis)
    names = [name for table in tables for name in (*table.platforms, *table.without)]
    of_paper = platforms_of_paper(analysis) if tables else []
    return list(dict.fromkeys([*of_paper, *names])), {table.host for table in tables if table.host}


def platforms_of_paper(analysis: Analysis) -> list[str]:
    """Return the platforms that the study describes as the publication's."""
    return list((analysis.declared.get("paper") or {}).get("platforms") or ())


def finished_blocks(data: RunData) -> int:
    """Return how many blocks have a trial of every cell."""
    trials = data.trials
    used_trials = (trials.block >= 0) & ~trials.is_warmup
    pairs = np.unique(np.stack([trials.block[used_trials], trials.cell[used_trials]]), axis=1)
    return int((np.unique(pairs[0], return_counts=True)[1] == len(data.run.cells)).sum())


def cell_tests(data: RunData) -> Tests:
    """Return the tests of every cell; warm-up trials and failed ones are left out."""
    run = data.run
    return {
        (run.cells[cell].key, run.metrics[metric].name): (series.block, series.value)
        for cell, metric, series in Observations.of_run(data).by_figure()
    }


class _Selection:
    """The places of one figure."""

    def __init__(
        self, analysis: Analysis, tests: Tests, figure: FigureTable, mapped: Mapped
    ) -> None:
        self.analysis, self.tests, self.figure, self.mapped = analysis, tests, figure, mapped
        self.hosts = list(of_hosts(analysis.sessions).values())
        self.published = [table for table in published_of(analysis) if _is_of(figure, table)]

    def drawing(self) -> Drawing:
        """Return the figure with all of its places."""
        places = list(self._largest_cvs() if self.figure.is_of_largest_cv else self._measured())
        places += self._printed_only(places)
        single: list[Plotted] = []
        if self.figure.x == "test":
            for place in places:
                single += self._single(place)
        drawn_platforms = {place.platform for place in places if place.here or place.tests}
        stand_in_names = {f"host-{self.figure.host}"}
        for place in places:
            if place.platform in drawn_platforms and place.platform != place.there:
                stand_in_names.add(place.there)
        return Drawing(
            self.figure,
            self._marked(places),
            self._marked(single),
            self._absent(drawn_platforms),
            len(self.hosts),
            {there: here for there, here in self.mapped.items() if there in stand_in_names},
        )

    def _marked(self, places: Iterable[Plotted]) -> tuple[Plotted, ...]:
        """Return places with the marks of their platforms."""
        platform_of = self.analysis.platform_of
        return tuple(replace(place, marks=platform_of(place.platform).marks) for place in places)

    def _absent(self, drawn: Collection[str]) -> tuple[str, ...]:
        """Return the platforms of the figure and of the run that it has no value of."""
        platforms = [p.name for p in self.analysis.platforms if self._there(p.name) is not None]
        published = filter(self.figure.shows_platform, platforms_of_paper(self.analysis))
        platforms += [self.mapped.get(name, name) for name in (*self.figure.platforms, *published)]
        return tuple(name for name in dict.fromkeys(platforms) if name not in drawn)

    def _there(self, here: str) -> str | None:
        """Return what a platform of the run is called in the publication; None where the figure leaves it out."""
        names = [there for there, mapped in self.mapped.items() if mapped == here]
        names += [here] if here not in self.mapped else []
        return next((name for name in names if self.figure.shows_platform(name)), None)

    def _rows(self) -> Iterator[tuple[Section, Row, Row | None, str]]:
        """(section, row, its baseline, what it stands for) of every selected cell."""
        figure = self.figure
        for section in self.analysis.sections:
            if section.label not in figure.benchmarks or section.metric.name not in figure.metrics:
                continue
            for point in section.points:
                if not figure.selection.selects(point.levels):
                    continue
                for row in point.rows:
                    there = self._there(row.platform.name)
                    if there is not None and row.summary is not None:
                        yield section, row, point.baseline, there

    def _measured(self) -> Iterator[Plotted]:
        for section, row, base, there in self._rows():
            for host, sessions in self._hosts():
                for quantity in self.figure.quantities:
                    yield self._place(section, row, base, there, host, sessions, quantity)

    def _hosts(self) -> Iterator[tuple[int, Sequence[MeasuredSession]]]:
        """Yield (number of a host, its sessions) of those that are drawn; 0 without any for all of the run."""
        host_number = host_here(self.figure.host, self.mapped) if self.figure.host else None
        if host_number is None and HOST not in self.figure.axes:
            yield 0, ()
            return
        for number, sessions in enumerate(self.hosts, 1):
            if host_number in (None, number):
                yield number, sessions

    def _place(
        self,
        section: Section,
        row: Row,
        base: Row | None,
        there: str,
        host: int,
        sessions: Sequence[MeasuredSession],
        quantity: Quantity,
    ) -> Plotted:
        blocks = set(blocks_of(sessions))
        ratio = self._ratio(row, base, sessions)
        statistic = self._statistic(section, row, base, blocks, quantity)
        if quantity == "efficiency":
            estimate = efficiency_of(section.better, ratio)
            if row.platform.is_baseline:
                estimate = Estimate(1.0)
        else:
            estimate = self._mean(row, blocks)
        own_levels = {BENCHMARK: section.label, METRIC: section.metric.name}
        levels = dict(Levels({**row.cell.levels, **own_levels}).texts)
        count = row.blocks.size if not blocks else int(np.isin(row.blocks, list(blocks)).sum())
        unit = "" if quantity == "efficiency" else section.metric.unit
        other_row = base if base is not None and quantity == "efficiency" else row
        is_other = is_other_quantity([row], [other_row])
        printed = self._printed(section, row, there) if quantity == "value" and host <= 1 else None
        return Plotted(
            row.platform.name,
            there,
            levels,
            unit,
            quantity,
            host,
            0,
            count,
            estimate,
            statistic,
            ratio,
            printed,
            is_other_quantity=is_other,
        )

    def _mean(self, row: Row, blocks: set[int]) -> Estimate | None:
        summary = row.summary
        if summary is None:
            return None
        if not blocks:
            return bounded(Interval(summary.mean, summary.low, summary.high))
        means = row.block_means[np.isin(row.blocks, list(blocks))]
        if not means.size:
            return None
        return bounded(mean_interval(means, self.analysis.rule.confidence))

    def _ratio(
        self, row: Row, base: Row | None, sessions: Sequence[MeasuredSession]
    ) -> Estimate | None:
        ratio = row.ratio
        if sessions and base is not None and not row.platform.is_baseline:
            ratio = ratio_in(row, base, sessions, self.analysis.rule.confidence)
        return None if ratio is None else bounded(ratio)

    def _statistic(
        self, section: Section, row: Row, base: Row | None, blocks: set[int], quantity: Quantity
    ) -> PublicationStatistic | None:
        values = self._values(row, section, blocks)
        if not values.size:
            return None
        statistic = statistic_of(values, self.figure, self.analysis.rule.confidence)
        if quantity != "efficiency":
            return statistic
        baseline_values = self._values(base, section, blocks) if base is not None else values[:0]
        if not baseline_values.size or not statistic.mean or not baseline_values.mean():
            return None
        ratio = statistic.mean / float(baseline_values.mean())
        ratio = ratio if section.better == "higher" else 1 / ratio
        return PublicationStatistic(statistic.n, ratio, np.nan, np.nan, Estimate(ratio))

    def _values(self, row: Row, section: Section, blocks: set[int]) -> Floats:
        of, values = self.tests.get((row.cell.key, section.metric.name), (_NONE, _NO_VALUES))
        return values[np.isin(of, list(blocks))] if blocks else values

    def _single(self, place: Plotted) -> Iterator[Plotted]:
        """Yield every test of a place, numbered from 1 in the order of the trials."""
        cell = next(
            cell
            for cell in self.analysis.cells
            if cell.platform == place.platform
            and cell.label == place.levels[BENCHMARK]
            and all(str(level) == place.levels[factor] for factor, level in cell.levels.items())
        )
        of, values = self.tests.get((cell.key, place.levels[METRIC]), (_NONE, _NO_VALUES))
        if place.host:
            values = values[np.isin(of, blocks_of(self.hosts[place.host - 1]))]
        for number, value in enumerate(values.tolist(), 1):
            statistic = PublicationStatistic(1, value, np.nan, np.nan, Estimate(value))
            yield Plotted(
                place.platform,
                place.there,
                place.levels,
                place.unit,
                place.quantity,
                place.host,
                number,
                tests=statistic,
            )

    def _printed(self, section: Section, row: Row, there: str) -> Estimate | None:
        levels = Levels(row.cell.levels)
        for table in self.published:
            is_of = (table.benchmark, table.metric) == (section.label, section.metric.name)
            is_there = is_of and table.statistic == "mean" and there in table.values
            if is_there and table.selection.selects(levels):
                return _printed(table, there)
        return None

    def _printed_only(self, places: Sequence[Plotted]) -> Iterator[Plotted]:
        """Yield printed numbers of platforms that the run has no value of."""
        if self.figure.quantities != ("value",):
            return
        drawn_names = {place.there for place in places}
        for table in self.published:
            unit = next(
                (s.metric.unit for s in self.analysis.sections if s.metric.name == table.metric), ""
            )
            levels = {factor: str(level) for factor, level in table.where.items()}
            levels |= {BENCHMARK: table.benchmark, METRIC: table.metric}
            for there in table.values if table.statistic == "mean" else ():
                if there not in drawn_names and self.figure.shows_platform(there):
                    here = self.mapped.get(there, there)
                    yield Plotted(
                        here, there, levels, unit, "value", printed=_printed(table, there)
                    )

    def _largest_cvs(self) -> Iterator[Plotted]:
        """Yield by benchmark, metric and platform the largest CV of cells, and the widest interval of a mean."""
        rows_of: dict[tuple[str, str, str], list[Row]] = {}
        there_of: dict[str, str] = {}
        for section, row, _, there in self._rows():
            key = section.label, section.metric.name, row.platform.name
            rows_of.setdefault(key, []).append(row)
            there_of[row.platform.name] = there
        printed: dict[tuple[str, str, str], Estimate] = {}
        for table in self.published:
            if table.statistic != "largest_cv":
                continue
            for there, value in table.values.items():
                printed.setdefault((table.benchmark, table.metric, there), Estimate(value))
                if self.figure.shows_platform(there):
                    here = self.mapped.get(there, there)
                    there_of.setdefault(here, there)
                    rows_of.setdefault((table.benchmark, table.metric, here), [])
        for (label, metric, platform), rows in rows_of.items():
            there = there_of[platform]
            levels = {BENCHMARK: label, METRIC: metric}
            place = Plotted(platform, there, levels, "", "largest_cv")
            yield self._with_largest_cv(place, rows, printed.get((label, metric, there)))

    def _with_largest_cv(
        self, place: Plotted, rows: Sequence[Row], printed: Estimate | None
    ) -> Plotted:
        """Return a place with the values of its rows. printed: by the publication."""
        keys = [(row.cell.key, place.levels[METRIC]) for row in rows]
        value_arrays = [self.tests[key][1] for key in keys if key in self.tests]
        cvs = [_cv(values) for values in value_arrays if values.size > 1]
        tests = None
        if cvs:
            count, largest = sum(values.size for values in value_arrays), max(cvs)
            tests = PublicationStatistic(count, largest, np.nan, largest, Estimate(largest))
        summaries = [row.summary for row in rows if row.summary and row.summary.blocks > 1]
        halves = [(s.high - s.low) / 2 / abs(s.mean) for s in summaries if s.mean]
        return replace(
            place,
            blocks=min((summary.blocks for summary in summaries), default=0),
            here=Estimate(max(halves)) if halves else None,
            tests=tests,
            printed=printed,
        )


_NONE: Ints = np.zeros(0, np.int64)
_NO_VALUES: Floats = np.zeros(0)


def statistic_of(values: Floats, figure: FigureTable, confidence: float) -> PublicationStatistic:
    """Return what the figure's publication states of tests that it takes as independent."""
    n, mean = values.size, float(values.mean())
    sd = float(values.std(ddof=1)) if n > 1 else np.nan
    drawn = Estimate(mean)
    if n > 1 and figure.statistic == "sd":
        drawn = Estimate(mean, mean - sd, mean + sd)
    elif n > 1 and figure.statistic == "t_interval":
        drawn = bounded(mean_interval(values, confidence))
    return PublicationStatistic(n, mean, sd, sd / abs(mean) if mean else np.nan, drawn)


def _cv(values: Floats) -> float:
    mean = float(values.mean())
    return float(values.std(ddof=1)) / abs(mean) if mean else np.nan


def efficiency_of(better: Better, ratio: Estimate | None) -> Estimate | None:
    """Return a ratio as an efficiency: of a metric where lower is better its inverse."""
    if ratio is None or better == "higher":
        return ratio
    low, high = (
        None if bound is None or bound <= 0 else 1 / bound for bound in (ratio.high, ratio.low)
    )
    return Estimate(1 / ratio.value, *((low, high) if None not in (low, high) else (None, None)))


def _is_of(figure: FigureTable, table: PublishedTable) -> bool:
    """Return whether a printed number belongs to a figure: of its benchmark and metric, at none but its levels."""
    if table.benchmark not in figure.benchmarks or table.metric not in figure.metrics:
        return False
    return figure.selection.has_all_of(table.selection)


def _printed(table: PublishedTable, there: str) -> Estimate:
    value, half = table.values[there], table.plus_minus.get(there)
    return Estimate(value, value - half, value + half) if half else Estimate(value)
