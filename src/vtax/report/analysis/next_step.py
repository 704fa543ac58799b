"""The cheapest next step for what a run leaves undecided: a command, how long it measures, and what it may decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from vtax.described import Means
from vtax.messages import Note
from vtax.report.analysis.values import Analysis, ResultPoint, Row, Section, every_row
from vtax.stats.checks import MINIMUM_BLOCKS
from vtax.stats.judge import decided_after
from vtax.stats.rules import takes_more_blocks
from vtax.stats.verdict import Verdict

_SPARE = 1.1  # of the time that blocks lasted so far, which is what a budget must hold
_MINUTE_S = 60
BUDGET_S = 3600.0  # a sensible time for what noise leaves undecided
_FEWEST = 1.0  # comparisons that it must decide to be worth that time


@dataclass(frozen=True)
class UndecidedRow:
    """A row of a result that is undecided, and where it stands."""

    section: Annotated[Section, Means("metric", name="metric", take="metric.name")]
    point: Annotated[ResultPoint, Means("factor -> level", name="levels", take="levels")]
    row: Annotated[Row, Means("platform", name="platform", take="platform.name")]

    @property
    def label(self) -> Annotated[str, Means("name of the benchmark table")]:
        """The benchmark table it is of."""
        return self.section.label


@dataclass(frozen=True)
class NextStep:
    """The step to do next. Comparisons with too few blocks for any verdict get one first (is_first_verdict)."""

    command: Annotated[str, Means("to type; empty where vtax cannot go on with this run")]
    duration_s: Annotated[
        float | None,
        Means("how long it measures at the pace of the run; null when not known", unit="s"),
    ] = None
    blocks: Annotated[
        int, Means("further blocks, or all blocks of a new run; 0 where no number of them would do")
    ] = 0
    decides: Annotated[
        tuple[UndecidedRow, ...],
        Means(
            "comparisons that these blocks would probably decide: in more than four of five futures"
        ),
    ] = ()
    left: Annotated[
        tuple[UndecidedRow, ...], Means("the other comparisons that are undecided")
    ] = ()
    chances: Annotated[
        float, Means("of `left`, comparisons that an hour of blocks would decide, a sum of chances")
    ] = 0.0
    is_first_verdict: bool = False
    is_new_run: Annotated[
        bool, Means("whether a new run takes the place of this one, which cannot go on")
    ] = False
    is_new_session: bool = False


def next_step_of(analysis: Analysis, of: Sequence[UndecidedRow] | None = None) -> NextStep | None:
    """Return the step for an ended run; None where nothing is undecided, or nobody knows one.

    of: undecided comparisons of its cells that are not those of its table.
    """
    undecided_rows = _undecided(analysis) if of is None else tuple(of)
    if not undecided_rows or analysis.status not in ("finished", "interrupted", "paused"):
        return None
    is_here = not analysis.provenance  # runs of other hosts, and merged ones, cannot go on
    has_boots = (
        analysis.has_boots
    )  # all its sessions are planned, and reboots last longer than what they measure
    resume = f"sudo vtax resume {analysis.name}"
    measured_s = None if has_boots else analysis.duration_s
    each_s = measured_s / analysis.blocks if measured_s and analysis.blocks else None
    if is_here and (
        analysis.status == "interrupted" or (has_boots and analysis.status == "paused")
    ):
        return NextStep(resume, left=undecided_rows)
    takes_sessions = is_here and not has_boots
    if len(analysis.sessions) > 1 or (
        len(analysis.sessions) < analysis.planned_sessions and takes_sessions
    ):
        blocks = len(analysis.sessions[0].blocks) if analysis.sessions else 0
        command = f"{resume} --session" if takes_sessions else ""
        return NextStep(
            command,
            each_s * blocks if each_s else None,
            left=undecided_rows,
            is_new_run=not takes_sessions,
            is_new_session=True,
        )
    few = [
        c
        for c in undecided_rows
        if c.row.ratio is not None and c.row.ratio.n_blocks < MINIMUM_BLOCKS
    ]
    if few:
        missing_blocks = max(
            MINIMUM_BLOCKS - c.row.ratio.n_blocks for c in few if c.row.ratio is not None
        )
        return replace(
            _of_blocks(analysis, resume, each_s, missing_blocks, few, undecided_rows),
            is_first_verdict=True,
        )
    affordable = _affordable(analysis, each_s)
    if best_count := _most_per_block(analysis.blocks, undecided_rows, affordable):
        return _of_blocks(
            analysis,
            resume,
            each_s,
            best_count,
            _decided_by(best_count, undecided_rows),
            undecided_rows,
        )
    needed = {}
    for comparison in undecided_rows:
        for note in withheld(comparison.row):
            if "minimum" in note.data:
                needed[id(comparison)] = note.data["minimum"]
    missing_blocks = max(needed.values(), default=0) - analysis.blocks
    if missing_blocks > 0:
        rows = [c for c in undecided_rows if id(c) in needed]
        return replace(
            _of_blocks(analysis, resume, each_s, missing_blocks, rows, undecided_rows),
            is_first_verdict=True,
        )
    noisy = tuple(c for c in undecided_rows if not withheld(c.row))
    chances = _chances(analysis, noisy, affordable or 0)
    if chances >= _FEWEST:
        return replace(
            _of_blocks(analysis, resume, each_s, affordable or 0, (), noisy), chances=chances
        )
    return NextStep("", left=noisy) if noisy else None


def _affordable(analysis: Analysis, each_s: float | None) -> int | None:
    """How many further blocks BUDGET_S pays for at this run's pace, or a new run of them; None where unknown."""
    if not each_s:
        return None
    return int(BUDGET_S / each_s / _SPARE) - (0 if can_be_extended(analysis) else analysis.blocks)


