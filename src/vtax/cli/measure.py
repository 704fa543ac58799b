"""What `run` and `resume` share: a host without leftovers, the run itself, and its result at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from vtax.cli.clean import leaked_resources
from vtax.cli.orphans import close_orphans
from vtax.cli.output import notify
from vtax.cli.progress import observer
from vtax.cli.streams import discard
from vtax.errors import BadInput, RunInterrupted, VtaxError
from vtax.host.home import Home
from vtax.host.journal import Journal, clean
from vtax.report.analysis.source import source_of
from vtax.report.renderers.format import english
from vtax.runner.execute import execute
from vtax.runner.interrupt import stop_requests
from vtax.runner.plan import Plan
from vtax.store.store import RunHandle, Store


def prepare_host(home: Home) -> None:
    """Undo what a killed run left, so that it cannot disturb this one, and write down that it ended.

    The caller holds the measuring lock. Raises VtaxError when something stays, which might disturb
    the run; a person may give it up.
    """
    cleaned = clean(home.journal, notify)
    for line in cleaned.removed:
        notify(f"left by a killed run, removed: {line}")
    if cleaned.problems:
        raise leaked_resources(cleaned.problems)
    close_orphans(home)


def measure(plan: Plan, run: RunHandle, home: Home, *, tune: bool = False) -> None:
    """Carry the plan out. tune: set the host's tunables for it, and put them back.

    The caller holds the measuring lock. Raises RunInterrupted with how to go on, or the error that ended the run.
    """
    try:
        with observer() as watching, _tuned_host(run, home, tune):
            execute(plan, run, home, watching)
    except RunInterrupted as stop:
        raise RunInterrupted(
            f"{run.name} {stop.what}; everything measured so far is kept",
            signal=stop.signal,
            hint=f"sudo vtax resume {run.name}",
        ) from stop
    except VtaxError as error:
        resume = "" if isinstance(error, BadInput) else f"sudo vtax resume {run.name}, once that is mended"
        raise type(error)(f"{run.name} failed: {error.what}", where=error.where, hint=error.hint or resume) from error


def conclude(run_name: str, store: Store, *, as_json: bool, strict: bool) -> None:
    """Print the result of a run that has ended. Whoever reads it may be slow, so nobody holds the measuring lock.

    Raises VtaxError when every trial failed; with strict, when one failed or a precision target was not reached.
    """
    from vtax.cli.show import print_result

    source = source_of(store, run_name)
    analysis = source.analysis
    try:
        print_result(source, as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the result has enough of it; the run is stored all the same
        discard(1)
    notify(f"report: vtax report {run_name}")
    if analysis.trials and analysis.failed == analysis.trials:
        raise VtaxError(f"every trial of {run_name} failed", hint=f"vtax show {run_name} says why")
    if strict and analysis.missed_targets:
        raise VtaxError(
            "not everything that was declared was reached", where="; ".join(map(english, analysis.missed_targets))
        )


@contextmanager
def _tuned_host(run: RunHandle, home: Home, tune: bool) -> Iterator[None]:
    """The tunables of vtax doctor, set while the block runs and noted with the run."""
    if not tune:
        yield
        return
    from vtax.doctor.tunables import tuned

    with stop_requests(notify) as ignore_further, Journal(home.journal) as journal, tuned(journal) as changed:
        try:
            changes = "; ".join(changed) or "nothing had to be changed"
            notify(f"tuned: {changes}")
            run.add_warning("tuned", f"the host was tuned for this run: {changes}")
            yield
        finally:
            ignore_further()
