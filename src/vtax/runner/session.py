"""The conductor: a session of a run is measured block by block, guest by guest and trial by trial.

The methods of `Session` are "One trial" of docs/architecture.md, each a list of the steps in their order. Nothing
here knows a platform, a benchmark or a topology by name. A failed trial is recorded, and the run continues. A lost
guest is replaced by a fresh one for its pending trials. A request to stop (Ctrl-C, SIGTERM) ends the current trial
and removes all resources; `vtax resume` continues the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from vtax.benchmarks.base import Benchmark
from vtax.errors import BadInput, ImageError, PlatformError, RunInterrupted, StoreError, VtaxError
from vtax.host.home import Home
from vtax.host.interrupts import insist, stop_requests
from vtax.host.journal import Journal
from vtax.messages import Note
from vtax.platforms import confinement
from vtax.runner import boots
from vtax.runner.audits import refuse_differences
from vtax.runner.event_log import EventLog
from vtax.runner.events import Observer, SafeObserver
from vtax.runner.guest_limits import GuestLimits, bounds_of
from vtax.runner.host_sessions import paused_because
from vtax.runner.ledger import Ledger
from vtax.runner.open_guest import OpenGuest, OpenRun
from vtax.runner.parsers import Parsers
from vtax.runner.plan import GuestLife, Plan, PlannedCell, PlannedTrial
from vtax.runner.progress import SessionProgress
from vtax.runner.removals import Removals
from vtax.runner.run_health import FailedStarts
from vtax.runner.stopping import Stopping
from vtax.runner.trial_length import CalibrationFailed, TrialLengths
from vtax.store.records import CLOCK_RATE, REFUSED
from vtax.store.store import RunHandle

AUDIT_BLOCK = -1  # of guests that are only audited


class Session:
    """A session of a run, measured by one process.

    run: what its guests share.
    cells: keys of those that this boot of the host can measure.
    """

    def __init__(self, run: OpenRun, cells: frozenset[str]) -> None:
        plan, handle = run.plan, run.handle
        self._run = run
        self._plan = plan
        self._cells = cells
        self._stopping = Stopping(
            plan, handle.primary_values(), handle.session.number, handle.cells_warned_of(CLOCK_RATE)
        )
        bounds = {label: bound.metric for label, bound in bounds_of(plan).items()}
        self._limits = GuestLimits(plan, handle.bounded_values(bounds))
        self._progress = SessionProgress(plan, handle, self._stopping, cells)
        self._ledger = Ledger(run, self._stopping, self._limits, self._progress)
        self._starts = FailedStarts(plan)
        self._lengths = TrialLengths(handle.cells)
        self._tools = {cell.benchmark for cell in handle.cells if cell.tool_version}

    def measure(self) -> tuple[str, str]:
        """Measure all that is pending in the session; returns the status of the run, and why it stopped."""
        self._compare_guests()
        because = self._measure_blocks()
        self._ledger.store_failed_starts()
        paused = self._paused_because(because)
        return ("paused", paused) if paused else ("finished", because)

    def _measure_blocks(self) -> str:
        """Measure block after block, until the stopping rule is met; returns why."""
        self._measure_in_sequence()
        for block in range(self._stopping.max_blocks + 1):
            spent_s = self._progress.spent_s()
            decision = self._stopping.decide(block, spent_s, self._ledger.whole_cells(block))
            if decision.stop:
                return decision.reason
            beyond = {cell.key for cell in self._plan.cells if self._limits.is_beyond(cell)}
            cells = (self._stopping.pending(decision) & self._cells) - beyond
            if beyond and not cells:
                return "no number of guests is left to be measured"
            measured_before = self._ledger.measured_before(block)
            self._progress.begin_block(block, spent_s, len(cells), measured_before)
            self._measure_block(block, cells)
        return "all blocks are done"

    def _measure_block(self, block: int, cells: frozenset[str]) -> None:
        """Measure these cells in a fresh guest of every platform, in the random order of the plan or in rounds."""
        lives = self._plan.guests(block)
        if block == 0:
            lives = self._limits.rising(lives)
        if self._plan.study.design.order == "rounds":
            self._measure_in_rounds(lives, cells)
        for life in lives:  # after rounds, what lost guests of them have left
            self._measure_guest(life, cells)
        if cells:
            self._progress.end_block()
            self._run.observer.block_ended(block)

    def _measure_in_rounds(self, lives: Sequence[GuestLife], cells: Collection[str]) -> None:
        """Start these guests, make their pending trials of these cells in rounds over all of them, and end them."""
        visits = []
        for number, trial in self._plan.rounds(lives):
            if self._is_pending(trial, cells):
                visits.append((number, trial))
        guests = {}
        with ExitStack() as alive:
            for number in sorted({number for number, _ in visits}):
                guests[number] = alive.enter_context(OpenGuest(lives[number], self._run))
                guests[number].rest()
                self._judge_start(guests[number])
            try:
                for number, trial in visits:
                    guest = guests[number]
                    if not guest.lost:
                        insist()
                        self._measure_trial(guest, trial)
                    guest.rest()
            finally:
                self._ledger.store()

    def _measure_guest(self, life: GuestLife, cells: Collection[str]) -> None:
        """Start a guest, make its pending trials of these cells, and end it; a lost guest is replaced for the rest."""
        trials = self._pending_trials(life, cells)
        while trials:
            with OpenGuest(life, self._run) as guest:
                self._judge_start(guest)
                try:
                    while trials and not guest.lost:
                        insist()
                        self._measure_trial(guest, trials.pop(0))
                finally:
                    self._ledger.store()

    def _measure_trial(self, guest: OpenGuest, trial: PlannedTrial) -> None:
        """Make a trial in a guest; it is read and stored when there is time."""
        cell = trial.cell
        self._note_tool_version(guest, cell.point.benchmark)
        self._run.observer.trial_starting(
            cell.platform.name, cell.point.label, str(cell.point.levels)
        )
        try:
            measured = guest.measure(self._with_length(guest, cell))
        except CalibrationFailed as error:
            guest.trials += 1
            measured = error.result
        self._ledger.add(guest, trial, measured)

    def _with_length(self, guest: OpenGuest, cell: PlannedCell) -> PlannedCell:
        """Return a cell with the count of work of its trials, which the first guest finds out.

        Raises CalibrationFailed.
        """
        known = self._lengths.known(cell) if guest.has_started else cell
        if known is None:
            self._ledger.store()
            known = self._lengths.find_out(cell, guest.unstored_trial)
            self._run.handle.set_parameter(cell.key, *known.point.count_of_work)
        return known

    def _note_tool_version(self, guest: OpenGuest, benchmark: Benchmark) -> None:
        """Record the tool's version once per run, from the first guest that reports it."""
        if benchmark.name not in self._tools:
            version = guest.tool_version(benchmark)
            if version:
                self._tools.add(benchmark.name)
                self._run.handle.set_tool_version(benchmark.name, version)

    def _compare_guests(self) -> None:
        """Raise BadInput when guests differ in facts of the study's must_match."""
        must_match = self._plan.study.must_match
        if must_match:
            audits = []
            for life in self._plan.guests(AUDIT_BLOCK):
                with OpenGuest(life, self._run) as guest:
                    audits.append((life.platform.name, guest.facts))
            refuse_differences(audits, must_match)

    def _measure_in_sequence(self) -> None:
        """Measure a study in sequential order, every block of one platform and then of the next.

        The stopping rule then finds all blocks made.
        """
        if self._plan.study.design.order == "sequential":
            for life in self._plan.sequential_guests():
                self._measure_guest(life, self._cells)

    def _pending_trials(self, life: GuestLife, cells: Collection[str]) -> list[PlannedTrial]:
        """Return the trials of a guest that are to be made, without those of too many guests."""
        return [trial for trial in self._plan.trials_of(life) if self._is_pending(trial, cells)]

    def _is_pending(self, trial: PlannedTrial, cells: Collection[str]) -> bool:
        """Return whether a trial of one of these cells is to be made."""
        is_wanted = trial.cell.key in cells and not self._limits.is_beyond(trial.cell)
        return is_wanted and not self._ledger.is_made(trial)

    def _judge_start(self, guest: OpenGuest) -> None:
        """Store trials of guests that did not start once another guest has started.

        Until then, the host may be the cause, and they stay pending when the run ends. Raises ImageError or
        PlatformError when no guest starts any more.
        """
        if guest.has_started:
            self._starts.succeeded()
            self._ledger.store_failed_starts()
        else:
            self._starts.failed(guest.platform.name, guest.start_error)

    def _paused_because(self, because: str) -> str:
        """Return why the run is paused after the session; empty when it is finished."""
        if self._plan.study.boot:
            return boots.paused_because(self._plan, self._run.handle)
        return paused_because(self._run.handle, self._plan.study.design, because)


