"""The cheapest next step for what a run leaves undecided: a command, how long it measures, and what it may decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vtax.report.analysis.values import Analysis, ResultPoint, Row, Section
from vtax.stats.verdict import fewest_to_judge

_SPARE = 1.1  # of the time that blocks lasted so far, which is what a budget must hold
_MINUTE_S = 60


@dataclass(frozen=True)
class Comparison:
    """A row of a result that is undecided, and where it stands."""

    section: Section
    point: ResultPoint
    row: Row


@dataclass(frozen=True)
class NextStep:
    """What to do next.

    command: to type; empty where vtax cannot go on with this run, and a new one takes its place. duration_s: how long
    it measures at this run's pace; None when not known. blocks_low, blocks: the range of further blocks; 0 where it
    is not about blocks. decides: comparisons that these would probably (in more than four of five futures)
    decide; those with too few blocks for any verdict get one first. left: the others that are undecided, whose noise
    leaves open how many blocks would decide.
    """

    command: str
    duration_s: float | None = None
    blocks_low: int = 0
    blocks: int = 0
    decides: tuple[Comparison, ...] = ()
    left: tuple[Comparison, ...] = ()
    is_first_verdict: bool = False


def next_step_of(analysis: Analysis) -> NextStep | None:
    """The step for an ended run; None where nothing is undecided, or nobody knows one."""
    undecided = _undecided(analysis)
    if not undecided or analysis.status not in ("finished", "interrupted", "paused") or analysis.provenance:
        return None
    resume = f"sudo vtax resume {analysis.name}"
    each_s = analysis.duration_s / analysis.blocks if analysis.duration_s and analysis.blocks else None
    if analysis.status == "interrupted":
        return NextStep(resume, left=undecided)
    if len(analysis.sessions) < analysis.planned_sessions or len(analysis.sessions) > 1:
        blocks = len(analysis.sessions[0].blocks) if analysis.sessions else 0
        return NextStep(f"{resume} --session", each_s * blocks if each_s else None, left=undecided)
    few = [c for c in undecided if c.row.ratio is not None and c.row.ratio.n_blocks < fewest_to_judge(c.row.ratio)]
    if few:
        missing = max(fewest_to_judge(c.row.ratio) - c.row.ratio.n_blocks for c in few if c.row.ratio is not None)
        return _of_blocks(analysis, resume, each_s, (missing, missing), few, undecided, is_first_verdict=True)
    best = _most_per_block(analysis.blocks, undecided)
    if best is None:
        return NextStep("", left=undecided)
    return _of_blocks(analysis, resume, each_s, best, _decided_by(best[1], undecided), undecided)


def _undecided(analysis: Analysis) -> tuple[Comparison, ...]:
    return tuple(
        Comparison(section, point, row)
        for section in analysis.primary
        for point in section.points
        for row in point.rows
        if row.ratio is not None and row.verdict is not None and row.verdict.kind == "undecided"
    )


def _decided_by(blocks: int, undecided: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons whose range of further blocks ends at so many."""
    return [c for c in undecided if c.row.verdict and 0 < (c.row.verdict.blocks_needed or 0) <= blocks]


def _most_per_block(made: int, undecided: Sequence[Comparison]) -> tuple[int, int] | None:
    """The range of further blocks that decides most comparisons per block of the whole run; None without any."""
    ends = {c.row.verdict.blocks_needed for c in undecided if c.row.verdict and c.row.verdict.blocks_needed}
    if not ends:
        return None
    best = max(sorted(ends), key=lambda end: len(_decided_by(end, undecided)) / (made + end))
    lows = [c.row.verdict.blocks_needed_low or best for c in _decided_by(best, undecided) if c.row.verdict]
    return min(max(lows), best), best


def _of_blocks(
    analysis: Analysis, resume: str, each_s: float | None, blocks: tuple[int, int], decides: Sequence[Comparison],
    undecided: Sequence[Comparison], *, is_first_verdict: bool = False,
) -> NextStep:  # fmt: skip
    duration_s = None if each_s is None else each_s * blocks[1] * _SPARE
    command = ""
    if duration_s is not None and can_be_extended(analysis):
        command = f"{resume} --budget {math.ceil(duration_s / _MINUTE_S)}min"
    chosen = set(map(id, decides))
    left = tuple(c for c in undecided if id(c) not in chosen)
    return NextStep(command, duration_s, *blocks, tuple(decides), left, is_first_verdict)


def can_be_extended(analysis: Analysis) -> bool:
    """Whether `vtax resume RUN --budget` goes on with it; see runner.host_sessions.check_more."""
    design = analysis.declared.get("design", {})
    is_even = analysis.rule.stop == "fixed" or (analysis.rule.stop == "budget" and analysis.rule.spend == "evenly")
    is_plain = len(analysis.sessions) == 1 and not analysis.declared.get("boot")
    return is_even and is_plain and design.get("order") != "sequential" and analysis.status == "finished"
