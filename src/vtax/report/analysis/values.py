"""What a result is made of: rows of platforms at points of sections, and all of a run in one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vtax.report.analysis.filters import EVERYTHING, Filter
from vtax.report.analysis.sessions import MeasuredSession
from vtax.report.document import Inline, Place, Platform, Share, Warning, levels_of
from vtax.stats.censoring import Timeouts
from vtax.stats.checks import Better
from vtax.stats.describe import Summary, outlier_warnings
from vtax.stats.ratio import BlockMeans, Ratio
from vtax.stats.stopping import Rule
from vtax.stats.typical import Typical
from vtax.stats.verdict import Verdict
from vtax.store.annotations import Annotations
from vtax.store.query import FailureRow, GuestRow
from vtax.store.records import CellRecord, MetricRecord, PlatformRecord, PluginRecord, UntestedRecord
from vtax.study.units import format_levels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Row:
    """One metric of one cell.

    summary: None when no trial succeeded, or none was made yet. ratio, verdict: None for the baseline, and when there
    is no answer; reason then says why. blocks, block_means: one value per block, in order; nothing is hidden.
    failed: trials. target_missed: what the rule declared for it is not reached. typical: beside the ratio, where
    trials and blocks suffice. block_medians, fewest_trials: of the trials of every block, and of the block with the
    fewest. clock_is_wrong: of its guests, where the metric is in their time; see `clock`. timeouts: of a metric over
    fixed work, where trials timed out. is_other_quantity: a trial measured something else than its study asks
    for, see store.records.OTHER_QUANTITY. is_withheld: it has no ratio, for its reason; see `tails`. is_held_below:
    only the cache below a guest's disk held a trial's files. trial_blocks, trial_values, trial_positions: of every
    measured trial that went well, in their order; positions are in the run, from 0. warnings: all that the statistics
    say about this row.
    """

    cell: CellRecord
    platform: PlatformRecord
    summary: Summary | None
    blocks: Ints
    block_means: Floats
    failed: int
    ratio: Ratio | None = None
    verdict: Verdict | None = None
    reason: str = ""
    target_missed: bool = False
    typical: Typical | None = None
    block_medians: Floats = field(default_factory=lambda: np.zeros(0))
    fewest_trials: int = 0
    clock_is_wrong: bool = False
    is_other_quantity: bool = False
    is_held_below: bool = False
    is_withheld: bool = False
    timeouts: Timeouts | None = None
    trial_blocks: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    trial_values: Floats = field(default_factory=lambda: np.zeros(0))
    trial_positions: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def means_of_blocks(self) -> BlockMeans:
        """What its contrasts are built from."""
        return BlockMeans(self.blocks, self.block_means)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of the summary, the ratios and the verdict, each text once.

        With one trial per block outlying blocks are outlying values: they are listed once.
        """
        found = [self.reason] if self.reason else []
        for part in (self.summary, self.ratio, self.verdict, self.typical):
            if part is not None:
                found += part.warnings
        if self.timeouts is not None:
            found.append(self.timeouts.note)
        if self.ratio and self.summary and self.summary.outliers and self.summary.n == self.summary.blocks:
            twice = outlier_warnings(len(self.ratio.outliers), self.ratio.n_blocks, "blocks")
            found = [text for text in found if text not in twice]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class ResultPoint:
    """One combination of levels, compared over platforms. levels: factor -> level. rows: in platform order."""

    key: str
    levels: Mapping[str, Any]
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """`direction=send, mtu=1500`; empty when nothing varies."""
        return format_levels(self.levels)


@dataclass(frozen=True)
class Section:
    """One metric of one benchmark table over all its points: what is judged as one family, and shown as one table."""

    label: str
    benchmark: str
    tool_version: str
    metric: MetricRecord
    points: tuple[ResultPoint, ...]
    family: int
    tool: str = ""

    @property
    def better(self) -> Better:
        """Which way is better for the metric."""
        return "lower" if self.metric.better == "lower" else "higher"

    @property
    def title(self) -> str:
        """`stream · triad`: what a table of it is called."""
        return f"{self.label} · {self.metric.title or self.metric.name}"

    @property
    def name(self) -> str:
        """`stream triad`: how sentences call it."""
        return f"{self.label} {self.metric.name}"


def place_of(section: Section, point: ResultPoint, row: Row) -> Place:
    """`docker, iperf3 throughput, direction=send`: where something about a row holds."""
    return Place(row.platform.name, section.name, levels_of(point.levels))


@dataclass(frozen=True)
class Analysis:
    """The result of a run.

    run: as stored, see store.run.RunHandle. sections: primary metrics first within a benchmark. warnings: all, with
    where each holds. missed_targets: one sentence each. ready_s: platform -> seconds from start to agent
    ready, one per guest. filter: what of the run is shown; blocks, trials, failed and all verdicts are of the
    whole run. sessions: those that have a trial.
    """

    name: str
    study: str
    declared: Mapping[str, Any]
    status: str
    stopped_because: str
    seed: int
    vtax_version: str
    image_key: str
    host: Mapping[str, Any]
    plugins: tuple[PluginRecord, ...]
    started_at: float
    ended_at: float | None
    duration_s: float | None
    rule: Rule
    baseline: str
    blocks: int
    trials: int
    failed: int
    platforms: tuple[PlatformRecord, ...]
    sections: tuple[Section, ...]
    guests: tuple[GuestRow, ...]
    failures: tuple[FailureRow, ...]
    cells: tuple[CellRecord, ...]
    untested: tuple[UntestedRecord, ...]
    warnings: tuple[Warning, ...]
    missed_targets: tuple[Inline, ...]
    filter: Filter = EVERYTHING
    sessions: tuple[MeasuredSession, ...] = ()
    identity: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    annotations: Annotations = field(default_factory=Annotations)

    @property
    def planned_sessions(self) -> int:
        """How many sessions the study asks for."""
        return int(self.declared.get("design", {}).get("sessions") or 1)

    @property
    def has_boots(self) -> bool:
        """Whether the study measures in several boots of the host."""
        return bool(self.declared.get("boot"))

    @property
    def level(self) -> Share:
        """The confidence of every interval: `95 %`."""
        return Share(self.rule.confidence, "declared")

    @property
    def primary(self) -> tuple[Section, ...]:
        """The sections of primary metrics."""
        return tuple(section for section in self.sections if section.metric.is_primary)

    def platform_of(self, name: str) -> Platform:
        """Return a platform's name with its marks, such as `emulated`: how texts, tables and figures show it."""
        marks = next((platform.marks for platform in self.platforms if platform.name == name), ())
        return Platform(name, marks)

    def ready_s(self, platform: str) -> list[float]:
        """Start to agent ready of every guest of a platform that became ready."""
        return [g.ready_s for g in self.guests if g.platform == platform and g.ready_s is not None]


def aligned(rows: Sequence[Row]) -> tuple[Ints, Floats]:
    """(blocks, matrix of rows by blocks): NaN where a block lacks a row. Blocks are all that any row has."""
    blocks = np.unique(np.concatenate([row.blocks for row in rows])).astype(np.int64)
    matrix = np.full((len(rows), blocks.size), np.nan)
    for line, row in zip(matrix, rows, strict=True):
        line[np.searchsorted(blocks, row.blocks)] = row.block_means
    return blocks, matrix
