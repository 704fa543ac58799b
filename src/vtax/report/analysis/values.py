"""Parts of a result: rows of platforms at points of sections, and all of a run in one value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import groupby
from typing import Annotated, Any

import numpy as np

from vtax.described import BESIDE, Means, Warnings
from vtax.levels import Levels, number_of
from vtax.observations import Observations
from vtax.question import EVERYTHING, Selection
from vtax.report import document as doc
from vtax.report.analysis.sessions import MeasuredSession, units_of
from vtax.report.document import levels_of
from vtax.stats.censoring import Timeouts
from vtax.stats.checks import Better
from vtax.stats.describe import Summary, outlier_warnings
from vtax.stats.intervals import Interval
from vtax.stats.planning import detectable_overhead
from vtax.stats.ratio import BlockMeans, OfLoss, Ratio
from vtax.stats.resolution import EXACT, Resolution
from vtax.stats.rules import Rule
from vtax.stats.sessions import Units
from vtax.stats.verdict import Verdict
from vtax.store.annotations import Annotations
from vtax.store.query import FailureRow, Floats, GuestRow, Ints
from vtax.store.records import (
    ENDED,
    LEVELS,
    MARKS,
    STARTED,
    STATUS,
    CellRecord,
    MetricRecord,
    PlatformRecord,
    PluginRecord,
    UntestedRecord,
)


@dataclass(frozen=True)
class Estimate:
    """A value with the bounds of an interval; None without one. Unit of the metric, or a ratio."""

    value: Annotated[float, Means("value")]
    low: Annotated[float | None, Means("bounds of its interval")] = None
    high: Annotated[float | None, Means("bounds of its interval")] = None


def bounded(interval: Interval | Ratio) -> Estimate:
    """Return a value with its bounds where both are finite."""
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return Estimate(interval.estimate)
    return Estimate(interval.estimate, interval.low, interval.high)


@dataclass(frozen=True)
class MeasuredRow:
    """One metric of one cell, before it is compared.

    reason: why there is no value, or no ratio where it is withheld.
    clock_is_wrong: by more than the margin, of its guests, where the metric is in their time: it cannot show that two
    platforms differ by less.
    resolution: how finely its figures are known.
    is_other_quantity: a trial measured something else than its study asks for, see store.records.OTHER_QUANTITY.
    is_held_below: only the cache below a guest's disk held a trial's files.
    is_withheld: it has no ratio, for its reason; see `tails`.
    settled: blocks in which it was not measured because its comparison was decided; see `result.settled`.
    observed: the values of every measured trial that went well, in their order; None without any.
    """

    cell: Annotated[CellRecord, Means("key of the cell", take="key")]
    platform: Annotated[PlatformRecord, Means("platform", take="name")]
    summary: Annotated[Summary | None, Means("the platform's own values; null without any")]
    blocks: Annotated[Ints, Means("blocks with values, from 0")]
    block_means: Annotated[Floats, Means("the mean of each", unit="unit")]
    failed: Annotated[int, Means("trials that failed")]
    better: Better = "higher"
    reason: str = ""
    clock_is_wrong: bool = False
    resolution: Resolution = EXACT
    is_other_quantity: bool = False
    is_held_below: bool = False
    is_withheld: bool = False
    settled: frozenset[int] = frozenset()
    observed: Observations | None = field(default=None, repr=False)

    @property
    def trial_blocks(self) -> Ints:
        """The block of every measured trial that went well, in their order."""
        return self.observed.block if self.observed else np.zeros(0, np.int64)

    @property
    def trial_values(self) -> Floats:
        """The value of each of them."""
        return self.observed.value if self.observed else np.zeros(0)

    @property
    def trial_positions(self) -> Ints:
        """The position of each of them in the run, from 0."""
        return self.observed.position if self.observed else np.zeros(0, np.int64)

    @property
    def step(self) -> float:
        """Smallest difference of two of its figures that their tool tells, in their unit; 0 where it tells all."""
        return abs(self.summary.mean) * self.resolution.share if self.summary else 0.0

    @property
    def means_of_blocks(self) -> BlockMeans:
        """The means that its contrasts are built from."""
        return BlockMeans(self.blocks, self.block_means)


@dataclass(frozen=True)
class Row(MeasuredRow):
    """One metric of one cell, and how it compares with the baseline. reason: why there is no ratio, or no value."""

    ratio: Annotated[
        Ratio | None, Means("ratio to the baseline; null for the baseline and without an answer")
    ] = None
    verdict: Annotated[Verdict | None, Means("verdict on the ratio; null without one")] = None
    target_missed: Annotated[
        bool, Means("whether what the rule declared for it is not reached")
    ] = False
    timeouts: Annotated[
        Timeouts | None, Means("trials of fixed work that timed out; null without any")
    ] = None

    @classmethod
    def of(cls, measured: MeasuredRow, **answer: Any) -> Row:
        """Return a row with its answer. answer: fields of a row, in place of those that it has."""
        values = {
            field_of_row.name: getattr(measured, field_of_row.name)
            for field_of_row in fields(MeasuredRow)
        }
        return cls(**{**values, **answer})

    @property
    def marks(self) -> Annotated[tuple[str, ...], MARKS]:
        """The marks of the platform."""
        return self.platform.marks

    @property
    def efficiency(
        self,
    ) -> Annotated[
        Interval | None, Means("ratio where higher is better, else 1 / ratio; see statistics.md")
    ]:
        """Performance as a share of the baseline's."""
        return self.ratio.efficiency(self.better) if self.ratio else None

    @property
    def overhead(self) -> Annotated[Interval | None, Means("1 - efficiency")]:
        """The share of the baseline's performance that is lost."""
        return self.ratio.overhead(self.better) if self.ratio else None

    @property
    def loss(self) -> OfLoss:
        """The bounds of what it costs, which hold without any margin."""
        return self.ratio.loss(self.better) if self.ratio else None

    @property
    def detectable_overhead(
        self,
    ) -> Annotated[
        float | None,
        Means(
            "smallest overhead that the comparison had a probability of 0.8 to see; null with too few blocks"
        ),
    ]:
        """The smallest overhead that a comparison had a power of 0.8 to detect in its family."""
        if self.ratio is None or self.verdict is None:
            return None
        return detectable_overhead(self.ratio, self.verdict.alpha, self.verdict.family)

    @property
    def warnings(self) -> Warnings:
        """The warnings of the summary, the ratios and the verdict, each text once.

        With one trial per block outlying blocks are outlying values: they are listed once.
        """
        texts = [self.reason] if self.reason else []
        for part in (self.summary, self.ratio, self.verdict):
            if part is not None:
                texts += part.warnings
        if self.timeouts is not None:
            texts.append(self.timeouts.note)
        if (
            self.ratio
            and self.summary
            and self.summary.outliers
            and self.summary.n == self.summary.blocks
        ):
            twice = outlier_warnings(len(self.ratio.outliers), self.ratio.n_blocks, "blocks")
            texts = [text for text in texts if text not in twice]
        return tuple(dict.fromkeys(texts))


