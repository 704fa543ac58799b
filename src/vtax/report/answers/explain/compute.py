"""Which counters moved together with a difference: an association of two things that were measured, never a cause.

For every contrast that is not `equivalent`, what was counted is divided by the work that was done (per gigabyte, per
event, per trial), and the ratio to the baseline is formed within blocks as for any figure. Half of the smallest step
of a counter is added to both sides, so that a count of zero has a logarithm (Haldane 1955, Anscombe 1956). A counter
moved when the interval of its ratio excludes 1 at a level that is corrected for all counters of all contrasts of the
table (Bonferroni). Where a platform takes longer for the same work, all that counts with time grows by as much: such
counters, of which no difference was found per second, stand apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from vtax.counters import table
from vtax.counters.table import LINK, Counter
from vtax.described import Means, Only
from vtax.pairing import Logs
from vtax.report.analysis.values import OfSection, ResultPoint, Row, Section, rows_to_baseline
from vtax.report.answers.explain.work import SECOND, Side, durations, per_block, work_of
from vtax.stats.intervals import Interval
from vtax.stats.ratio import ratio_of_logs, widened
from vtax.store.query import BlockCounters, Floats, Ints, RunData

NARROW = 1.25  # half-width of an interval, as a factor
_LARGEST_LOG = 700.0
_NO_SETTINGS: Mapping[int, str] = {}


@dataclass(frozen=True)
class _OfCounter:
    """A value of a counter."""

    place: Annotated[str, Means("place")]
    name: Annotated[str, Means("name")]
    counter: Annotated[Counter, Only("unit", "source", "meaning", "is_gauge")]

    @property
    def words(self) -> str:
        """Its place and its name as people read them: `layer, vcpu: thread CPU`. The unit stands elsewhere."""
        owner, _, name = self.name.rpartition(".")
        words = name.removesuffix("_s").removesuffix("_bytes").split("_")
        origin = f"{self.place}, {owner}" if owner else self.place
        return f"{origin}: {' '.join('CPU' if word == 'cpu' else word for word in words)}"


@dataclass(frozen=True)
class ComparedCounter(_OfCounter):
    """A counter of one contrast."""

    baseline: Annotated[float, Means("mean over blocks, per unit of work; of a gauge as it is")]
    treatment: Annotated[float, Means("mean over blocks, per unit of work; of a gauge as it is")]
    ratio: Annotated[
        Interval, Means("treatment / baseline, per unit of work, at the corrected level")
    ]
    per_second: Annotated[
        Interval | None, Means("the same per second; null of gauges, and where work is in seconds")
    ]

    @property
    def moved(self) -> Annotated[bool, Means("the interval of `ratio` excludes 1")]:
        """Whether it differs from the baseline's."""
        return _differs(self.ratio)

    @property
    def follows_time(
        self,
    ) -> Annotated[bool, Means("it moved, and that of `per_second` does not exclude 1")]:
        """Whether no difference was found per second: it grew as the time for the work did."""
        return self.moved and self.per_second is not None and not _differs(self.per_second)

    @property
    def is_silent(
        self,
    ) -> Annotated[
        bool, Means("it moved, and is zero in the guests of one side, which may not count it")
    ]:
        """Whether a guest reports nothing but zero on one side: it may not count that at all."""
        of_guest = self.place not in (table.HOST, table.LAYER, LINK)
        return self.moved and of_guest and min(self.baseline, self.treatment) == 0

    @property
    def certain(self) -> float:
        """How far from 1 the ratio is at least, as a logarithm: the bound of the interval that is nearest to 1."""
        low, high = self._bounds
        return max(low, -high, 0.0)

    @property
    def half_width(self) -> float:
        """Half the interval of the ratio, as a logarithm: the smallest change that it would show."""
        low, high = self._bounds
        return (high - low) / 2

    @property
    def _bounds(self) -> tuple[float, float]:
        low = math.log(self.ratio.low) if self.ratio.low > 0 else -math.inf
        high = math.log(self.ratio.high) if 0 < self.ratio.high < math.inf else math.inf
        return low, high


@dataclass(frozen=True)
class OneSided(_OfCounter):
    """A counter that one platform of a contrast alone has."""

    platform: Annotated[str, Means("platform that has it")]
    value: Annotated[float, Means("mean over blocks, per unit of work; of a gauge as it is")]


