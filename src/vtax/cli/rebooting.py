"""Shared by `run`, `resume`, `abort` and `clean`: a run over several boots of the host."""

from __future__ import annotations

import time

from vtax.cli.measure import measure
from vtax.cli.output import notify
from vtax.counters.host import host_facts
from vtax.errors import BadInput, VtaxError
from vtax.host import reboots
from vtax.host.home import Home
from vtax.host.journal import boot_id
from vtax.host.reboots import Reboots
from vtax.runner import boots
from vtax.runner.boots import Here
from vtax.runner.host_sessions import begin_next, note_boot
from vtax.runner.plan import Plan
from vtax.runner.resume import check_host, known_of
from vtax.store.run import RunHandle


def refuse_pending(home: Home, run_name: str = "") -> None:
    """Raise BadInput while another run awaits a reboot of this host. run_name: the one that may."""
    state = reboots.read(home)
    if state is not None and state.boot and state.run != run_name:
        raise BadInput(
            f"{state.run} goes on after the next reboot of this host, in the boot {state.boot!r}",
            hint=f"end that with: sudo vtax abort {state.run}",
        )


def arrive(home: Home, run: RunHandle, here: Here | None, *, by_unit: bool) -> Reboots | None:
    """What is known of the run's reboots once the host is up again; the unit and the entry for one boot are removed.

    None when no reboot was awaited. by_unit: the unit calls. Raises BadInput when the unit calls and none was
    awaited, and VtaxError when the host came up otherwise than planned: then nothing of reboots remains.
    """
    state = reboots.read(home)
    if state is None or state.run != run.name or not state.came_up:
        if by_unit:
            raise BadInput(f"no reboot for {run.name} was awaited", hint=f"sudo vtax resume {run.name} --reboot")
        return None
    settled = reboots.settle(home, state)
    if here is not None and here.name != state.boot:
        because = (
            f"after reboot {state.made} of {state.planned} the host came up in the boot {here.name!r}, not in "
            f"{state.boot!r} as planned"
        )
        stop(home, run, because)
        raise VtaxError(because, hint=f"boot it by hand, then: sudo vtax resume {run.name} --reboot")
    return settled


def planned_reboots(plan: Plan, run: RunHandle, here: Here) -> Reboots:
    """The reboots that the pending visits of a run need, none of them made."""
    return Reboots(run.name, boots.reboots_left(plan, run, here.name, boot_id()))


def stop(home: Home, run: RunHandle, because: str) -> None:
    """Remove everything of reboots, and record why the run does not go on by itself."""
    reboots.cancel(home)
    if run.status != "finished":
        run.finish("interrupted", because, time.time())


def refuse_other_boot(plan: Plan, run: RunHandle, here: Here) -> None:
    """Raise BadInput unless what is next of the run can be measured in this boot of the host."""
    left = boots.visits_left(plan, run)
    if left and not boots.can_begin(run, left[0], here.name, boot_id()):
        session, boot = left[0].session, left[0].boot
        what = f"session {session} of {run.name} is next measured in the boot {boot!r}, and this is {here.name!r}"
        if boot == here.name:
            what = f"session {session} of {run.name} needs another boot of {boot!r} than the session before"
        raise BadInput(what, hint=f"{_by_hand(run, here, left[0])}; or add --reboot here")


def measure_boot(
    plan: Plan, run: RunHandle, home: Home, here: Here, *, state: Reboots | None, tune_host: bool
) -> bool:
    """Measure what this boot of the host can; then reboot, or name the boot that is next.

    state: of reboots; None where the user reboots. The caller holds the measuring lock. Returns whether the host
    reboots now. Raises as `measure`, and VtaxError for a reboot that cannot be made.
    """
    try:
        left = boots.visits_left(plan, run)
        if left and boots.can_begin(run, left[0], here.name, boot_id()):
            boots.probe_here(plan, run, here.name)
            _begin(run, left[0])
            measure(plan, run, home, tune_host=tune_host, cells=boots.cells_of(plan, here.name))
            left = boots.visits_left(plan, run)
        else:
            run.finish("paused", boots.paused_because(plan, run), time.time())
        if not left or state is None:
            reboots.cancel(home)
            if left:
                notify(f"{run.name}: {run.stopped_because}; {_by_hand(run, here, left[0])}")
            return False
        arguments = ["resume", run.name, "--reboot", "--awaited", *(["--tune-host"] if tune_host else [])]
        reboots.request(home, state, left[0].boot, here.entries[left[0].boot], here.loader, arguments)
    except BaseException:
        reboots.cancel(home)
        raise
    notify(
        f"rebooting into {left[0].boot} (reboot {state.made + 1} of {state.planned}); {run.name} goes on there by "
        f"itself; sudo vtax abort {run.name} ends it"
    )
    reboots.reboot()
    return True


def _begin(run: RunHandle, visit: boots.Visit) -> None:
    """Begin a visit, and its session with the first one; or go on with it."""
    facts = host_facts()
    if changed := check_host(run, facts, f"session {visit.session}", boots.facts_of(run, visit.boot) or {}):
        notify(changed)
    if visit.session > run.session.number:
        begin_next(run, facts)
    before = boots.boots_in(run.session.host).get(visit.boot)
    note_boot(run, before or "")
    run.note_boot(visit.boot, {"boot_id": boot_id(), **known_of(facts)})


def _by_hand(run: RunHandle, here: Here, visit: boots.Visit) -> str:
    title = here.entries[visit.boot].title
    return f"reboot into {title!r}, then: sudo vtax resume {run.name}"