def _chances(analysis: Analysis, rows: Sequence[UndecidedRow], blocks: int) -> float:
    """How many comparisons so many further blocks would decide, a sum of chances."""
    if blocks < 1:
        return 0.0
    return sum(
        decided_after(analysis.rule, c.row.verdict, c.row.ratio, blocks)
        for c in rows
        if c.row.ratio is not None and c.row.verdict is not None
    )


def withheld(row: Row) -> tuple[Note, ...]:
    """Why a verdict that the interval of a row supports is not given; empty where it is, or noise leaves it open."""
    return reasons_of(row.verdict) if row.verdict is not None else ()


def reasons_of(verdict: Verdict) -> tuple[Note, ...]:
    """Return why a verdict is withheld; empty where it is not."""
    return tuple(
        note
        for note in verdict.warnings
        if isinstance(note, Note) and note.code.startswith("withheld")
    )


def _undecided(analysis: Analysis) -> tuple[UndecidedRow, ...]:
    """Return what further blocks may decide: not the costs of a cell that left early by its speed, and is in none."""
    rule = analysis.rule
    lets_go = rule.leaves_early and not rule.leaves_settled and analysis.status == "finished"
    rows = []
    for section, point, row in every_row(analysis.answered):
        has_left = lets_go and row.settled
        if row.ratio is None or row.verdict is None or has_left:
            continue
        if row.verdict.kind == "undecided":
            rows.append(UndecidedRow(section, point, row))
    return tuple(rows)


def _decided_by(blocks: int, rows: Sequence[UndecidedRow]) -> list[UndecidedRow]:
    """Return the comparisons whose range of further blocks ends at so many."""
    return [c for c in rows if c.row.verdict and 0 < (c.row.verdict.blocks_needed or 0) <= blocks]


def _most_per_block(
    blocks: int, rows: Sequence[UndecidedRow], most_blocks: int | None
) -> int | None:
    """Return the further blocks that decide most comparisons per block of the whole run; None without any up to
    `most_blocks`."""
    block_counts = {
        c.row.verdict.blocks_needed for c in rows if c.row.verdict and c.row.verdict.blocks_needed
    }
    ends = sorted(end for end in block_counts if most_blocks is None or end <= most_blocks)
    return max(ends, key=lambda end: len(_decided_by(end, rows)) / (blocks + end), default=None)


def _of_blocks(
    analysis: Analysis,
    resume: str,
    each_s: float | None,
    further_blocks: int,
    decides: Sequence[UndecidedRow],
    rows: Sequence[UndecidedRow],
) -> NextStep:
    is_new_run = not can_be_extended(analysis)
    blocks = analysis.blocks + further_blocks if is_new_run else further_blocks
    duration_s = None if each_s is None else each_s * blocks * _SPARE
    command = ""
    if duration_s is not None and not is_new_run:
        command = f"{resume} --budget {math.ceil(duration_s / _MINUTE_S)}min"
    decided_ids = set(map(id, decides))
    rows_left = tuple(c for c in rows if id(c) not in decided_ids)
    return NextStep(command, duration_s, blocks, tuple(decides), rows_left, is_new_run=is_new_run)


def can_be_extended(analysis: Analysis) -> bool:
    """Whether `vtax resume RUN --budget` goes on with it, which runner.host_sessions.check_more refuses otherwise."""
    is_own = analysis.status == "finished" and not analysis.provenance and not analysis.has_boots
    order = str(analysis.declared.get("design", {}).get("order"))
    return is_own and takes_more_blocks(analysis.rule, order, len(analysis.sessions))
