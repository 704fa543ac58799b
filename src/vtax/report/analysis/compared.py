"""Parts of a contrast: its two sides, the cells that are compared, and the cells that are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from vtax.described import Means, Warnings
from vtax.grouping import by_key
from vtax.levels import METRIC, PLATFORM, Levels
from vtax.question import EVERYTHING, Selection
from vtax.report import document as doc
from vtax.report.analysis.factors import settings_of
from vtax.report.analysis.values import Analysis, OfSection, Row, Section, every_row
from vtax.report.document import joined
from vtax.stats.ratio import Loss, Ratio
from vtax.stats.verdict import Verdict
from vtax.store.records import LEVELS, MARKS, CellRecord


@dataclass(frozen=True)
class Side:
    """One side: a platform of a run, at some levels, or a whole run. further: the same of its other runs."""

    text: Annotated[str, Means("as it was written")]
    analysis: Annotated[Analysis, Means("run", name="run", take="name")]
    platform: Annotated[str, Means("platform; empty for a whole run")]
    levels: Annotated[Levels, LEVELS]
    further: tuple[Side, ...] = ()

    @property
    def runs(self) -> tuple[Side, ...]:
        """Each run of the side, this one first."""
        return (self, *self.further)

    @property
    def names(self) -> Annotated[tuple[str, ...], Means("all of its runs", name="runs")]:
        """The name of each run, in order."""
        return tuple(side.analysis.name for side in self.runs)

    @property
    def name(self) -> str:
        """Its run, or all of its runs: `tour-1, tour-2`."""
        return ", ".join(self.names)

    @property
    def is_run(self) -> bool:
        """Whether the side is a whole run."""
        return not self.platform

    @cached_property
    def selection(self) -> Selection:
        """The cells that it names; all of a whole run."""
        if self.is_run:
            return EVERYTHING
        return Selection.of({**self.levels, PLATFORM: self.platform})


@dataclass(frozen=True)
class Cell:
    """A row with the section and the run that have it."""

    run: Analysis
    section: Section
    row: Row

    @property
    def interval_confidence(self) -> float:
        """The confidence level of its interval that the rule of its run asks for after the blocks it made."""
        return self.run.rule.interval_confidence(self.row.block_means.size)

    @property
    def link_rate(self) -> float | None:
        """The rate limit of its link, in Mbit/s; None without one."""
        return self.run.link_rate(self.section.label, self.row.cell.levels)

    @property
    def is_primary(self) -> bool:
        """Whether its metric is a primary one."""
        return self.section.metric.is_primary

    @cached_property
    def levels(self) -> Levels:
        """The levels of its factors, of `platform`, `benchmark` and `metric`."""
        return Levels({**self.row.cell.place, METRIC: self.section.metric.name})

    @cached_property
    def settings(self) -> Levels:
        """The same, with the parameters and link settings that all cells of its run share."""
        return Levels({**settings_of(self.row.cell), **self.levels})


def cells_of(run: Analysis) -> list[Cell]:
    """Return every metric of every cell of a run, those without values too."""
    return [Cell(run, section, row) for section, _, row in every_row(run.sections)]


@dataclass(frozen=True)
class CellPair(OfSection):
    """One metric of one pair of cells. treatment, baseline: of several runs, the means of sessions are the values.
    cells: of each run of either side, those of the first runs first."""

    section: Section
    levels: Annotated[Levels, LEVELS]
    treatment: Annotated[
        Row,
        Means("platform of the treatment", name="platform", take="platform.name"),
        Means("mean of the treatment", "unit", name="treatment_mean", take="summary.mean"),
    ]
    baseline: Annotated[
        Row, Means("mean of the baseline", "unit", name="baseline_mean", take="summary.mean")
    ]
    cells: tuple[tuple[Cell, ...], tuple[Cell, ...]]
    ratio: Annotated[Ratio | None, Means("treatment / baseline")] = None
    verdict: Annotated[Verdict | None, Means("verdict on it, or null")] = None
    reason: Annotated[str, Means("why there is no ratio, or no verdict on it")] = ""
    relative: Annotated[
        Ratio | None,
        Means(
            "across runs, the ratio of both ratios to the baseline that the runs share; null where they share none, "
            "or compare it",
            name="ratio_of_ratios",
        ),
    ] = None

    @property
    def margin(self) -> float:
        """The smallest margin that a run declared for its benchmark."""
        return min(cell.section.margin for side in self.cells for cell in side)

    @property
    def marks(self) -> Annotated[tuple[str, ...], MARKS]:
        """The marks of the treatment."""
        return self.treatment.platform.marks

    @property
    def clock_is_wrong(self) -> bool:
        """Whether a clock of either side ran at a wrong rate, see Row."""
        return self.treatment.clock_is_wrong or self.baseline.clock_is_wrong

    @property
    def loss(
        self,
    ) -> Annotated[
        Loss | None,
        Means("bounds of what the treatment costs more, as shares; null without a ratio"),
    ]:
        """The bounds of what the treatment costs, which hold without any margin."""
        return self.ratio.loss(self.section.better) if self.ratio else None

    @property
    def name(self) -> str:
        """`direction=send`: what the two sides have in common."""
        return str(self.levels)

    @property
    def warnings(self) -> Warnings:
        """The warnings of ratio and verdict, each text once."""
        parts = (self.ratio, self.verdict, self.relative)
        texts = [text for part in parts if part is not None for text in part.warnings]
        return tuple(dict.fromkeys(texts))


def by_table(pairs: Sequence[CellPair]) -> list[list[int]]:
    """Return the families of pairs, as places in their order: those of one metric of one benchmark, as a table shows
    it."""
    return list(by_key((pair.section.name, number) for number, pair in enumerate(pairs)).values())


@dataclass(frozen=True)
class Mismatch:
    """Two cells of whole runs, of one label and the same levels, whose settings differ."""

    treatment: Annotated[CellRecord, Means("cell of the treatment")]
    baseline: Annotated[CellRecord, Means("cell of the baseline")]
    reasons: Annotated[tuple[doc.Inline, ...], Means("how their settings differ")]


@dataclass(frozen=True)
class Unmatched:
    """Cells of whole runs that one run alone has."""

    treatment: Annotated[tuple[CellRecord, ...], Means("cells that the treatment alone has")] = ()
    baseline: Annotated[tuple[CellRecord, ...], Means("cells that the baseline alone has")] = ()


@dataclass(frozen=True)
class Contrasts:
    """All contrasts of two sides. common_baseline: that of ratios of ratios. is_of_table: these are ratios of the
    run's table, and their verdicts are those, judged in its families."""

    treatment: Annotated[Side, Means("one side")]
    baseline: Annotated[Side, Means("the other one")]
    is_paired: Annotated[bool, Means("whether ratios are formed within blocks", name="paired")]
    margin: Annotated[float, Means("what counts as equivalent; of several runs the smallest")]
    confidence: Annotated[
        float, Means("confidence level of intervals; of several runs the largest")
    ]
    pairs: Annotated[
        tuple[CellPair, ...], Means("one for every metric and common point", name="contrasts")
    ]
    warnings: Annotated[tuple[doc.Inline, ...], Means("texts about the runs")] = ()
    unmatched: Annotated[Unmatched, Means("cells of whole runs that are not compared")] = (
        Unmatched()
    )
    mismatched: Annotated[
        tuple[Mismatch, ...],
        Means("cells of whole runs that both have with other settings, which are not compared"),
    ] = ()
    common_baseline: str = ""
    is_of_table: bool = False

    @property
    def level(self) -> doc.Share:
        """The confidence of intervals: `95 %`."""
        return doc.Share(self.confidence, "declared")

    @property
    def families(self) -> tuple[int, ...]:
        """How many contrasts the verdicts are corrected for, ascending: one family, or those of the run's table."""
        return tuple(
            sorted({pair.verdict.family for pair in self.pairs if pair.verdict is not None})
        )

    @property
    def family(
        self,
    ) -> Annotated[int, Means("contrasts that verdicts are corrected for; 0 without any")]:
        """The largest of them."""
        return max(self.families, default=0)

    def is_of_one_session(self, ratio: Ratio | None) -> bool:
        """Return whether a ratio is across runs of which a side has one session only; its interval is then over
        blocks."""
        return not self.is_paired and ratio is not None and ratio.n_sessions == 1

    def reason_empty(self) -> doc.Inline:
        """Return why there is no ratio at all: what each side lacks, or else what stands between them."""
        if not self.pairs:
            reasons = {
                repr(reason): reason for mismatch in self.mismatched for reason in mismatch.reasons
            }
            return joined(list(reasons.values()), "; ")
        lacks = []
        for pair in self.pairs:
            for side, row in ((self.treatment, pair.treatment), (self.baseline, pair.baseline)):
                if row.summary is None:
                    lacks.append(f"{side.text}: {row.reason or 'no values'}")
        return "; ".join(dict.fromkeys(lacks or [pair.reason for pair in self.pairs]))
