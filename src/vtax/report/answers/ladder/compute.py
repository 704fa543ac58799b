"""Ladders: what the cost of a platform is made of, each rung against the rung below, within blocks.

The steps of all points of a metric are one family (Holm, see `stats.judge`). Steps of which nothing is decided are
bounded together, see `stats.ladder`: their logarithms are added up in every block that has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated

from vtax.described import Means
from vtax.grouping import by_key
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

    row, below: their rows. adds: of this rung, and of those between that were not measured.
    """

    row: Annotated[Row, Means("platform", name="platform", take="platform.name")]
    below: Annotated[Row, Means("the platform below", name="below", take="platform.name")]
    adds: Annotated[tuple[str, ...], Means("what it has and the rung below has not")]
    remedies: Annotated[tuple[str, ...], Means("how its cost is avoided")] = ()
    choices: Annotated[tuple[str, ...], Means("how a platform has what it gains")] = ()
    ratio: Annotated[Ratio | None, Means("ratio to the rung below; null without one")] = None
    verdict: Annotated[Verdict | None, Means("verdict on it; null without one")] = None

    @property
    def is_decided(self) -> bool:
        """Whether it differs from the rung below."""
        return self.verdict is not None and self.verdict.kind in _DECIDED

    @property
    def size(self) -> float:
        """How much it changes: the size of the logarithm of its ratio, 0 without one."""
        return abs(self.ratio.mean_log) if self.ratio else 0.0


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
        steps = [step for step in self.steps if step.is_decided]
        return tuple(sorted(steps, key=lambda step: -step.size))

    @property
    def undecided(self) -> tuple[LadderStep, ...]:
        """The others, in their order."""
        return tuple(step for step in self.steps if not step.is_decided)


def ladders(analysis: Analysis) -> tuple[Ladder, ...]:
    """Return the ladders of a run in the order of its answers: speed, then the CPU time of the host; none without
    rungs in its study."""
    rungs = analysis.declared.get("rung") or []
    ladders_of_run: list[Ladder] = []
    for section in analysis.answered if rungs else ():
        ladders_of_run += _of_section(section, rungs, analysis)
    return tuple(ladders_of_run)


def largest(ladders_of_run: Iterable[Ladder]) -> dict[str, list[str]]:
    """Return the platforms of rungs that are decided, the largest first, with the benchmark tables that say so.

    A rung above others that were not measured is none of them, since it adds several mechanisms.
    """
    decided_steps = []
    for ladder in ladders_of_run:
        for step in ladder.decided:
            if len(step.adds) == 1:
                decided_steps.append((step.size, step.row.platform.name, ladder.label))
    largest_first = sorted(decided_steps, key=lambda step: -step[0])
    return by_key((name, label) for _, name, label in largest_first)


def judged_steps(
    steps: Mapping[str, LadderStep], section: Section, analysis: Analysis
) -> tuple[dict[str, LadderStep], int]:
    """Return the steps of a metric with their ratios and verdicts, and how many were judged together.

    steps: by a name; one without blocks that both of its sides have keeps no ratio.
    """
    contrasts: dict[str, Contrast] = {}
    for key, step in steps.items():
        with suppress(StatsError):
            contrasts[key] = row_contrast(step.row, step.below, section.better, analysis.units)
    answers = judge(analysis.rule.within(section.margin), contrasts)
    judged_by_key = dict(steps)
    for key, answer in answers.items():
        if isinstance(answer, Comparison):
            verdict = worded(answer.verdict, section.metric.role)
            judged_by_key[key] = replace(steps[key], ratio=answer.ratio, verdict=verdict)
    return judged_by_key, len(contrasts)


def _of_section(
    section: Section, rungs: Sequence[Mapping[str, str]], analysis: Analysis
) -> Iterator[Ladder]:
    steps = {}
    for point in section.points:
        for step in _unjudged(point, rungs):
            steps[f"{point.key} {step.row.platform.name}"] = step
    steps_by_key, family = judged_steps(steps, section, analysis)
    for point in section.points:
        of_point = [steps_by_key[key] for key in steps_by_key if key.startswith(f"{point.key} ")]
        if of_point:
            loss_of_rest = _rest(of_point, section, analysis, family)
            yield Ladder(section, point, tuple(of_point), of_point[-1].row, family, loss_of_rest)


def _unjudged(point: ResultPoint, rungs: Sequence[Mapping[str, str]]) -> list[LadderStep]:
    """Return the steps between rungs that have values at a point."""
    rows = point.measured_rows
    steps: list[LadderStep] = []
    below: Row | None = None
    new_rungs: list[Mapping[str, str]] = []
    for rung in rungs:
        new_rungs.append(rung)
        row = rows.get(rung["platform"])
        if row is None:
            continue
        if below is not None:
            remedies, choices = _texts(new_rungs, "remedy"), _texts(new_rungs, "choice")
            steps.append(LadderStep(row, below, _texts(new_rungs, "adds"), remedies, choices))
        below, new_rungs = row, []
    return steps


def _texts(rungs: Sequence[Mapping[str, str]], key: str) -> tuple[str, ...]:
    return tuple(rung[key] for rung in rungs if rung.get(key))


def _rest(
    steps: Sequence[LadderStep], section: Section, analysis: Analysis, family: int
) -> Loss | None:
    """Return the bounds of what the undecided steps cost together; None without any, and of fewer than two blocks."""
    undecided_steps = [step for step in steps if not step.is_decided]
    if not undecided_steps:
        return None
    rows = [row.means_of_blocks for step in undecided_steps for row in (step.below, step.row)]
    _, logs = align(rows)
    ratio = together(logs[1::2] - logs[::2], analysis.rule.confidence, family)
    return ratio.loss(section.better) if ratio else None
