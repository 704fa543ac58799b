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


def refuse_other_boot(plan: Plan, run: RunHandle, current_boot: CurrentBoot) -> None:
    """Raise BadInput unless what is next of the run can be measured in this boot of the host."""
    visits = boots.pending_visits(plan, run)
    if visits and not boots.can_begin(run, visits[0], current_boot.name, boot_id()):
        session, boot = visits[0].session, visits[0].boot
        what = f"session {session} of {run.name} is next measured in the boot {boot!r}, and this is {current_boot.name!r}"
        if not current_boot.name:
            what = f"session {session} of {run.name} is next measured in the boot {boot!r}, and this is none of its"
        if boot == current_boot.name:
            what = f"session {session} of {run.name} needs another boot of {boot!r} than the session before"
        raise BadInput(what, hint=_reboot_hint(run, current_boot, visits[0]))


def measure_boot(
    plan: Plan, run: RunHandle, home: Home, current_boot: CurrentBoot, *, tune_host: bool = False
) -> None:
    """Measure what this boot of the host can, and name the boot that is next.

    The caller holds the measuring lock. Raises as `measure`.
    """
    visits = boots.pending_visits(plan, run)
    if visits and boots.can_begin(run, visits[0], current_boot.name, boot_id()):
        boots.probe_here(plan, run, current_boot.name)
        _begin(plan, run, visits[0])
        measure(plan, run, home, tune_host=tune_host, cells=boots.cells_of(plan, current_boot.name))
        visits = boots.pending_visits(plan, run)
    else:
        run.finish("paused", boots.paused_because(plan, run), time.time())
    if visits:
        notify(f"{run.name}: {run.stopped_because}; {_reboot_hint(run, current_boot, visits[0])}")


def _begin(plan: Plan, run: RunHandle, visit: boots.Visit) -> None:
    """Begin a visit, and its session with the first one; or go on with it."""
    facts = {**host_facts(), **contents.facts(plan.image)}
    boot_facts = boots.boot_facts(run, visit.boot) or {}
    change_text = check_host(run, facts, visit.session, boot_facts)
    if change_text:
        notify(change_text)
    if visit.session > run.session.number:
        begin_next(run, facts)
    before = boots.boot_ids(run.session.host).get(visit.boot)
    note_boot(run, before or "")
    run.note_boot(visit.boot, {"boot_id": boot_id(), **relevant_facts(facts)})


def _reboot_hint(run: RunHandle, current_boot: CurrentBoot, visit: boots.Visit) -> str:
    title = current_boot.entries[visit.boot].title
    return f"reboot into {title!r}, then: sudo vtax resume {run.name}"
