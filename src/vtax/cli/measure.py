"""Shared by `run` and `resume`: clean-up of leaked resources, execution of the run, and its result."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import click

from vtax.cli.clean import leaked_resources
from vtax.cli.orphans import close_orphans
from vtax.cli.output import existing_store, notify
from vtax.cli.progress import observer
from vtax.cli.streams import discard
from vtax.counters.host import host_facts
from vtax.errors import BadInput, RunInterrupted, VtaxError
from vtax.host.home import Home
from vtax.host.interrupts import stop_requests
from vtax.host.journal import Journal, clean
from vtax.host.lock import is_measuring, measuring_process
from vtax.image import contents
from vtax.messages import Note
from vtax.report.analysis.source import source_of
from vtax.runner.host_sessions import begin_next
from vtax.runner.machines import held_machines
from vtax.runner.plan import Plan
from vtax.runner.resume import check_host
from vtax.runner.session import execute
from vtax.store.store import RunHandle, Store
from vtax.units import duration_s, format_duration

_FEWEST_SHOWN = 2  # whole blocks: one has no interval
DURATION_HINT = "write a duration such as 90s, 45min or 2h"


def wait_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --wait (parameter `wait`)."""
    text = "Wait for a busy host up to this time, e.g. 1h; default: refuse with exit status 75."
    return click.option("--wait", metavar="TIME", help=text)(command)


def seconds_of(text: str | None, option: str) -> float | None:
    """Return seconds of an option; None without it. Raises BadInput for what is no duration."""
    try:
        return None if text is None else duration_s(text)
    except ValueError as error:
        raise BadInput(str(error), where=option, hint=DURATION_HINT) from error


def wait_s(text: str | None) -> float:
    """Return seconds of --wait; 0 without it. Says for whom. Raises BadInput for what is no duration."""
    seconds = seconds_of(text, "--wait") or 0.0
    if seconds > 0 and is_measuring():
        notify(
            f"waiting up to {format_duration(seconds)} for {measuring_process()[0] or 'another command'}"
        )
    return seconds


def budget_s(text: str | None) -> float | None:
    """Return seconds of --budget; None without it. Raises BadInput, naming the option, for what is no time above zero."""
    seconds = seconds_of(text, "--budget")
    if seconds is not None and seconds <= 0:
        what = f"the budget is {text}; it must be a duration above 0 s"
        raise BadInput(what, where="--budget", hint=DURATION_HINT)
    return seconds


def prepare_host(home: Home) -> None:
    """Remove leaked resources of killed runs and mark those runs as interrupted.

    The caller holds the measuring lock. Raises VtaxError for resources that cannot be removed, since they may disturb
    the run; `vtax clean --forget` forgets them.
    """
    outcome = clean(home.journal, notify)
    for line in outcome.removed:
        notify(f"removed leaked resource of a killed run: {line}")
    for line in outcome.left:
        notify(f"not removed: {line}")
    if outcome.problems:
        raise leaked_resources(outcome.problems)
    close_orphans(home)


def measure(
    plan: Plan,
    run: RunHandle,
    home: Home,
    *,
    tune_host: bool = False,
    cells: Collection[str] | None = None,
) -> None:
    """Execute the plan. tune_host: set the host's tunables during the run and restore them. cells: see `execute`.

    The caller holds the measuring lock. Raises RunInterrupted with a hint how to resume, or the error that ended the
    run.
    """
    try:
        with observer(run) as progress, _tuned_host(run, home, tune_host):
            execute(plan, run, home, progress, cells)
    except RunInterrupted as stop:
        raise RunInterrupted(
            f"{run.name} {stop.what}; everything measured so far is kept",
            signal=stop.signal,
            hint=f"sudo vtax resume {run.name}",
            run_name=run.name,
        ) from stop
    except VtaxError as error:
        resume = (
            "" if isinstance(error, BadInput) else f"sudo vtax resume {run.name}, after fixing that"
        )
        raise type(error)(
            f"{run.name} failed: {error.what}", where=error.where, hint=error.hint or resume
        ) from error


def wait(run: RunHandle, pause_s: float) -> None:
    """Wait between two sessions, without the measuring lock. Raises RunInterrupted with a hint how to go on."""
    start = time.strftime("%H:%M:%S", time.localtime(time.time() + pause_s))
    notify(f"{run.name}: {run.stopped_because}; the next session starts at {start}")
    try:
        with stop_requests(notify):
            time.sleep(pause_s)
    except RunInterrupted as stop:
        hint = f"sudo vtax resume {run.name} --session"
        raise RunInterrupted(
            f"{run.name} is paused between sessions", signal=stop.signal, hint=hint
        ) from stop


def next_session(plan: Plan, run: RunHandle, home: Home, *, tune_host: bool = False) -> None:
    """Execute the next session of a paused run in the same process, as `measure`."""
    facts = {**host_facts(), **contents.facts(plan.image)}
    change_text = check_host(run, facts, run.session.number + 1)
    prepare_host(home)
    if change_text:
        notify(change_text)
    with held_machines(plan, run.name, run) as machines:
        begin_next(run, {**facts, **machines.facts})
        measure(plan, run, home, tune_host=tune_host)


def conclude(run_name: str, store: Store, *, as_json: bool) -> None:
    """Print the result of an ended run. The measuring lock is not held, since the reader may be slow.

    Raises VtaxError when every trial failed.
    """
    from vtax.cli.show import print_result

    source = source_of(store, run_name)
    analysis = source.analysis
    try:
        print_result(source, as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe; the run is stored
        discard(1)
    notify(f"report: vtax report {run_name}")
    if analysis.trials and analysis.failed == analysis.trials:
        raise VtaxError(f"every trial of {run_name} failed", hint=f"see vtax show {run_name}")


@contextmanager
def result_of_stopped() -> Iterator[None]:
    """Within the block, Ctrl-C prints the result so far of the run that it stops, before the request goes on.

    It stands around the measuring lock, since the reader may be slow. A run without an interval has no result yet.
    """
    try:
        yield
    except RunInterrupted as stop:
        if stop.run_name and stop.signal == signal.SIGINT:
            _print_stopped(stop.run_name)
        raise


def _print_stopped(run_name: str) -> None:
    """Print what a stopped run has measured; the request says how to resume it."""
    from vtax.cli.show import print_document
    from vtax.report.answers.result import view as result
    from vtax.report.views.base import Options

    source = source_of(existing_store(), run_name)
    if source.analysis.blocks < _FEWEST_SHOWN:
        return
    try:
        print_document(result.VIEW.document(source, Options("brief")), as_json=False)
        sys.stdout.flush()
    except BrokenPipeError:  # the request ended the reader of the pipe too
        discard(1)


@contextmanager
def _tuned_host(run: RunHandle, home: Home, tune_host: bool) -> Iterator[None]:
    """Within the block, the tunables of vtax doctor are set; changes are recorded with the run."""
    if not tune_host:
        yield
        return
    from vtax.doctor.tunables import tuned

    with (
        stop_requests(notify) as ignore_further,
        Journal(home.journal) as journal,
        tuned(journal) as tunable_changes,
    ):
        try:
            changes = "; ".join(tunable_changes) or "no change needed"
            notify(f"host tuning: {changes}")
            run.add_warning(Note("tuned", changes=changes))
            yield
        finally:
            ignore_further()
