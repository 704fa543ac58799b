"""Shared by `run`, `resume` and `abort`: a run over several boots of the host."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from vtax.cli.measure import measure
from vtax.cli.output import notify, print_json
from vtax.counters.host import host_facts
from vtax.errors import BadInput, VtaxError
from vtax.host import reboots
from vtax.host.home import Home
from vtax.host.interrupts import deferred_interrupts
from vtax.host.journal import boot_id
from vtax.host.reboots import Reboots
from vtax.image import contents
from vtax.runner import boots
from vtax.runner.boots import Here
from vtax.runner.host_sessions import begin_next, note_boot
from vtax.runner.plan import Plan
from vtax.runner.resume import check_host, known_of
from vtax.store.run import RunHandle
from vtax.store.store import Store

_TUNE_HOST = "--tune-host"


def options_of(*, strict: bool, trust: bool, tune_host: bool) -> list[str]:
    """The options of this command that the unit calls `vtax resume` with."""
    given = {"--strict": strict, "--trust": trust, _TUNE_HOST: tune_host}
    return [name for name, is_given in given.items() if is_given]


def refuse_pending(home: Home, run_name: str = "") -> None:
    """Raise BadInput while another run awaits a reboot of this host. run_name: the one that may."""
    state = reboots.read(home)
    if state is None or state.run == run_name:
        return
    if state.is_to_come or reboots.goes_on(home):  # else the unit has failed
        when = "after the next reboot of this host," if state.is_to_come else "in a moment"
        raise BadInput(
            f"{state.run} goes on {when} in the boot {state.boot!r}",
            hint=f"end that with: sudo vtax abort {state.run}",
        )


def arrive(home: Home, run_name: str) -> Reboots:
    """Return the state of a run's reboots once the host is up again; unit and entry for one boot are removed.

    `boot` is that of the request, and none is awaited any more. Raises BadInput when none was awaited, and VtaxError
    when the request is too old.
    """
    state = reboots.read(home)
    if state is None or state.run != run_name or not state.came_up:
        raise BadInput(f"no reboot for {run_name} was awaited", hint=f"sudo vtax resume {run_name} --reboot")
    reboots.settle(home, state)
    if state.is_too_late:
        what = f"reboot {state.made} of {state.planned} was requested more than a day ago"
        raise VtaxError(what, hint=f"sudo vtax resume {run_name} --reboot")
    return state


def refuse_unplanned(state: Reboots, here: Here) -> None:
    """Raise VtaxError when the host came up in another boot than was requested."""
    if here.name != state.boot:
        raise VtaxError(
            f"after reboot {state.made} of {state.planned} the host came up in the boot {here.name!r}, not in "
            f"{state.boot!r} as planned",
            hint=f"boot it by hand, then: sudo vtax resume {state.run} --reboot",
        )


@contextmanager
def ended_by_errors(home: Home, run_name: str) -> Iterator[None]:
    """For the unit: what ends the block ends the run's reboots, and is recorded with it, as no person sees it.

    Nothing where the state is not that of this reboot any more: somebody resumed or aborted the run by hand.
    """
    try:
        yield
    except BaseException as error:
        try:
            state = reboots.read(home)
            is_ours = state is not None and state.run == run_name and not state.is_to_come
        except VtaxError:  # damaged
            is_ours = True
        if is_ours:
            forget(home)
            with suppress(VtaxError), Store.existing(home.store_url) as store:
                end(store.open_run(run_name), f"after a reboot: {_what(error)}")
        raise


def take_back(home: Home) -> None:
    """Remove everything of reboots that this home made, and name what that was."""
    for line in reboots.cancel(home):
        notify(f"removed {line}")


def forget(home: Home) -> None:
    """Remove everything of reboots that this home made, for an error that ends them; it stays the one to show."""
    try:
        reboots.cancel(home)
    except (VtaxError, OSError) as error:
        notify(f"warning: what was prepared for a reboot cannot be removed: {error}; sudo vtax clean tries again")


def end(run: RunHandle, because: str) -> None:
    """Record why a run ends that is measured or paused; others have ended, with a reason of their own."""
    if run.status in ("running", "paused"):
        run.finish("interrupted", because, time.time())


def _what(error: BaseException) -> str:
    return getattr(error, "what", "") or f"{type(error).__name__}: {error}"


def planned_reboots(plan: Plan, run: RunHandle, here: Here) -> Reboots:
    """The reboots that the pending visits of a run need, none of them made."""
    return Reboots(run.name, boots.reboots_left(plan, run, here.name, boot_id()))


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
    plan: Plan, run: RunHandle, home: Home, here: Here, *, state: Reboots | None, options: Sequence[str] = ()
) -> Reboots | None:
    """Measure what this boot of the host can; then reboot, or name the boot that is next.

    state: of reboots; None where the user reboots. options: of `vtax resume`, see options_of. The
    caller holds the measuring lock. Returns the reboot that the host makes now, or None. Raises as `measure`, and
    VtaxError for a reboot that cannot be made: then nothing of it remains.
    """
    left = boots.visits_left(plan, run)
    if left and boots.can_begin(run, left[0], here.name, boot_id()):
        boots.probe_here(plan, run, here.name)
        _begin(plan, run, left[0])
        cells = boots.cells_of(plan, here.name)
        measure(plan, run, home, tune_host=_TUNE_HOST in options, cells=cells)
        left = boots.visits_left(plan, run)
    else:
        run.finish("paused", boots.paused_because(plan, run), time.time())
    if not left or state is None:
        reboots.cancel(home)
        if left:
            notify(f"{run.name}: {run.stopped_because}; {_by_hand(run, here, left[0])}")
        return None
    return _reboot(run, home, here, left[0], state, ["resume", run.name, "--reboot", "--awaited", *options])


def _reboot(
    run: RunHandle, home: Home, here: Here, visit: boots.Visit, state: Reboots, arguments: Sequence[str]
) -> Reboots:
    """Reboot into the boot of a visit. arguments: of vtax, for the unit. Raises VtaxError; then nothing remains.

    Once systemd reboots the host, it ends this process by a signal, too: then everything stays as requested.
    """
    is_rebooting = False
    try:
        awaited = reboots.request(home, state, visit.boot, here.entries[visit.boot], here.loader, arguments)
        notify(
            f"rebooting into {visit.boot} (reboot {awaited.made} of {state.planned}); {run.name} goes on there by "
            f"itself; sudo vtax abort {run.name} ends it"
        )
        with deferred_interrupts():
            reboots.reboot()
            is_rebooting = True
    except BaseException as error:
        if is_rebooting:
            raise
        forget(home)
        end(run, f"no reboot into {visit.boot}: {_what(error)}")
        if isinstance(error, VtaxError) and not error.hint:
            error.hint = f"{_by_hand(run, here, visit)}; or fix that, then: sudo vtax resume {run.name} --reboot"
        raise
    return awaited


def conclude_part(run: RunHandle, awaited: Reboots, *, as_json: bool, strict: bool) -> None:
    """Print the reboot that the host makes now. Raises VtaxError, with strict, when a trial failed so far."""
    if as_json:
        print_json({"run": run.name, "rebooting_into": awaited.boot, "reboot": awaited.made, "of": awaited.planned})
    if strict and (failed := run.failed_trials()):
        raise VtaxError(
            f"{failed} trials of {run.name} failed so far; it goes on after the reboot", hint=f"vtax show {run.name}"
        )


def _begin(plan: Plan, run: RunHandle, visit: boots.Visit) -> None:
    """Begin a visit, and its session with the first one; or go on with it."""
    facts = {**host_facts(), **contents.facts(plan.image)}
    if changed := check_host(run, facts, visit.session, boots.facts_of(run, visit.boot) or {}):
        notify(changed)
    if visit.session > run.session.number:
        begin_next(run, facts)
    before = boots.boots_in(run.session.host).get(visit.boot)
    note_boot(run, before or "")
    run.note_boot(visit.boot, {"boot_id": boot_id(), **known_of(facts)})


def _by_hand(run: RunHandle, here: Here, visit: boots.Visit) -> str:
    title = here.entries[visit.boot].title
    return f"reboot into {title!r}, then: sudo vtax resume {run.name}"
