"""What a run declared and did not reach, judged again by the very rule that ended it, on what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vtax.report.numbers import percent, plain_percent
from vtax.report.remarks import place_of
from vtax.stats.stopping import Decision, Rule, decide, half_width
from vtax.store.query import RunData
from vtax.study.units import format_count

_MISSES = {"precision", "verdict"}  # rules with a target for every contrast


@dataclass(frozen=True)
class Aim:
    """A contrast of a primary metric, or, of a single platform, a cell. logs: as `decide` takes them.

    name: unique in the run. family: what its verdict is judged in. place: where it is, in words.
    """

    name: str
    family: str
    place: str
    logs: NDArray[np.float64]


@dataclass(frozen=True)
class Targets:
    """The rule's judgement on the blocks that are there. missed: names of the aims that lack what was declared."""

    decision: Decision
    missed: frozenset[str]


def judged(rule: Rule, aims: Sequence[Aim], blocks: int) -> Targets:
    """Whether a run of so many blocks reached what its rule wanted, and which aims did not."""
    decision = decide(rule, {a.name: a.logs for a in aims}, blocks, {a.name: a.family for a in aims})
    return Targets(decision, frozenset(decision.open if rule.stop in _MISSES else ()))


def shortfalls(rule: Rule, aims: Sequence[Aim], blocks: int, targets: Targets, because: str) -> list[str]:
    """A sentence for every target that a finished run missed. because: why it ended."""
    if targets.decision.reached:
        return []
    if rule.stop == "budget":
        return [] if blocks else [because]
    if not targets.missed:
        return [f"{targets.decision.reason}: {because}" if because else targets.decision.reason]
    return [f"{_lack(rule, aim)}: {aim.place}" for aim in aims if aim.name in targets.missed]


def failures(data: RunData) -> list[str]:
    """A sentence for a run that was not finished, and for every cell with failed trials."""
    found = []
    if data.run.status in ("interrupted", "failed"):
        found.append(f"the run was not finished: {data.run.stopped_because or data.run.status}")
    measured = [failure for failure in data.failures if not failure.is_warmup]
    for cell_index in dict.fromkeys(failure.cell for failure in measured):
        cell = data.run.cells[cell_index]
        times = sum(failure.cell == cell_index for failure in measured)
        found.append(f"{format_count(times, 'failed trial')}: {place_of(cell)}")
    return found


def _lack(rule: Rule, aim: Aim) -> str:
    made = int((~np.isnan(aim.logs)).sum())
    if rule.stop == "verdict":
        return "no verdict where one was wanted"
    if not made:
        return f"no interval where one of ±{plain_percent(rule.precision)} was wanted"
    if made < rule.min_blocks:
        return f"{format_count(made, 'block')} where at least {rule.min_blocks} were wanted"
    return f"interval of ±{percent(half_width(rule, aim.logs))} where ±{plain_percent(rule.precision)} was wanted"
