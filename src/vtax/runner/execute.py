"""Executes a plan block by block and commits every trial when it ends.

Nothing here knows a platform, a benchmark or a topology by name. A failed trial is recorded, and the run
continues. A lost guest is replaced by a fresh one for its pending cells. A request to stop (Ctrl-C, SIGTERM) ends the
current trial and removes all resources; `vtax resume` continues the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from vtax.benchmarks.printed import Printed
from vtax.counters.host import host_facts
from vtax.errors import BadInput, ImageError, PlatformError, RunInterrupted, StoreError, VtaxError
from vtax.guest.audit import Fact, differences, started_alike, unknown_fields
from vtax.guest.facts import nearest_names
from vtax.host.home import Home
from vtax.host.interrupts import insist, stop_requests
from vtax.host.journal import Journal, boot_id
from vtax.host.plugins import Origin
from vtax.image import contents
from vtax.messages import Note
from vtax.platforms import confinement
from vtax.runner import boots, same_settings
from vtax.runner.containment import TrialFailures
from vtax.runner.event_log import EventLog
from vtax.runner.events import Figure, Observer, Progress, SafeObserver
from vtax.runner.failed_starts import FailedStarts
from vtax.runner.host_sessions import paused_because
from vtax.runner.open_guest import OpenGuest
from vtax.runner.parsers import Parsers
from vtax.runner.plan import GuestLife, Plan, PlannedCell
from vtax.runner.plugins import plugins_of
from vtax.runner.records import cell_record, platform_record, trial_record, untested_record
from vtax.runner.stopping import Stopping
from vtax.runner.trial import TrialResult
from vtax.store.records import CLOCK_RATE, REFUSED, MetricRecord, TrialRecord
from vtax.store.store import RunHandle, Store
from vtax.study.changes import listed

AUDIT_BLOCK = -1  # of guests that are only audited


def begin(
    store: Store,
    plan: Plan,
    *,
    vtax_version: str,
    views: Mapping[str, Origin] | None = None,
    tags: Sequence[str] = (),
    machines: Mapping[str, Any] | None = None,
) -> RunHandle:
    """Create a run in the store before its first trial.

    views: those that vtax does not ship and a report of the run would have, by name. tags: see store.annotations.
    machines: see runner.machines.
    """
    metrics = {
        (point.benchmark.name, metric.name): MetricRecord(
            benchmark=point.benchmark.name,
            name=metric.name,
            title=metric.title,
            unit=metric.unit,
            better=metric.better,
            is_primary=metric.primary,
            average=metric.average,
            fixed_work=metric.fixed_work,
        )
        for point in plan.points
        for metric in point.metrics
    }
    run = store.begin_run(
        name=store.next_run_name(plan.study.name),
        study=plan.study.name,
        declared=plan.study.declared(),
        seed=plan.seed,
        vtax_version=vtax_version,
        image_key=plan.image.key,
        host={**host_facts(), **contents.facts(plan.image), **(machines or {})},
        started_at=time.time(),
        platforms=[platform_record(plan, index) for index in range(len(plan.platforms))],
        cells=[cell_record(cell) for cell in plan.cells],
        metrics=list(metrics.values()),
        untested=[untested_record(each) for each in plan.untested],
        plugins=plugins_of(plan, views or {}),
        boot_id=boot_id(),
        tags=tags,
    )
    _note_design(plan, run)
    return run


def _note_design(plan: Plan, run: RunHandle) -> None:
    """Record with the run what of its design every reader should know."""
    if plan.study.design.order == "sequential":
        run.add_warning(Note("sequential-order"))
    for change in plan.study.changed_by:
        run.add_warning(Note("study-changed", option=change.option, changes=listed(change.parts)))
    if plan.study.boot:
        run.add_warning(Note("boots", boots=boots.listed(plan.study)))
    if plan.programs:
        programs = tuple(map(str, plan.programs))
        of_file = Note("trusted-file", digest=plan.digest, programs=programs)
        run.add_warning(of_file if plan.digest else Note("trusted", programs=programs))


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
    status = "failed"
    because: str = Note("vtax-failed")
    readers = [(point.benchmark, point.parameters) for point in plan.points]
    with stop_requests(observer.message) as ignore_further:
        try:
            with (
                Journal(home.journal, _leak_reporter(run, observer)) as journal,
                Parsers(readers) as parsers,
            ):
                try:
                    run.reopen()
                    confinement.prepare()  # a tenth of a second, that the first guest would wait for
                    status, because = _Execution(
                        plan, run, home, journal, observer, parsers, cells
                    ).all()
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
    return (
        hint
        if "vtax resume" in hint
        else f"{hint or 'fix that'}, then: sudo vtax resume {run.name}"
    )


class _Execution:
    """The execution of a plan and its progress."""

    def __init__(
        self,
        plan: Plan,
        run: RunHandle,
        home: Home,
        journal: Journal,
        observer: Observer,
        parsers: Parsers,
        cells: Collection[str] | None = None,
    ) -> None:
        self._plan = plan
        self._here = (
            frozenset(cell.key for cell in plan.cells) if cells is None else frozenset(cells)
        )
        self._run = run
        self._home = home
        self._journal = journal
        self._observer = observer
        self._parsers = parsers
        self._done = run.done()
        self._position = run.next_position()
        self._stopping = Stopping(
            plan, run.primary_values(), run.session.number, run.cells_warned_of(CLOCK_RATE)
        )
        self._max_blocks = self._stopping.max_blocks
        self._started = time.monotonic()
        self._spent_before_s = run.spent_s()
        self._made = 0  # trials of this process
        self._here_done = 0  # trials of the run's cells that this boot measures
        self._measured = 0  # trials of the run, warm-up left out
        self._failed = run.failed_trials()
        self._warmup = plan.study.design.warmup
        self._starts = FailedStarts(plan)
        self._failures = TrialFailures()
        self._unstored: list[
            tuple[TrialRecord, PlannedCell, TrialResult]
        ] = []  # of guests that did not start
        self._same_settings = same_settings.SameSettings()
        self._versions = {
            cell.benchmark: cell.tool_version for cell in run.cells if cell.tool_version
        }

    def all(self) -> tuple[str, str]:
        """Run audit and all blocks of the session; returns (status, why it stopped)."""
        self.audit()
        because = self.blocks()
        self._store_failed_starts()
        if self._plan.study.boot:
            paused = boots.paused_because(self._plan, self._run)
        else:
            paused = paused_because(self._run, self._plan.study.design, because)
        return ("paused", paused) if paused else ("finished", because)

    def blocks(self) -> str:
        """Run all pending blocks of the session; returns why it stopped."""
        self._here_done = sum(cell in self._here for cell, _, _ in self._done)
        self._measured = sum(number >= self._warmup for _, _, number in self._done)
        if self._plan.study.design.order == "sequential":  # what follows finds every block made
            for session in self._plan.sequential_sessions():
                self._session(session, frozenset(cell.key for cell in self._plan.cells))
        for block in range(self._max_blocks + 1):
            elapsed_s = self._spent_before_s + time.monotonic() - self._started
            complete = frozenset(
                cell.key for cell in self._plan.cells if not self._pending(cell, block)
            )
            decision = self._stopping.decide(block, elapsed_s, complete)
            if decision.stop:
                return decision.reason
            wanted = self._stopping.pending(decision) & self._here
            for session in self._plan.sessions(block):
                self._session(session, wanted)
        return "all blocks are done"

    def audit(self) -> None:
        """Raise BadInput when guests differ in facts of the study's must_match."""
        wanted = self._plan.study.must_match
        if not wanted:
            return
        audits: list[tuple[str, Mapping[str, Fact]]] = []
        for session in self._plan.sessions(AUDIT_BLOCK):
            with self._open(session) as opened:
                audits.append((session.platform.name, opened.facts))
        if unknown := unknown_fields([facts for _, facts in audits], wanted):
            raise BadInput(
                f"no guest's audit has {' or '.join(unknown)}{_near(unknown, audits)}",
                where="key must_match",
                hint="vtax show RUN --audit --all lists the fields of an earlier run",
            )
        alike = [
            {name: of[0] for name, of in group.items()} for group in started_alike(audits).values()
        ]
        if found := [difference for facts in alike for difference in differences(facts, wanted)]:
            listed = "; ".join(
                f"{d.field}: " + ", ".join(f"{p} {v}" for p, v in d.values.items()) for d in found
            )
            raise BadInput(
                f"the guests differ in facts of must_match: {listed}",
                where="key must_match",
                hint="take the field out of must_match, or leave the platform out",
            )

    def _open(self, session: GuestLife) -> OpenGuest:
        return OpenGuest(
            session, self._plan, self._run, self._home, self._journal, self._observer, self._parsers
        )

    def _session(self, session: GuestLife, wanted: frozenset[str]) -> None:
        """Run the pending cells of a session in a fresh guest; a lost guest is replaced for the remaining cells."""
        remaining = [
            cell
            for cell in session.cells
            if cell.key in wanted and self._pending(cell, session.block)
        ]
        while remaining:
            with self._open(session) as opened:
                self._note_start(opened, session)
                while remaining and not opened.lost:
                    insist()
                    if pending := self._pending(remaining[0], session.block):
                        self._trial(opened, remaining[0], session.block, pending[0])
                    else:
                        remaining.pop(0)

    def _note_start(self, opened: OpenGuest, session: GuestLife) -> None:
        """Store trials of guests that did not start once another guest has started: until then, the host may be the
        cause, and they stay pending when the run ends."""
        if opened.has_started:
            self._starts.succeeded()
            self._store_failed_starts()
        else:
            self._starts.failed(session.platform.name, opened.start_error)

    def _store_failed_starts(self) -> None:
        while self._unstored:
            self._commit(*self._unstored.pop(0))

    def _pending(self, cell: PlannedCell, block: int) -> list[int]:
        return [
            n for n in range(self._plan.trials_per_cell) if (cell.key, block, n) not in self._done
        ]

    def _trial(self, opened: OpenGuest, cell: PlannedCell, block: int, number: int) -> None:
        self._note_version(opened, cell)
        is_warmup = number < self._warmup
        self._observer.trial_starting(cell.platform.name, cell.point.label, str(cell.point.levels))
        result = opened.trial(cell)
        record = trial_record(
            cell, block, number, self._position, is_warmup, opened.guest_id, result
        )
        self._done.add((cell.key, block, number))
        self._position += 1
        if opened.has_started:
            opened.is_spoilt |= self._failures.spoils_guest(
                cell.key, result.error, is_first=opened.trials == 1
            )
            self._commit(record, cell, result)
        else:
            self._unstored.append((record, cell, result))

    def _commit(self, record: TrialRecord, cell: PlannedCell, result: TrialResult) -> None:
        self._run.add_trial(record)
        self._made += 1
        self._here_done += 1
        self._measured += not record.is_warmup
        self._failed += bool(result.error) and not record.is_warmup
        if any(each.code == CLOCK_RATE for each in result.warnings):
            self._stopping.distrust_clock(cell)
        if not record.is_warmup and not result.error:
            self._stopping.add(cell, record.block, result.outcome)
            for note in self._same_settings.differences(cell, result.outcome):
                self._run.add_warning(note)
        progress = self._progress(record.block, record.is_warmup)
        shown = figure(cell, result)
        self._observer.trial_ended(
            cell.platform.name, cell.point.label, shown, result.error, progress
        )

    def _note_version(self, opened: OpenGuest, cell: PlannedCell) -> None:
        """Record the tool's version once per run, from the first guest that reports it."""
        benchmark = cell.point.benchmark
        if benchmark.name not in self._versions and (version := opened.tool_version(benchmark)):
            self._versions[benchmark.name] = version
            self._run.set_tool_version(benchmark.name, version)

    def _progress(self, block: int, is_warmup: bool) -> Progress:
        """Trials of all boots, and the time left in this one at its own pace; a time budget bounds both."""
        plan = self._plan
        warmups = len(self._here) * self._warmup
        per_block = len(self._here) * plan.study.design.trials
        elapsed = time.monotonic() - self._started
        each = elapsed / self._made
        blocks = self._max_blocks
        budget = self._stopping.budget_s
        if budget is not None:
            blocks = min(blocks, max(block + 1, int(budget / (each * (per_block + warmups)))))
        left = each * ((per_block + warmups) * blocks - self._here_done)
        total = len(plan.cells) * plan.study.design.trials * blocks
        return Progress(
            block, blocks, self._measured, total, elapsed, max(left, 0.0), is_warmup, self._failed
        )


def _near(unknown: Sequence[str], audits: Sequence[tuple[str, Mapping[str, Fact]]]) -> str:
    """Return the fields, and the beginnings of fields, that come nearest to those which no audit has."""
    names = {name for _, facts in audits for name in facts}
    near = dict.fromkeys(match for field in unknown for match in nearest_names(field, names))
    return f"; did you mean {' or '.join(near)}?" if near else ""


def figure(cell: PlannedCell, result: TrialResult) -> Figure | None:
    """Return a trial's primary metric, or nothing when it failed."""
    for metric in cell.point.own_metrics:
        if metric.primary and metric.name in result.outcome.values and not result.error:
            step = result.outcome.resolutions.get(metric.name, 0.0)
            return Printed(result.outcome.values[metric.name], step), metric.unit
    return None


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