@dataclass(frozen=True)
class Explained(OfSection):
    """A contrast and its counters."""

    section: Section
    point: Annotated[ResultPoint, Only("levels")]
    row: Annotated[
        Row,
        Means("platform", name="platform", take="platform.name"),
        Means("verdict on the metric", name="verdict", take="verdict.kind"),
        Means("ratio of the metric", name="ratio", take="ratio.estimate"),
    ]
    work: Annotated[
        str, Means("what counters are divided by: `GB`, `trial`, `s`, or what the metric counts")
    ]
    family: Annotated[int, Means("counters that the level is corrected for")]
    confidence: Annotated[float, Means("of all intervals of the table at once")]
    comparisons: tuple[ComparedCounter, ...]
    one_sided: Annotated[
        tuple[OneSided, ...],
        Means(
            "counters that one of the two platforms alone has, not at zero: the layer's first, then CPU times, then "
            "numbers of events; largest first in each"
        ),
    ]

    @property
    def counters(
        self,
    ) -> Annotated[tuple[ComparedCounter, ...], Means("those that both have, largest ratio first")]:
        """All, in the order of what is certain."""
        return tuple(
            sorted(
                self.comparisons,
                key=lambda counter: (-counter.certain, counter.place, counter.name),
            )
        )

    @property
    def detectable(
        self,
    ) -> Annotated[
        float,
        Means(
            "by which half of the counters would have had to change to be found: median half-width of the intervals; "
            "null when not finite",
            name="detectable_factor",
        ),
    ]:
        """The factor by which half of the counters would have had to change to be found: the median of the
        half-widths of their intervals. Infinite where there is none, or beyond what a float can have."""
        median = float(np.median(self._half_widths)) if self.comparisons else math.inf
        return math.exp(median) if median < _LARGEST_LOG else math.inf

    @property
    def is_narrow(self) -> bool:
        """Whether every counter would have been found to move by a factor of NARROW."""
        return bool(self.comparisons) and max(self._half_widths) <= math.log(NARROW)

    @property
    def _half_widths(self) -> list[float]:
        return [counter.half_width for counter in self.comparisons]

    @property
    def moved(self) -> tuple[ComparedCounter, ...]:
        """Those that moved otherwise than the time for the work did, largest first."""
        counters = [
            counter
            for counter in self.comparisons
            if counter.moved and not (counter.follows_time or counter.is_silent)
        ]
        return tuple(sorted(counters, key=lambda counter: -counter.certain))

    @property
    def silent(self) -> tuple[ComparedCounter, ...]:
        """Those that stay at zero in the guests of one side."""
        return tuple(counter for counter in self.comparisons if counter.is_silent)

    @property
    def with_time(self) -> tuple[ComparedCounter, ...]:
        """Those that moved as the time for the work did, largest first."""
        counters = [
            counter
            for counter in self.comparisons
            if counter.follows_time and not counter.is_silent
        ]
        return tuple(sorted(counters, key=lambda counter: -counter.certain))


@dataclass(frozen=True)
class _PerWork:
    """The quantity of this view: a counter of one cell per unit of work.

    mean: over blocks; of a gauge as it is.
    events: counted in all of its trials, in steps of the counter.
    per_work, per_second: in every block; the latter None of gauges, and where how long trials lasted is not known.
    """

    counter: Counter
    mean: float
    events: float
    per_work: Logs
    per_second: Logs | None


_Quantities = Mapping[tuple[str, str], _PerWork]
"""(place, name) -> the counter of one cell."""


@dataclass(frozen=True)
class _Contrast:
    """A contrast before it is judged. treatment, baseline: the counters of each side; one_sided: of one alone."""

    section: Section
    point: ResultPoint
    row: Row
    work: str
    treatment: _Quantities
    baseline: _Quantities
    one_sided: tuple[OneSided, ...]

    @property
    def shared(self) -> list[tuple[str, str]]:
        """Counters of both sides, not those that never counted anything."""
        shared_keys = [key for key in self.treatment if key in self.baseline]
        return [key for key in shared_keys if self.treatment[key].mean or self.baseline[key].mean]


def explainable(sections: Sequence[Section]) -> Iterator[tuple[Section, ResultPoint, Row, Row]]:
    """Contrasts of primary metrics that have a ratio and are not `equivalent`: (section, point, row, baseline)."""
    primary = [section for section in sections if section.metric.is_primary]
    for section, point, row, base in rows_to_baseline(primary):
        if row.ratio and row.verdict and row.verdict.kind != "equivalent":
            yield section, point, row, base


def explained(
    data: RunData,
    sections: Sequence[Section],
    block_counters: BlockCounters,
    confidence: float,
    settings: Mapping[int, str] = _NO_SETTINGS,
) -> list[Explained]:
    """Return every contrast that is not `equivalent`, with all of its counters. data, sections, block_counters: the whole
    run's.

    confidence: that no counter of a table is said to have moved by chance. settings: as store.query.effective has
    them; for metrics whose benchmark declares operations (`operations_of`).
    """
    numbers = {cell.key: number for number, cell in enumerate(data.run.cells)}
    explanations: list[Explained] = []
    for section in sections:
        contrasts = []
        for _, point, row, base in explainable([section]):
            cells = numbers[row.cell.key], numbers[base.cell.key]
            contrasts.append(
                _contrast(data, section, point, (row, base), cells, block_counters, settings)
            )
        family = sum(len(contrast.shared) for contrast in contrasts)
        explanations += [_judged(contrast, family, confidence) for contrast in contrasts]
    return explanations


