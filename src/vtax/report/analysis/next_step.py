"""The cheapest next step for what a run leaves undecided: a command, how long it measures, and what it may decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from vtax.described import Means
from vtax.messages import Note
from vtax.report.analysis.host_cpu import is_quieter
from vtax.report.analysis.values import Analysis, ResultPoint, Row, Section, every_row
from vtax.stats.analysis import decided_after
from vtax.stats.checks import MINIMUM_BLOCKS
from vtax.stats.stopping import takes_more_blocks

_SPARE = 1.1  # of the time that blocks lasted so far, which is what a budget must hold
_MINUTE_S = 60
SOON_S = 600.0


@dataclass(frozen=True)
class Comparison:
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
    """What to do next. Comparisons with too few blocks for any verdict get one first (is_first_verdict)."""

    command: Annotated[str, Means("to type; empty where vtax cannot go on with this run")]
    duration_s: Annotated[
        float | None, Means("how long it measures at the pace of the run; null when not known", unit="s")
    ] = None
    blocks_low: Annotated[
        int,
        Means("smallest number of further blocks, or of all blocks of a new run; 0 when it is not about blocks"),
    ] = 0
    blocks: Annotated[int, Means("largest number of them")] = 0
    decides: Annotated[
        tuple[Comparison, ...],
        Means("comparisons that these blocks would probably decide: in more than four of five futures"),
    ] = ()
    left: Annotated[tuple[Comparison, ...], Means("the other comparisons that are undecided")] = ()
    is_first_verdict: bool = False
    is_new_run: Annotated[bool, Means("whether a new run takes the place of this one, which cannot go on")] = False
    is_new_session: bool = False
    quieter: Annotated[
        int, Means("comparisons of `left` whose host CPU time for a unit of work has at most half their noise")
    ] = 0
    soon: Annotated[Soon | None, Means("what 10 minutes more would bring, or null")] = None


@dataclass(frozen=True)
class Soon:
    """What SOON_S more would bring: further blocks, and how many of the undecided comparisons they would decide."""

    blocks: Annotated[int, Means("further blocks at the run's pace")]
    decides: Annotated[float, Means("comparisons that these would decide, a sum of chances")]
    undecided: Annotated[int, Means("undecided comparisons")]


def next_step_of(analysis: Analysis, of: Sequence[Comparison] | None = None) -> NextStep | None:
    """The step for an ended run; None where nothing is undecided, or nobody knows one.

    of: undecided comparisons of its cells that are not those of its table.
    """
    undecided = _undecided(analysis) if of is None else tuple(of)
    if not undecided or analysis.status not in ("finished", "interrupted", "paused"):
        return None
    is_here = not analysis.provenance  # runs of other hosts, and merged ones, cannot go on
    has_boots = analysis.has_boots  # all its sessions are planned, and reboots last longer than what they measure
    resume = f"sudo vtax resume {analysis.name}"
    measured_s = None if has_boots else analysis.duration_s
    each_s = measured_s / analysis.blocks if measured_s and analysis.blocks else None
    if is_here and (analysis.status == "interrupted" or (has_boots and analysis.status == "paused")):
        return NextStep(f"{resume} --reboot" if has_boots else resume, left=undecided)
    takes_sessions = is_here and not has_boots
    if len(analysis.sessions) > 1 or (len(analysis.sessions) < analysis.planned_sessions and takes_sessions):
        blocks = len(analysis.sessions[0].blocks) if analysis.sessions else 0
        command = f"{resume} --session" if takes_sessions else ""
        return NextStep(command, each_s * blocks if each_s else None, left=undecided, is_new_run=not takes_sessions,
                        is_new_session=True)  # fmt: skip
    few = [c for c in undecided if c.row.ratio is not None and c.row.ratio.n_blocks < MINIMUM_BLOCKS]
    if few:
        missing = max(MINIMUM_BLOCKS - c.row.ratio.n_blocks for c in few if c.row.ratio is not None)
        return _of_blocks(analysis, resume, each_s, (missing, missing), few, undecided, is_first_verdict=True)
    best = _most_per_block(analysis.blocks, undecided)
    if best is None:
        step = _without_range(analysis, resume, each_s, undecided)
    else:
        step = _of_blocks(analysis, resume, each_s, best, _decided_by(best[1], undecided), undecided)
    if step is None:
        return None
    quieter = 0 if of else sum(is_quieter(c.section, c.point, c.row, analysis) for c in step.left)
    return replace(step, quieter=quieter, soon=_soon(analysis, each_s, (*step.decides, *step.left)))


def _soon(analysis: Analysis, each_s: float | None, undecided: Sequence[Comparison]) -> Soon | None:
    """What SOON_S more would decide at this run's pace; None where that is no block. Not what is withheld."""
    blocks = int(SOON_S / each_s) if each_s else 0
    if not blocks:
        return None
    shares = [
        decided_after(analysis.rule, c.row.verdict, c.row.ratio, blocks)
        for c in undecided
        if c.row.ratio is not None and c.row.verdict is not None and not withheld(c.row)
    ]
    return Soon(blocks, sum(shares), len(undecided))


def _without_range(
    analysis: Analysis, resume: str, each_s: float | None, undecided: Sequence[Comparison]
) -> NextStep | None:
    """Where noise says nothing of how many blocks would decide: those that a withheld verdict needs, if any."""
    needed = {id(c): note.data["minimum"] for c in undecided for note in withheld(c.row) if "minimum" in note.data}
    missing = max(needed.values(), default=0) - analysis.blocks
    if missing > 0:
        these = [c for c in undecided if id(c) in needed]
        return _of_blocks(analysis, resume, each_s, (missing, missing), these, undecided, is_first_verdict=True)
    noisy = tuple(c for c in undecided if not withheld(c.row))
    return NextStep("", left=noisy) if noisy else None


def withheld(row: Row) -> tuple[Note, ...]:
    """Why a verdict that the interval of a row supports is not given; empty where it is, or noise leaves it open."""
    notes = row.verdict.warnings if row.verdict is not None else ()
    return tuple(note for note in notes if isinstance(note, Note) and note.code.startswith("withheld"))


def _undecided(analysis: Analysis) -> tuple[Comparison, ...]:
    return tuple(
        Comparison(section, point, row)
        for section, point, row in every_row(analysis.primary)
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
    is_new_run = not can_be_extended(analysis)
    low, high = (analysis.blocks + more if is_new_run else more for more in blocks)
    duration_s = None if each_s is None else each_s * high * _SPARE
    command = ""
    if duration_s is not None and not is_new_run:
        command = f"{resume} --budget {math.ceil(duration_s / _MINUTE_S)}min"
    chosen = set(map(id, decides))
    left = tuple(c for c in undecided if id(c) not in chosen)
    return NextStep(command, duration_s, low, high, tuple(decides), left, is_first_verdict, is_new_run)


def can_be_extended(analysis: Analysis) -> bool:
    """Whether `vtax resume RUN --budget` goes on with it, which runner.host_sessions.check_more refuses otherwise."""
    is_own = analysis.status == "finished" and not analysis.provenance and not analysis.has_boots
    order = str(analysis.declared.get("design", {}).get("order"))
    return is_own and takes_more_blocks(analysis.rule, order, len(analysis.sessions))
