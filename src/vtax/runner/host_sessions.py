"""Sessions of a run, each in one boot of the host: which blocks are theirs, and what begins the next one.

A run whose study asks for several sessions makes the first and is then `paused` until the next is begun: by a person,
after a reboot or at another hour, or by `vtax run --pause` after a time. (The life of one guest is in `open_guest.py`.)
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vtax.errors import BadInput
from vtax.host.journal import boot_id
from vtax.messages import Note
from vtax.stats.rules import UNBOUNDED, Rule, takes_more_blocks
from vtax.store.run import RunHandle
from vtax.study.model import DesignTable
from vtax.units import format_duration

if TYPE_CHECKING:
    from vtax.runner.plan import Plan


def rule_in(design: DesignTable, session: int) -> Rule:
    """Return the rule that ends a session, by its number from 1: the study's, with blocks and time up to its end.

    Sessions beyond those of the study have as many blocks as the first one, or as much time. Raises StatsError.
    """
    rule, planned = design.rule, design.sessions
    budget_s = None if rule.budget_s is None else rule.budget_s * session / planned
    if not rule.is_counted or (planned == 1 and session == 1):
        return replace(rule, budget_s=budget_s)
    if session <= planned:
        blocks = math.ceil(rule.blocks * session / planned) or rule.blocks
    else:
        blocks = rule.blocks + (session - planned) * math.ceil(rule.blocks / planned)
    return replace(rule, blocks=blocks, budget_s=budget_s)


def blocks_of_sessions(design: DesignTable) -> list[int]:
    """Return how many blocks each session of the rule `fixed` has."""
    sizes, first = [], 0
    for session in range(1, design.sessions + 1):
        end = rule_in(design, session).blocks
        sizes.append(end - first)
        first = end
    return sizes


def check_next(run: RunHandle, design: DesignTable) -> Note | None:
    """Return the note of a session beyond those that were planned; None for a planned one, and under `open`.

    Raises BadInput when no session can be begun: the last one is not complete, or the study's rule has no sessions.
    """
    number, planned = run.session.number, design.sessions
    if run.status not in ("paused", "finished"):
        raise BadInput(
            f"session {number} of {run.name} is not complete",
            hint=f"complete it first: vtax resume {run.name}",
        )
    if run.status == "paused":
        return None
    takes_more = design.rule_class.takes_more
    if not takes_more or design.order == "sequential":
        how = "sequential order" if takes_more else f"stop = {design.stop!r}"
        raise BadInput(
            f"{run.name} cannot have another session: its study has {how}",
            hint="start a new run with --sessions, by 'fixed', 'open' or 'budget'",
        )
    if design.rule_class.allows_for_looks:
        return None
    return Note("session-added", session=number + 1, count=planned)


def begin_next(run: RunHandle, facts: Mapping[str, Any], added: Note | None = None) -> None:
    """Begin the next session of a run that is paused or finished. added: what `check_next` returned."""
    run.begin_session(boot_id(), facts, time.time())
    if added:
        run.add_warning(added)


def check_more(run: RunHandle, design: DesignTable, more_s: float) -> Note | None:
    """Return the note of blocks that are added to a finished run for so many seconds; None under `open`.

    Raises BadInput when none can be added: the run is not finished, its blocks are not all alike, or the time holds
    none.
    """
    if run.status != "finished":
        raise BadInput(
            f"{run.name} is {run.status}; a time is for more blocks of a finished run",
            where="--budget",
            hint=f"complete it first: vtax resume {run.name}",
        )
    obstacle = why_no_more_blocks(run, design)
    if obstacle:
        raise BadInput(
            f"{run.name} cannot have more blocks: it has {obstacle}",
            where="--budget",
            hint="start a new run with vtax run",
        )
    blocks = 1 + max((block for _, block, _ in run.done()), default=-1)
    if blocks and more_s < run.spent_s() / blocks:
        raise BadInput(
            f"the budget is shorter than a block of {run.name}, which lasts about "
            f"{format_duration(run.spent_s() / blocks)}",
            where="--budget",
            hint="raise it",
        )
    if design.rule_class.allows_for_looks:
        return None
    return Note("blocks-added", blocks=blocks)


def why_no_more_blocks(run: RunHandle, design: DesignTable) -> str:
    """Return what a finished run has that allows no further blocks; empty where they may follow."""
    rule, sessions = design.rule, run.session.number
    if takes_more_blocks(rule, design.order, sessions):
        return ""
    if not rule.takes_more:
        return f"stop = {design.stop!r}, which looks at figures"
    return "several sessions" if sessions > 1 else "sequential order"


def add_blocks(run: RunHandle, plan: Plan, more_s: float, added: Note | None) -> Plan:
    """Return the plan that goes on with a finished run for so many seconds. added: what `check_more` returned."""
    if added:
        run.add_warning(added)
    more = {
        "stop": plan.study.design.rule_class.timed_as,
        "blocks": UNBOUNDED,
        "budget": run.spent_s() + more_s,
    }
    design = plan.study.design.model_copy(update=more)
    return replace(plan, study=plan.study.model_copy(update={"design": design}))


def note_boot(run: RunHandle, earlier: str | None = None) -> None:
    """Record with the run that a session goes on in another boot of the host than before.

    earlier: that before, empty when none is known; absent, the one that the session began in.
    """
    if earlier is None:
        earlier = run.session.boot_id
    if earlier not in ("", boot_id()):
        run.add_warning(Note("another-boot", session=run.session.number))


def paused_because(run: RunHandle, design: DesignTable, reason: str) -> str:
    """Return why a run is paused after its session; empty when it was the last one. reason: of the rule."""
    number = run.session.number
    if number >= design.sessions:
        return ""
    return Note("session-complete", session=number, total=design.sessions, reason=reason)