def _judged(contrast: _Contrast, family: int, confidence: float) -> Explained:
    level = 1 - (1 - confidence) / max(family, 1)
    comparisons = []
    for place, name in contrast.shared:
        treatment, baseline = contrast.treatment[place, name], contrast.baseline[place, name]
        ratio = _ratio(treatment, baseline, treatment.per_work - baseline.per_work, level)
        per_second = None
        if treatment.per_second is not None and baseline.per_second is not None:
            logs = treatment.per_second - baseline.per_second
            per_second = _ratio(treatment, baseline, logs, level)
        counter = treatment.counter
        comparisons.append(
            ComparedCounter(place, name, counter, baseline.mean, treatment.mean, ratio, per_second)
        )
    return Explained(
        contrast.section,
        contrast.point,
        contrast.row,
        contrast.work,
        family,
        confidence,
        tuple(comparisons),
        contrast.one_sided,
    )


def _ratio(treatment: _PerWork, baseline: _PerWork, logs: Logs, level: float) -> Interval:
    """Return the ratio of two sides, at least as wide as counting alone makes it.

    Counts of a few events can be equal in all blocks by chance.
    """
    ratio = ratio_of_logs(logs.values, level)
    least_se = 0.0
    if not treatment.counter.is_gauge:
        least_se = math.sqrt(1 / treatment.events + 1 / baseline.events)
    if ratio.n_blocks > 1 and ratio.se_log < least_se:
        ratio = widened(ratio, level, least_se, ratio.df)
    return ratio.efficiency("higher")


def _differs(ratio: Interval) -> bool:
    return ratio.low > 1 or ratio.high < 1


def _contrast(
    data: RunData,
    section: Section,
    point: ResultPoint,
    rows: tuple[Row, Row],
    cells: tuple[int, int],
    block_counters: BlockCounters,
    settings: Mapping[int, str],
) -> _Contrast:
    """Return the counters of both sides. rows, cells: the treatment and the baseline."""
    sides = [
        {key[1:]: value for key, value in block_counters.items() if key[0] == cell}
        for cell in cells
    ]
    blocks: Ints = np.intersect1d(rows[0].blocks, rows[1].blocks)
    unit, work = work_of(data, section, rows, cells, sides, blocks, settings)
    quantities = []
    for side, cell, divisor in zip(sides, cells, work, strict=True):
        seconds = None if unit == SECOND else per_block(durations(data, cell), blocks)
        quantities.append(_per_work(side, blocks, divisor, seconds))
    treatment, baseline = quantities
    one_sided = []
    for number, other_number in ((0, 1), (1, 0)):
        for (place, name), quantity in quantities[number].items():
            if (place, name) not in sides[other_number] and quantity.mean > 0:
                platform = rows[number].platform.name
                one_sided.append(OneSided(place, name, quantity.counter, platform, quantity.mean))
    return _Contrast(
        section, point, rows[0], unit, treatment, baseline, tuple(sorted(one_sided, key=_by_size))
    )


def _per_work(side: Side, blocks: Ints, work: Floats, seconds: Floats | None) -> _Quantities:
    """Return the counters of a cell that have a value in every one of these blocks.

    work, seconds: of a trial, in every block; no seconds where work is in seconds itself.
    """
    quantities = {}
    for key, counts in side.items():
        counter = table.find(key[1])
        values = np.maximum(per_block(counts, blocks), 0.0)
        if counter is None or counter in table.CLOCK or not blocks.size:
            continue
        divisor = np.ones(blocks.size) if counter.is_gauge else work
        if not np.isfinite(values / divisor).all():
            continue
        counts_above_zero = values + counter.step / 2
        per_second = None
        if seconds is not None and not counter.is_gauge and (seconds > 0).all():
            per_second = Logs(blocks, np.log(counts_above_zero / seconds))
        quantities[key] = _PerWork(
            counter,
            float((values / divisor).mean()),
            float(counts_above_zero.sum() * counts[2] / counter.step),
            Logs(blocks, np.log(counts_above_zero / divisor)),
            per_second,
        )
    return quantities


def _by_size(counter: OneSided) -> tuple[bool, bool, int, float, str, str]:
    """Return the layer's first; of values of one unit the largest first."""
    rank = {"s": 0, "": 1}.get(counter.counter.unit, 2)
    return (
        counter.place != table.LAYER,
        counter.counter.is_gauge,
        rank,
        -counter.value,
        counter.place,
        counter.name,
    )
