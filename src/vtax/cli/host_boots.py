"""Shared by `run` and `resume`: a run over several boots of the host, which its user boots one after another."""

from __future__ import annotations

import time

from vtax.cli.measure import measure
from vtax.cli.output import notify
from vtax.counters.host import host_facts
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.journal import boot_id
from vtax.image import contents
from vtax.runner import boots
from vtax.runner.boots import CurrentBoot
from vtax.runner.host_sessions import begin_next, note_boot
from vtax.runner.plan import Plan
from vtax.runner.resume import check_host, relevant_facts
from vtax.store.run import RunHandle


def refuse_other_boot(plan: Plan, run: RunHandle, here: CurrentBoot) -> None:
    """Raise BadInput unless what is next of the run can be measured in this boot of the host."""
    left = boots.pending_visits(plan, run)
    if left and not boots.can_begin(run, left[0], here.name, boot_id()):
        session, boot = left[0].session, left[0].boot
        what = f"session {session} of {run.name} is next measured in the boot {boot!r}, and this is {here.name!r}"
        if not here.name:
            what = f"session {session} of {run.name} is next measured in the boot {boot!r}, and this is none of its"
        if boot == here.name:
            what = f"session {session} of {run.name} needs another boot of {boot!r} than the session before"
        raise BadInput(what, hint=_by_hand(run, here, left[0]))


def measure_boot(
    plan: Plan, run: RunHandle, home: Home, here: CurrentBoot, *, tune_host: bool = False
) -> None:
    """Measure what this boot of the host can, and name the boot that is next.

    The caller holds the measuring lock. Raises as `measure`.
    """
    left = boots.pending_visits(plan, run)
    if left and boots.can_begin(run, left[0], here.name, boot_id()):
        boots.probe_here(plan, run, here.name)
        _begin(plan, run, left[0])
        measure(plan, run, home, tune_host=tune_host, cells=boots.cells_of(plan, here.name))
        left = boots.pending_visits(plan, run)
    else:
        run.finish("paused", boots.paused_because(plan, run), time.time())
    if left:
        notify(f"{run.name}: {run.stopped_because}; {_by_hand(run, here, left[0])}")


def _begin(plan: Plan, run: RunHandle, visit: boots.Visit) -> None:
    """Begin a visit, and its session with the first one; or go on with it."""
    facts = {**host_facts(), **contents.facts(plan.image)}
    since = boots.boot_facts(run, visit.boot) or {}
    changed = check_host(run, facts, visit.session, since)
    if changed:
        notify(changed)
    if visit.session > run.session.number:
        begin_next(run, facts)
    before = boots.boot_ids(run.session.host).get(visit.boot)
    note_boot(run, before or "")
    run.note_boot(visit.boot, {"boot_id": boot_id(), **relevant_facts(facts)})


def _by_hand(run: RunHandle, here: CurrentBoot, visit: boots.Visit) -> str:
    title = here.entries[visit.boot].title
    return f"reboot into {title!r}, then: sudo vtax resume {run.name}"