@dataclass(frozen=True)
class ResultPoint:
    """One combination of levels, compared over platforms, which are in their order."""

    key: Annotated[str, Means("key", name="point")]
    levels: Annotated[Levels, LEVELS]
    rows: Annotated[tuple[Row, ...], Means("platforms")]

    @property
    def topology(self) -> Annotated[str, Means("topology; empty without a network")]:
        """The topology of all its cells, as parameters and links are."""
        return self.rows[0].cell.topology

    @property
    def parameters(self) -> Annotated[Mapping[str, Any], Means("parameters of the benchmark")]:
        """With the levels of its factors."""
        return self.rows[0].cell.parameters

    @property
    def link(self) -> Annotated[Mapping[str, Any], Means("requested settings of the links")]:
        """By name."""
        return self.rows[0].cell.link

    @property
    def name(self) -> str:
        """`direction=send, mtu=1500`; empty when nothing varies."""
        return str(self.levels)

    @property
    def measured_rows(self) -> dict[str, Row]:
        """Platform -> its row, of those that have values."""
        return {row.platform.name: row for row in self.rows if row.summary is not None}

    @property
    def baseline(self) -> Row | None:
        """The row that ratios are to; None where the baseline has no cell here."""
        return next((row for row in self.rows if row.platform.is_baseline), None)


