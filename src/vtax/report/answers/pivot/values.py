"""The values of a pivot: means, percents of the baseline, percentiles, and each as percent of that at one level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from vtax.levels import Levels
from vtax.messages import Note
from vtax.pairing import pair_rows
from vtax.question import Selection, rest
from vtax.report import document as doc
from vtax.report.analysis.factors import recorded
from vtax.report.analysis.result import row_contrast
from vtax.report.analysis.sessions import MeasuredSession, blocks_of, ratio_in
from vtax.report.analysis.source import Source
from vtax.report.analysis.values import (
    Estimate,
    ResultPoint,
    Row,
    Section,
    bounded,
    every_row,
)
from vtax.report.answers.within_trials.compute import trials_of
from vtax.report.document import msg
from vtax.stats.checks import StatsError
from vtax.stats.contrasts import ContrastSide, paired_contrast
from vtax.stats.intervals import Interval, mean_interval
from vtax.stats.judge import Comparison, Contrast
from vtax.stats.judge import analyse as judge
from vtax.stats.quantiles import quantile_interval, ratio_of_quantiles
from vtax.stats.ratio import BlockMeans, Ratio
from vtax.stats.sessions import half_width_over_sessions

Quantity = Literal["mean", "efficiency", "p50", "p95", "p99"]
PERCENTILES: Mapping[str, float] = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
_NO_REFERENCE = msg("no ratio to a value at the level that is 100 %")


class Values:
    """Computes the values of one quantity. to: the cells whose figures are 100 %; or everything."""

    def __init__(self, source: Source, quantity: Quantity, to: Selection) -> None:
        self.source, self.quantity, self.to = source, quantity, to
        self._place = rest(*to.choices)
        self._references: dict[tuple[str, Levels], tuple[ResultPoint, Row]] = {}
        for section, point, row in every_row(source.analysis.sections) if to else ():
            if to.selects(Levels(recorded(row.cell, section.metric.name))):
                self._references[self._key(section, row)] = point, row

    def of(
        self, section: Section, point: ResultPoint, row: Row, sessions: Sequence[MeasuredSession]
    ) -> tuple[Estimate | None, doc.Inline]:
        """(value of a row that has values, why there is none). sessions: with their blocks; none for the whole."""
        if self.quantity == "efficiency" and row.platform.is_baseline:
            return Estimate(1.0), ""
        if self.to:
            reference = self._references.get(self._key(section, row))
            if reference is None or reference[1].summary is None:
                return None, _NO_REFERENCE
            if reference[1] is row:
                return Estimate(1.0), ""
            estimate = self._to(section, (point, row), reference, sessions)
            return (estimate, "") if estimate else (None, _NO_REFERENCE)
        if self.quantity in PERCENTILES:
            quantile = self._quantile(section, row, sessions)
            if quantile is None:
                return None, msg("its trials hold one value each")
            return bounded(quantile), ""
        if not sessions:
            summary, mean = row.summary, None
            if summary is not None:
                mean = Interval(summary.mean, summary.low, summary.high)
            return self._chosen(section, mean, row.ratio), row.reason
        confidence, base = self.source.analysis.rule.confidence, point.baseline
        part = _in(row, sessions)
        ratio = ratio_in(row, base, sessions, confidence) if base and base.summary else None
        mean = _mean(part.block_means, self.source.analysis.units_of(part.blocks), confidence)
        return self._chosen(section, mean, ratio), msg("the baseline has no value in this part")

    def _chosen(
        self, section: Section, mean: Interval | None, ratio: Ratio | None
    ) -> Estimate | None:
        chosen = mean if self.quantity == "mean" else ratio and ratio.efficiency(section.better)
        return bounded(chosen) if chosen else None

    def _key(self, section: Section, row: Row) -> tuple[str, Levels]:
        """Return what a row shares with the one that is 100 %: every level but that of the factor."""
        return section.name, self._place.of(row.cell.place)

    def _to(
        self,
        section: Section,
        of: tuple[ResultPoint, Row],
        to: tuple[ResultPoint, Row],
        sessions: Sequence[MeasuredSession],
    ) -> Estimate | None:
        """Return a figure as percent of that at another level: within blocks, but of percentiles."""
        analysis = self.source.analysis
        if self.quantity in PERCENTILES:
            sides = [self._quantile(section, row, sessions) for _, row in (of, to)]
            treatment, baseline = sides if section.better == "higher" else sides[::-1]
            if treatment is None or baseline is None:
                return None
            if min(treatment.estimate, baseline.estimate) <= 0:
                return None
            return bounded(ratio_of_quantiles(treatment, baseline))
        try:
            if self.quantity == "efficiency":
                contrast = self._of_ratios(section, of, to, sessions)
            else:
                contrast = row_contrast(
                    _in(of[1], sessions), _in(to[1], sessions), section.better, analysis.units
                )
            answer = judge(analysis.rule, {"": contrast})[""]
        except StatsError:
            return None
        if not isinstance(answer, Comparison):
            return None
        return bounded(answer.ratio.efficiency(section.better))

    def _of_ratios(
        self,
        section: Section,
        of: tuple[ResultPoint, Row],
        to: tuple[ResultPoint, Row],
        sessions: Sequence[MeasuredSession],
    ) -> Contrast:
        """Return the ratio of two ratios to the baseline, over blocks that have all four. Raises StatsError."""
        sides = []
        for point, row in (of, to):
            if point.baseline is None or row.ratio is None:
                raise StatsError(Note("no-baseline-here"))
            treatment, base = (
                _in(side, sessions).means_of_blocks for side in (row, point.baseline)
            )
            logs = pair_rows(treatment, base).known()
            with np.errstate(over="ignore"):
                sides.append(ContrastSide(BlockMeans(logs.units, np.exp(logs.values))))
        return paired_contrast(sides[0], sides[1], section.better, self.source.analysis.units)

    def _quantile(
        self, section: Section, row: Row, sessions: Sequence[MeasuredSession]
    ) -> Interval | None:
        """Return a percentile of all samples of the trials; None without any."""
        samples = [
            self.source.samples.get(trial, {}).get(section.metric.name, ())
            for trial in trials_of(row, self.source)
        ]
        blocks = np.repeat(row.trial_blocks[: len(samples)], [len(trial) for trial in samples])
        values = np.array([value for trial in samples for value in trial])
        is_inside = np.isin(blocks, blocks_of(sessions) or blocks)
        if not is_inside.any():
            return None
        confidence = self.source.analysis.rule.confidence
        try:
            return quantile_interval(
                values[is_inside], blocks[is_inside], PERCENTILES[self.quantity], confidence
            )
        except StatsError:
            return None


def blocks_in(row: Row, sessions: Sequence[MeasuredSession]) -> Any:
    """Return which blocks of a row are of these sessions; all of them without any."""
    return np.isin(row.blocks, blocks_of(sessions) if sessions else row.blocks)


def _in(row: Row, sessions: Sequence[MeasuredSession]) -> Row:
    """Return the row with the blocks of these sessions alone."""
    if not sessions:
        return row
    is_inside = blocks_in(row, sessions)
    return replace(row, blocks=row.blocks[is_inside], block_means=row.block_means[is_inside])


def _mean(values: Any, units: Any, confidence: float) -> Interval:
    """Return the mean of blocks' means with its interval: over hosts or sessions where there are several."""
    half_width = half_width_over_sessions(values, units, confidence)
    if half_width is None:
        return mean_interval(values, confidence)
    mean = float(values.mean())
    return Interval(mean, mean - half_width, mean + half_width)
