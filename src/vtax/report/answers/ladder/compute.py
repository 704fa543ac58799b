"""Ladders: what the cost of a platform is made of, each rung against the rung below, within blocks.

The steps of all points of a metric are one family (Holm, see `stats.judge`). Steps of which nothing is decided are
bounded together, see `stats.ladder`: their logarithms are added up in every block that has all of them. Where a
mechanism was measured alone on the ground, too, what it costs in its place is compared with that in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from vtax.described import Means
from vtax.pairing import align
from vtax.report.analysis.result import row_contrast
from vtax.report.analysis.values import Analysis, OfSection, ResultPoint, Row, Section
from vtax.stats.checks import StatsError
from vtax.stats.judge import Comparison, Contrast
from vtax.stats.judge import analyse as judge
from vtax.stats.ladder import together
from vtax.stats.ratio import Loss, OfLoss, Ratio
from vtax.stats.verdict import Verdict, worded

_DECIDED = frozenset({"slower", "faster", "costs-more", "costs-less"})


@dataclass(frozen=True)
class LadderStep:
    """A rung beside the next one below that was measured.

    row, below: their rows. adds: of this rung, and of those between that were not measured. alone: the row of the
    ground with nothing but that. interaction: what the step costs in its place, divided by what it costs alone.
    """

    row: Annotated[Row, Means("platform", name="platform", take="platform.name")]
    below: Annotated[Row, Means("the platform below", name="below", take="platform.name")]
    adds: Annotated[tuple[str, ...], Means("what it has and the rung below has not")]
    remedies: Annotated[tuple[str, ...], Means("how its cost is avoided")]
    ratio: Annotated[Ratio | None, Means("ratio to the rung below; null without one")]
    verdict: Annotated[Verdict | None, Means("verdict on it; null without one")]
    alone: Annotated[
        Row | None,
        Means("platform that has this alone; null without one", name="alone", take="platform.name"),
    ] = None
    interaction: Annotated[
        Ratio | None,
        Means("ratio to the rung below, divided by the ratio of what it adds alone to the ground"),
    ] = None

    @property
    def is_decided(self) -> bool:
        """Whether it differs from the rung below."""
        return self.verdict is not None and self.verdict.kind in _DECIDED


@dataclass(frozen=True)
class Ladder(OfSection):
    """The steps of one metric at one point. top: the highest rung that was measured."""

    section: Section
    point: ResultPoint
    steps: Annotated[tuple[LadderStep, ...], Means("from the ground up")]
    top: Annotated[Row, Means("the highest rung", name="of", take="platform.name")]
    family: Annotated[int, Means("steps that were judged together")]
    rest: Annotated[OfLoss, Means("bounds of what the undecided steps cost together")]

    @property
    def levels(self) -> Annotated[Mapping[str, object], Means("levels of the point")]:
        """The levels of its point."""
        return self.point.levels

    @property
    def total(self) -> Annotated[Ratio | None, Means("ratio of the highest rung to the ground")]:
        """All steps together."""
        return self.top.ratio

    @property
    def decided(self) -> tuple[LadderStep, ...]:
        """Steps that differ from the rung below, the largest first."""
        found = [step for step in self.steps if step.is_decided]
        return tuple(sorted(found, key=lambda step: -abs(_mean_log(step))))

    @property
    def undecided(self) -> tuple[LadderStep, ...]:
        """The others, in their order."""
        return tuple(step for step in self.steps if not step.is_decided)


def ladders(analysis: Analysis) -> tuple[Ladder, ...]:
    """Return the ladders of a run in the order of its answers: speed, then the CPU time of the host; none without
    rungs in its study."""
    rungs = analysis.declared.get("rung") or []
    found: list[Ladder] = []
    for section in analysis.answered if rungs else ():
        found += _of_section(section, rungs, analysis)
    return tuple(found)


def _of_section(
    section: Section, rungs: Sequence[Mapping[str, str]], analysis: Analysis
) -> list[Ladder]:
    steps: dict[str, list[tuple[str, LadderStep]]] = {}
    contrasts: dict[str, Contrast] = {}
    for point in section.points:
        steps[point.key] = []
        for step in _unjudged(point, rungs):
            key = f"{point.key} {step.row.platform.name}"
            steps[point.key].append((key, step))
            try:
                contrasts[key] = row_contrast(
                    step.row, step.below, section.better, analysis.unit_of
                )
            except StatsError:
                continue
    answers = judge(analysis.rule.within(section.margin), contrasts)
    alone = sum(step.alone is not None for of_point in steps.values() for _, step in of_point)
    made = []
    for point in section.points:
        judged = []
        for key, step in steps[point.key]:
            interaction = _interaction(step, point, analysis, alone)
            answered = _judged(step, answers.get(key), section)
            judged.append(replace(answered, interaction=interaction))
        if judged:
            rest = _rest(judged, section, analysis, len(contrasts))
            top = judged[-1].row
            made.append(Ladder(section, point, tuple(judged), top, len(contrasts), rest))
    return made


def _unjudged(point: ResultPoint, rungs: Sequence[Mapping[str, str]]) -> list[LadderStep]:
    """Return the steps between rungs that have values at a point."""
    rows = {row.platform.name: row for row in point.rows if row.summary is not None}
    steps: list[LadderStep] = []
    below: Row | None = None
    adds: list[str] = []
    remedies: list[str] = []
    for rung in rungs:
        adds.append(rung["adds"])
        if rung.get("remedy"):
            remedies.append(rung["remedy"])
        row = rows.get(rung["platform"])
        if row is None:
            continue
        if below is not None:
            alone = rows.get(rung.get("alone", "")) if len(adds) == 1 else None
            steps.append(LadderStep(row, below, tuple(adds), tuple(remedies), None, None, alone))
        below, adds, remedies = row, [], []
    return steps


def _judged(
    step: LadderStep, answer: Comparison | StatsError | None, section: Section
) -> LadderStep:
    if not isinstance(answer, Comparison):
        return step
    verdict = worded(answer.verdict, section.metric.role)
    return replace(step, ratio=answer.ratio, verdict=verdict)


def _interaction(
    step: LadderStep, point: ResultPoint, analysis: Analysis, family: int
) -> Ratio | None:
    """Return what a step costs in its place, divided by what it costs alone; None where that was not measured.

    family: how many such ratios the metric has.
    """
    if step.alone is None or point.baseline is None:
        return None
    rows = (step.row, step.below, step.alone, point.baseline)
    _, (row, below, alone, ground) = align([each.means_of_blocks for each in rows])
    parts = np.array([row - below, ground - alone])
    return together(parts, analysis.rule.confidence, family)


def _rest(
    steps: Sequence[LadderStep], section: Section, analysis: Analysis, family: int
) -> Loss | None:
    """Return the bounds of what the undecided steps cost together; None without any, and of fewer than two blocks."""
    undecided = [step for step in steps if not step.is_decided]
    if not undecided:
        return None
    rows = [row.means_of_blocks for step in undecided for row in (step.below, step.row)]
    _, logs = align(rows)
    ratio = together(logs[1::2] - logs[::2], analysis.rule.confidence, family)
    return ratio.loss(section.better) if ratio else None


def _mean_log(step: LadderStep) -> float:
    return step.ratio.mean_log if step.ratio else 0.0