def execute(
    plan: Plan, run: RunHandle, home: Home, observer: Observer, cells: Collection[str] | None = None
) -> None:
    """Execute the plan from the run's position until its stopping rule is met.

    cells: keys of those that this boot of the host can measure; all when absent.

    Raises RunInterrupted after a request to stop (the run is resumable), StoreError when a trial cannot be
    committed, PlatformError when no guest starts any more; in every case the host is restored and the run can be
    resumed. An observer that fails does not fail the run.
    """
    log = EventLog(home.events, run.name, run.identity)
    observer = SafeObserver(log, observer)
    run.waiting = observer.message
    if cells is None:
        cells = [cell.key for cell in plan.cells]
    status = "failed"
    because: str = Note("vtax-failed")
    readers = [(point.benchmark, point.parameters) for point in plan.points]
    with stop_requests(observer.message) as ignore_further:
        try:
            with (
                Journal(home.journal, _leak_reporter(run, observer)) as journal,
                Removals() as removals,
                Parsers(readers) as parsers,
            ):
                try:
                    run.reopen()
                    confinement.prepare()  # a tenth of a second, that the first guest would wait for
                    opened = OpenRun(plan, run, home, journal, observer, parsers, removals)
                    status, because = Session(opened, frozenset(cells)).measure()
                finally:
                    ignore_further()
        except RunInterrupted as stop:
            status, because = "interrupted", stop.what
            raise
        except VtaxError as error:
            because = error.what
            if isinstance(error, BadInput):
                with _quiet_store_errors(observer):
                    run.add_warning(Note(REFUSED, reason=because))
            if isinstance(error, StoreError | PlatformError | ImageError):
                error.hint = _then_resume(error.hint, run)
            raise
        finally:
            with _quiet_store_errors(observer):
                run.finish(status, because, time.time())
            log.ended(status, because)


def _then_resume(hint: str, run: RunHandle) -> str:
    """Return a hint that ends with the command to resume this run."""
    if "vtax resume" in hint:
        return hint
    return f"{hint or 'fix that'}, then: sudo vtax resume {run.name}"


def _leak_reporter(run: RunHandle, observer: Observer) -> Callable[[str], None]:
    """Report leaked resources to the observer and as a warning of the run."""

    def notify(text: str) -> None:
        observer.message(text)
        with _quiet_store_errors(observer):
            run.add_warning(Note("left-behind", text=text))

    return notify


@contextmanager
def _quiet_store_errors(observer: Observer) -> Iterator[None]:
    """Report a StoreError instead of raising it, so that it does not hide the error that ended the run."""
    try:
        yield
    except VtaxError as error:
        observer.message(f"the end of the run could not be stored: {error.what}")
