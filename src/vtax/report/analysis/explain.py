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
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vtax.counters import table
from vtax.counters.table import LINK, Counter
from vtax.report.analysis.values import Floats, Ints, ResultPoint, Row, Section
from vtax.stats.ratio import Ratio, ratio_of_logs, widened
from vtax.store.query import BlockCounters, RunData

_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9, "min": 60.0}
_BYTES = {"bit": 1 / 8, "B": 1.0}
_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_DATA = re.compile(r"([kKMGT]i?|)(bit|B)")
_WHOLE = 0.5  # of a trial's duration: a time that is more of it is the time of the whole work
GIGABYTE, SECOND, TRIAL = "GB", "s", "trial"
_LEAST_BYTES = 1e6  # of a trial; less is no traffic to divide by


@dataclass(frozen=True)
class Compared:
    """A counter of one contrast.

    baseline, treatment: means over blocks, per unit of work; of a gauge as they are. ratio: of the treatment to the
    baseline, its interval at the corrected level. per_second: the same of what was counted in a second; None where
    the unit of work is that, and of gauges.
    """

    place: str
    name: str
    counter: Counter
    baseline: float
    treatment: float
    ratio: Ratio
    per_second: Ratio | None

    @property
    def moved(self) -> bool:
        """Whether it differs from the baseline's."""
        return _differs(self.ratio)

    @property
    def follows_time(self) -> bool:
        """Whether no difference was found per second: it grew as the time for the work did."""
        return self.moved and self.per_second is not None and not _differs(self.per_second)

    @property
    def is_silent(self) -> bool:
        """Whether a guest reports nothing but zero on one side: it may not count that at all."""
        of_guest = self.place not in (table.HOST, table.LAYER, LINK)
        return self.moved and of_guest and min(self.baseline, self.treatment) == 0

    @property
    def certain(self) -> float:
        """How far from 1 the ratio is at least, as a logarithm: the bound of the interval that is nearest to 1."""
        low = math.log(self.ratio.low) if self.ratio.low > 0 else -math.inf
        high = math.log(self.ratio.high) if self.ratio.high < math.inf else math.inf
        return max(low, -high, 0.0)


@dataclass(frozen=True)
class Explained:
    """A contrast and its counters. work: unit that counters are divided by. family: how many the level is corrected
    for. confidence: of all intervals of the table at once. one_sided: counters that one side alone has,
    `PLACE.NAME`."""

    section: Section
    point: ResultPoint
    row: Row
    work: str
    family: int
    confidence: float
    compared: tuple[Compared, ...]
    one_sided: tuple[str, ...]

    @property
    def moved(self) -> tuple[Compared, ...]:
        """Those that moved otherwise than the time for the work did, largest first."""
        found = [each for each in self.compared if each.moved and not (each.follows_time or each.is_silent)]
        return tuple(sorted(found, key=lambda each: -each.certain))

    @property
    def silent(self) -> tuple[Compared, ...]:
        """Those that stay at zero in the guests of one side."""
        return tuple(each for each in self.compared if each.is_silent)

    @property
    def with_time(self) -> tuple[Compared, ...]:
        """Those that moved as the time for the work did, largest first."""
        found = [each for each in self.compared if each.follows_time and not each.is_silent]
        return tuple(sorted(found, key=lambda each: -each.certain))


@dataclass(frozen=True)
class _Pair:
    """Counters of one contrast before they are judged: (place, name) -> logarithms per block, for work and time."""

    section: Section
    point: ResultPoint
    row: Row
    work: str
    logs: Mapping[tuple[str, str], tuple[Counter, float, float, Floats, Floats | None, float]]
    one_sided: tuple[str, ...]


def explainable(sections: Sequence[Section]) -> Iterator[tuple[Section, ResultPoint, Row, Row]]:
    """Contrasts of primary metrics that have a ratio and are not `equivalent`: (section, point, row, baseline)."""
    for section in sections:
        for point in section.points if section.metric.is_primary else ():
            base = next((row for row in point.rows if row.platform.is_baseline), None)
            for row in point.rows:
                if base is None or row is base or row.ratio is None or row.verdict is None:
                    continue
                if row.verdict.kind != "equivalent":
                    yield section, point, row, base


def explained(
    data: RunData, sections: Sequence[Section], counted: BlockCounters, confidence: float
) -> list[Explained]:
    """Every contrast that is not `equivalent`, with all of its counters. data: the whole run's.

    confidence: that no counter of a table is said to have moved by chance.
    """
    cells = {cell.key: number for number, cell in enumerate(data.run.cells)}
    found: list[Explained] = []
    for section in sections:
        pairs = [
            _pair(data, section, point, (row, base), (cells[row.cell.key], cells[base.cell.key]), counted)
            for _, point, row, base in explainable([section])
        ]
        family = sum(len(pair.logs) for pair in pairs)
        found += [_judged(pair, family, confidence) for pair in pairs]
    return found


def _judged(pair: _Pair, family: int, confidence: float) -> Explained:
    level = 1 - (1 - confidence) / max(family, 1)
    compared = []
    for (place, name), (counter, treatment, baseline, logs, seconds, least_se) in pair.logs.items():
        ratio = _ratio(logs, level, least_se)
        per_second = None if seconds is None else _ratio(seconds, level, least_se)
        compared.append(Compared(place, name, counter, baseline, treatment, ratio, per_second))
    return Explained(
        pair.section, pair.point, pair.row, pair.work, family, confidence, tuple(compared), pair.one_sided
    )  # fmt: skip


def _ratio(logs: Floats, level: float, least_se: float) -> Ratio:
    """least_se: that counting alone gives. Counts of a few events can be equal in all blocks by chance."""
    found = ratio_of_logs(logs, level)
    if found.n_blocks > 1 and found.se_log < least_se:
        return widened(found, level, least_se, found.df)
    return found


