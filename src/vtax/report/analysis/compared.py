"""What a contrast is made of: its two sides, the cells that are compared, and the cells that are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from vtax.described import Means
from vtax.report.analysis.values import Analysis, OfSection, Row, Section, every_row
from vtax.report.document import Inline, joined
from vtax.stats.ratio import Ratio
from vtax.stats.verdict import Verdict
from vtax.store.records import LEVELS, MARKS, CellRecord
from vtax.study.claims import BENCHMARK, METRIC, canonical
from vtax.study.units import format_levels


@dataclass(frozen=True)
class Side:
    """One side: a platform of a run, at some levels. text: as it was written. platform: empty for a whole run.

    further: the same of the other runs of this side.
    """

    text: str
    analysis: Analysis
    platform: str
    levels: Mapping[str, str]
    further: tuple[Side, ...] = ()

    @property
    def runs(self) -> tuple[Side, ...]:
        """Each run of the side, this one first."""
        return (self, *self.further)

    @property
    def name(self) -> str:
        """Its run, or all of its runs: `tour-1, tour-2`."""
        return ", ".join(side.analysis.name for side in self.runs)

    @property
    def is_run(self) -> bool:
        """Whether the side is a whole run."""
        return not self.platform


@dataclass(frozen=True)
class Cell:
    """A row with the section and the run that have it."""

    run: Analysis
    section: Section
    row: Row

    @cached_property
    def shown(self) -> Mapping[str, str]:
        """Level of every factor, of `benchmark` and of `metric`, as they are written."""
        levels = {factor: str(level) for factor, level in self.row.cell.levels.items()}
        return {BENCHMARK: self.section.label, METRIC: self.section.metric.name, **levels}

    @cached_property
    def levels(self) -> Mapping[str, str]:
        """The same in their canonical form."""
        levels = {factor: canonical(level) for factor, level in self.row.cell.levels.items()}
        named = {BENCHMARK: self.section.label.casefold(), METRIC: self.section.metric.name.casefold()}
        return {**named, **levels}


def cells_of(run: Analysis) -> list[Cell]:
    """Return every metric of every cell of a run, those without values too."""
    return [Cell(run, section, row) for section, _, row in every_row(run.sections)]


@dataclass(frozen=True)
class Compared(OfSection):
    """One metric of one pair of cells. ratio: treatment / baseline.

    reason: why there is no ratio, or no verdict on it. treatment, baseline: of several runs, the means of sessions
    are the values. cells: of each run of either side, those of the first runs first. relative: the ratio of both
    ratios to the baseline that the runs share, across runs; None where they share none, or compare it.
    """

    section: Section
    levels: Annotated[Mapping[str, Any], LEVELS]
    treatment: Annotated[Row, Means("platform of the treatment", name="platform", take="platform.name")]
    baseline: Row
    cells: tuple[tuple[Cell, ...], tuple[Cell, ...]]
    ratio: Ratio | None = None
    verdict: Verdict | None = None
    reason: str = ""
    relative: Ratio | None = None

    @property
    def marks(self) -> Annotated[tuple[str, ...], MARKS]:
        """The marks of the treatment."""
        return self.treatment.platform.marks

    @property
    def clock_is_wrong(self) -> bool:
        """Whether a clock of either side ran at a wrong rate, see Row."""
        return self.treatment.clock_is_wrong or self.baseline.clock_is_wrong

    @property
    def name(self) -> str:
        """`direction=send`: what the two sides have in common."""
        return format_levels(self.levels)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of ratio and verdict, each text once."""
        parts = (self.ratio, self.verdict, self.relative)
        found = [text for part in parts if part is not None for text in part.warnings]
        return tuple(dict.fromkeys(found))


def by_table(pairs: Sequence[Compared]) -> list[list[int]]:
    """The families of pairs, as places in their order: those of one metric of one benchmark, as a table shows it."""
    families: dict[str, list[int]] = {}
    for number, pair in enumerate(pairs):
        families.setdefault(pair.section.name, []).append(number)
    return list(families.values())


@dataclass(frozen=True)
class Mismatch:
    """Two cells of whole runs, of one label and the same levels, whose settings differ. reasons: how."""

    treatment: CellRecord
    baseline: CellRecord
    reasons: tuple[Inline, ...]


@dataclass(frozen=True)
class Contrasts:
    """All contrasts of two sides. warnings: about the runs. unmatched: cells of whole runs that one run alone has.
    mismatched: cells that both have with other settings, which are not compared. common_baseline: that of ratios of
    ratios. is_of_table: these are ratios of the run's table, and their verdicts are those, judged in its families.

    margin, confidence: of the run; of two runs the smaller margin and the larger confidence.
    """

    treatment: Side
    baseline: Side
    is_paired: bool
    margin: float
    confidence: float
    compared: tuple[Compared, ...]
    warnings: tuple[Inline, ...] = ()
    unmatched: tuple[tuple[CellRecord, ...], tuple[CellRecord, ...]] = ((), ())
    mismatched: tuple[Mismatch, ...] = ()
    common_baseline: str = ""
    is_of_table: bool = False

    @property
    def families(self) -> tuple[int, ...]:
        """How many contrasts the verdicts are corrected for, ascending: one family, or those of the run's table."""
        return tuple(sorted({each.verdict.family for each in self.compared if each.verdict is not None}))

    @property
    def family(self) -> int:
        """The largest of them; 0 without a verdict."""
        return max(self.families, default=0)

    def is_of_one_session(self, ratio: Ratio | None) -> bool:
        """Return whether a ratio is across runs of which a side has one session only; its interval is then over
        blocks."""
        return not self.is_paired and ratio is not None and ratio.n_sessions == 1

    def reason_empty(self) -> Inline:
        """Return why there is no ratio at all: what each side lacks, or else what stands between them."""
        if not self.compared:
            reasons = {repr(reason): reason for each in self.mismatched for reason in each.reasons}
            return joined(list(reasons.values()), "; ")
        lacks = [
            f"{side.text}: {row.reason or 'no values'}"
            for each in self.compared
            for side, row in ((self.treatment, each.treatment), (self.baseline, each.baseline))
            if row.summary is None
        ]
        return "; ".join(dict.fromkeys(lacks or [each.reason for each in self.compared]))