@dataclass(frozen=True)
class Section:
    """One metric of one benchmark table over all its points: what is judged as one family, and shown as one table."""

    label: Annotated[str, Means("name of the benchmark table")]
    benchmark: Annotated[str, Means("benchmark")]
    tool_version: Annotated[str, Means("version of its tool")]
    metric: Annotated[MetricRecord, BESIDE]
    points: Annotated[tuple[ResultPoint, ...], Means("combinations of levels")]
    family: Annotated[int, Means("comparisons that were judged together")]
    tool: str = ""
    margin: Annotated[
        float, Means("margin of its verdicts: of its benchmark, or of the design")
    ] = 0.0
    is_answer: Annotated[
        bool,
        Means(
            "whether the first table has it: a primary metric, or the host CPU for a unit of its benchmark's work"
        ),
    ] = False

    @property
    def better(self) -> Better:
        """Which way is better for the metric."""
        return "lower" if self.metric.better == "lower" else "higher"

    @property
    def share_better(self) -> Better:
        """Which way is better for its ratios as they are shown: of a speed as performance, of others as they are."""
        return self.better if self.metric.role == "speed" else "higher"

    @property
    def title(self) -> str:
        """`stream · triad`: what a table of it is called."""
        return f"{self.label} · {self.metric.title or self.metric.name}"

    @property
    def name(self) -> str:
        """`stream triad`: how sentences call it."""
        return f"{self.label} {self.metric.name}"

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all points, in order."""
        return tuple(row for point in self.points for row in point.rows)

    def point_of(self, row: Row) -> ResultPoint:
        """Return the point that holds this very row; raises StopIteration for a row of another section."""
        return next(
            point for point in self.points if any(candidate is row for candidate in point.rows)
        )


class OfSection:
    """A value about a section, which says to programs what it is of."""

    section: Section

    @property
    def label(self) -> Annotated[str, Means("name of the benchmark table")]:
        """Its benchmark table."""
        return self.section.label

    @property
    def benchmark(self) -> Annotated[str, Means("benchmark")]:
        """Its benchmark."""
        return self.section.benchmark

    @property
    def metric(self) -> Annotated[MetricRecord, BESIDE]:
        """Its metric."""
        return self.section.metric


def every_row(sections: Iterable[Section]) -> Iterator[tuple[Section, ResultPoint, Row]]:
    """Yield every row with its section and point, in their order."""
    return (
        (section, point, row)
        for section in sections
        for point in section.points
        for row in point.rows
    )


def rows_to_baseline(
    sections: Iterable[Section],
) -> Iterator[tuple[Section, ResultPoint, Row, Row]]:
    """Yield every row beside its baseline, where both have values, with its section and point."""
    for section, point, row in every_row(sections):
        base = point.baseline
        if base is None or base.summary is None or row.summary is None or row is base:
            continue
        yield section, point, row, base


def is_other_quantity(of: Iterable[MeasuredRow], to: Iterable[MeasuredRow]) -> bool:
    """Return whether a ratio of two sides is of something else than the study asks for.

    A trial measured something else, or the cache below a guest's disk held the files of one side alone.
    """
    sides = list(of), list(to)
    held = {any(row.is_held_below for row in side) for side in sides}
    return len(held) > 1 or any(row.is_other_quantity for side in sides for row in side)


def place_of(section: Section, point: ResultPoint, row: Row) -> doc.WarnedPlace:
    """`docker, iperf3 throughput, direction=send`: where something about a row holds."""
    return doc.WarnedPlace(row.platform.name, section.name, levels_of(point.levels))


_FILTER = Means("what of the run is shown; null when all is", name="filter")


@dataclass(frozen=True)
class BlockOrder:
    """One block of a run."""

    block: Annotated[int, Means("block, from 1")]
    platforms: Annotated[tuple[str, ...], Means("platforms in the order of their guests")]


@dataclass(frozen=True)
class Analysis:
    """The result of a run.

    sections: primary metrics first within a benchmark. filter: what of the run is shown; blocks, trials, failed and
    all verdicts are of the whole run.
    """

    name: Annotated[str, Means("name of the run", name="run")]
    study: Annotated[str, Means("name of its study")]
    declared: Annotated[
        Mapping[str, Any],
        Means("the study as it was declared, with every default; see study-files.md"),
    ]
    status: Annotated[str, STATUS]
    stopped_because: Annotated[str, Means("why it ended")]
    seed: Annotated[int, Means("seed of the random order")]
    vtax_version: Annotated[str, Means("version of vtax that measured")]
    image_key: Annotated[str, Means("key of the image")]
    host: Annotated[
        Mapping[str, Any], Means("facts of the host; names ending in `_bytes` are bytes")
    ]
    plugins: Annotated[tuple[PluginRecord, ...], Means("installed plug-ins that the run used")]
    started_at: Annotated[float, STARTED]
    ended_at: Annotated[float | None, ENDED]
    duration_s: Annotated[
        float | None,
        Means(
            "duration of the run, without the time it was interrupted; null when not known",
            unit="s",
        ),
    ]
    rule: Rule
    baseline: Annotated[str, Means("platform that ratios are to")]
    blocks: Annotated[int, Means("whole blocks")]
    trials: Annotated[int, Means("measured trials, failed ones included")]
    failed: Annotated[int, Means("measured trials that failed")]
    platforms: tuple[PlatformRecord, ...]
    sections: Annotated[
        tuple[Section, ...],
        Means("a result for every metric of every benchmark table", name="results"),
    ]
    guests: tuple[GuestRow, ...]
    failures: tuple[FailureRow, ...]
    cells: tuple[CellRecord, ...]
    untested: Annotated[
        tuple[UntestedRecord, ...], Means("points that a platform cannot carry", name="not_tested")
    ]
    warnings: Annotated[tuple[doc.Warning, ...], Means("all warnings, merged")]
    missed_targets: Annotated[tuple[doc.Inline, ...], Means("a sentence for every missed target")]
    filter: Selection = EVERYTHING
    sessions: Annotated[tuple[MeasuredSession, ...], Means("sessions that have a trial")] = ()
    identity: Annotated[
        str,
        Means("32 digits that are the run's in every store; of an old one, of what it began with"),
    ] = ""
    provenance: Annotated[
        Mapping[str, Any],
        Means("`imported`, `merged`: where the run is from; empty when measured here"),
    ] = field(default_factory=dict)
    annotations: Annotated[Annotations, BESIDE] = field(default_factory=Annotations)

    @property
    def confidence(self) -> Annotated[float, Means("confidence level of intervals")]:
        """The confidence level of every interval."""
        return self.rule.confidence

    @property
    def margin(
        self,
    ) -> Annotated[
        float, Means("what counts as equivalent: ratios from 1 / (1 + margin) to 1 + margin")
    ]:
        """The margin of equivalence of the design, which benchmarks may have one of their own in place of."""
        return self.rule.margin

    @property
    def shown_part(self) -> Annotated[Selection | None, _FILTER]:
        """The part that a filter shows."""
        return self.filter or None

    @cached_property
    def shown_cells(self) -> Selection:
        """The cells that are shown: what the filter selects, and the baseline beside it."""
        return self.filter.beside(self.baseline)

    @property
    def order(self) -> Annotated[tuple[BlockOrder, ...], Means("blocks in the order they ran")]:
        """Without the guests of warm-up and probing."""
        blocks = groupby(
            (guest for guest in self.guests if guest.block >= 0), key=lambda guest: guest.block
        )
        return tuple(
            BlockOrder(n + 1, tuple(dict.fromkeys(g.platform for g in guests)))
            for n, guests in blocks
        )

    @property
    def planned_sessions(self) -> Annotated[int, Means("sessions that the study asks for")]:
        """How many sessions the study asks for."""
        return int(self.declared.get("design", {}).get("sessions") or 1)

    @property
    def has_boots(self) -> bool:
        """Whether the study measures in several boots of the host."""
        return bool(self.declared.get("boot"))

    @property
    def level(self) -> doc.Share:
        """The confidence of every interval: `95 %`."""
        return doc.Share(self.rule.confidence, "declared")

    @property
    def colours(self) -> dict[str, int]:
        """Platform -> its number, the same in all of a report: the baseline is 0."""
        names = [platform.name for platform in self.platforms if not platform.is_baseline]
        return {self.baseline: 0, **{name: number for number, name in enumerate(names, 1)}}

    @property
    def primary(self) -> tuple[Section, ...]:
        """The sections of primary metrics."""
        return tuple(section for section in self.sections if section.metric.is_primary)

    @property
    def answered(self) -> tuple[Section, ...]:
        """The sections that answer: those of primary metrics, and of the host CPU for a unit of work."""
        return tuple(section for section in self.sections if section.is_answer)

    @property
    def costs(self) -> tuple[Section, ...]:
        """The sections of the host CPU for a unit of work, at most one of a benchmark table."""
        return tuple(section for section in self.answered if not section.metric.is_primary)

    @cached_property
    def units(self) -> Units:
        """The hosts and the sessions of blocks."""
        return units_of(self.sessions)

    def units_of(self, blocks: Ints) -> Ints:
        """Return the host and the session of each block, a line a block; (0, 1) of one without a session."""
        has_unit = np.isin(blocks, self.units.blocks)
        units = np.tile(np.array([0, 1]), (blocks.size, 1))
        units[has_unit] = self.units.of(blocks[has_unit])
        return units

    def link_rate(self, label: str, levels: Mapping[str, Any]) -> float | None:
        """Return the rate limit of the link of a benchmark table, a factor or fixed, in Mbit/s; None without one."""
        links = {
            str(t.get("label") or t["name"]): t.get("link") or {}
            for t in self.declared.get("benchmark", ())
        }
        fixed = links[label].get("rate_mbit_s", 0) if label in links else 0
        return number_of(Levels(levels).link.get("rate_mbit_s", fixed)) or None

    def platform_of(self, name: str) -> doc.PlatformCell:
        """Return a platform's name with its marks, such as `emulated`: how texts, tables and figures show it."""
        marks = next((platform.marks for platform in self.platforms if platform.name == name), ())
        return doc.PlatformCell(name, marks)

    def ready_s(self, platform: str) -> list[float]:
        """Start to agent ready of every guest of a platform that became ready."""
        return [g.ready_s for g in self.guests if g.platform == platform and g.ready_s is not None]