def _differs(ratio: Ratio) -> bool:
    return ratio.low > 1 or ratio.high < 1


def _pair(
    data: RunData, section: Section, point: ResultPoint, rows: tuple[Row, Row], cells: tuple[int, int],
    counted: BlockCounters,
) -> _Pair:  # fmt: skip
    sides = [{key[1:]: value for key, value in counted.items() if key[0] == cell} for cell in cells]
    blocks: Ints = np.intersect1d(rows[0].blocks, rows[1].blocks)
    unit, work = work_of(data, section, cells, sides, blocks)
    seconds = [_per_block(_durations(data, cell), blocks) for cell in cells]
    logs = {}
    for key in [key for key in sides[0] if key in sides[1]]:
        counter = table.find(key[1])
        if counter is None or counter in table.CLOCK:
            continue
        values = [_per_block(side[key], blocks) for side in sides]
        if not all(np.isfinite(value).all() for value in values) or not any(value.any() for value in values):
            continue  # not in every block, or never anything
        divisors = [np.ones(blocks.size)] * 2 if counter.is_gauge else work
        per_work = [np.maximum(v, 0.0) / divisor for v, divisor in zip(values, divisors, strict=True)]
        if not blocks.size or not all(np.isfinite(value).all() for value in per_work):
            continue
        some = [np.maximum(v, 0.0) + counter.step / 2 for v in values]
        log = _difference(some, divisors)
        of_time = None if counter.is_gauge or unit == SECOND else _difference(some, seconds)
        trials = float(min(side[key][2] for side in sides))
        events = [value.sum() * trials / counter.step for value in some]
        least_se = 0.0 if counter.is_gauge else math.sqrt(sum(1 / total for total in events))
        logs[key] = counter, float(per_work[0].mean()), float(per_work[1].mean()), log, of_time, least_se
    one_sided = sorted(
        {f"{place}.{name}" for place, name in set(sides[0]) ^ set(sides[1])},
        key=lambda name: (not name.startswith(table.LAYER), name),
    )
    return _Pair(section, point, rows[0], unit, logs, tuple(one_sided))


def _difference(values: Sequence[Floats], divisors: Sequence[Floats]) -> Floats:
    """Logarithm of treatment / baseline per block, each divided by its divisor."""
    left, right = (np.log(value) - np.log(divisor) for value, divisor in zip(values, divisors, strict=True))
    return np.asarray(left - right)


_Side = Mapping[tuple[str, str], tuple[Ints, Floats, float]]


def work_of(
    data: RunData, section: Section, cells: tuple[int, int], sides: Sequence[_Side], blocks: Ints
) -> tuple[str, list[Floats]]:
    """The unit that fits a metric, and the work of both cells in it: a mean per trial, for every block.

    Where the guests under test moved data over the lab, gigabytes of it. Of a rate what it counts, times the
    duration of a trial. Of a time that is most of the trial, or is the time of one operation, the trial or the
    operation. Else seconds.
    """
    moved = [side.get((LINK, table.UNDER_TEST_BYTES.name)) for side in sides]
    if all(side is not None for side in moved):
        found = [_per_block(side, blocks) / 1e9 for side in moved if side is not None]
        if all((work > _LEAST_BYTES / 1e9).all() for work in found):
            return GIGABYTE, found
    seconds = [_durations(data, cell) for cell in cells]
    times = [_per_block(each, blocks) for each in seconds]
    values = [_per_block(_values(data, section, cell), blocks) for cell in cells]
    what, _, per = section.metric.unit.partition("/")
    if per == "s":
        data_unit = _DATA.fullmatch(what)
        if data_unit:
            scale = {**_DECIMAL, **_BINARY}[data_unit[1]] * _BYTES[data_unit[2]] / 1e9
            return GIGABYTE, [v * t * scale for v, t in zip(values, times, strict=True)]
        return (what if what != "1" else "operation"), [v * t for v, t in zip(values, times, strict=True)]
    if what in _SECONDS and per:
        return per, [t / (v * _SECONDS[what]) for v, t in zip(values, times, strict=True)]
    if what in _SECONDS and all((v * _SECONDS[what] > _WHOLE * t).all() for v, t in zip(values, times, strict=True)):
        return TRIAL, [np.ones(blocks.size)] * 2
    return SECOND, times


def _per_block(side: tuple[Ints, Floats, float], blocks: Ints) -> Floats:
    """Means of these blocks; NaN where a block has none."""
    have, means, _ = side
    found = np.full(blocks.size, np.nan)
    _, at, where = np.intersect1d(blocks, have, return_indices=True)
    found[at] = means[where]
    return found


def _durations(data: RunData, cell: int) -> tuple[Ints, Floats, float]:
    trials = data.trials
    used = (trials.cell == cell) & trials.is_ok & ~trials.is_warmup
    return _means(trials.block[used], trials.outside_s[used])


def _values(data: RunData, section: Section, cell: int) -> tuple[Ints, Floats, float]:
    metric = next(n for n, m in enumerate(data.run.metrics) if m == section.metric)
    trials, measured = data.trials, data.measurements
    of_metric = measured.metric == metric
    trial, value = measured.trial[of_metric], measured.value[of_metric]
    used = (trials.cell == cell) & trials.is_ok & ~trials.is_warmup
    return _means(trials.block[trial[used[trial]]], value[used[trial]])


def _means(blocks: Ints, values: Floats) -> tuple[Ints, Floats, float]:
    names, index = np.unique(blocks, return_inverse=True)
    counts = np.bincount(index, minlength=names.size)
    return names, np.bincount(index, values, minlength=names.size) / np.maximum(counts, 1), float(values.size)
