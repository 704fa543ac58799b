"""Executes a plan block by block and commits every trial when it ends.

Nothing here knows a platform, a benchmark or a topology by name. A failed trial is recorded, and the run
continues. A lost guest is replaced by a fresh one for its pending cells. A request to stop (Ctrl-C, SIGTERM) ends the
current trial and removes all resources; `vtax resume` continues the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vtax.benchmarks.printed import Printed
from vtax.counters.host import host_facts
from vtax.errors import BadInput, ImageError, PlatformError, RunInterrupted, StoreError, VtaxError
from vtax.guest.audit import Fact, differences, started_alike, unknown_fields
from vtax.guest.facts import nearest_names
from vtax.host.home import Home
from vtax.host.interrupts import deferred_interrupts, insist, stop_requests
from vtax.host.journal import Journal, boot_id
from vtax.host.plugins import Origin
from vtax.image import contents
from vtax.messages import Note
from vtax.platforms import confinement
from vtax.runner import boots
from vtax.runner.audits import Audits
from vtax.runner.event_log import EventLog
from vtax.runner.events import EndedTrial, Figure, Observer, Progress, SafeObserver
from vtax.runner.host_sessions import paused_because
from vtax.runner.open_guest import OpenGuest
from vtax.runner.parsers import Parsers
from vtax.runner.plan import GuestLife, Plan, PlannedCell
from vtax.runner.records import (
    cell_record,
    metric_records,
    platform_record,
    plugin_records,
    trial_record,
    untested_record,
)
from vtax.runner.removals import Removals
from vtax.runner.run_health import FailedStarts, SameSettings, TrialFailures
from vtax.runner.stopping import Stopping
from vtax.runner.trial import MeasuredTrial, TrialResult
from vtax.runner.trial_length import CalibrationFailed, TrialLengths
from vtax.store.records import CLOCK_RATE, REFUSED, TrialRecord
from vtax.store.store import RunHandle, Store
from vtax.study.changes import listed

AUDIT_BLOCK = -1  # of guests that are only audited
UNREAD_S = 3.0
"""Once trials of a guest that are not stored have lasted so long, they are: a run that is killed loses no more."""


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

    views: those that vtax does not ship and a report of the run would have, by name.
    tags: labels of the user, as in store.annotations.
    machines: facts about other machines that are measured on, from runner.machines.
    """
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
        metrics=metric_records(plan),
        untested=[untested_record(untested) for untested in plan.untested],
        plugins=plugin_records(plan, views or {}),
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
        run.add_warning(Note("boots", boots=boots.format_boots(plan.study)))
    if plan.programs:
        programs = tuple(map(str, plan.programs))
        if plan.digest:
            run.add_warning(Note("trusted-file", digest=plan.digest, programs=programs))
        else:
            run.add_warning(Note("trusted", programs=programs))


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
                Removals() as removals,
                Parsers(readers) as parsers,
            ):
                try:
                    run.reopen()
                    confinement.prepare()  # a tenth of a second, that the first guest would wait for
                    status, because = _Execution(
                        plan, run, home, journal, observer, parsers, removals, cells
                    ).run_session()
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


@dataclass(frozen=True)
class _Unread:
    """A trial of the guest that is there, measured and not read. position: block, number, position, is_warmup."""

    cell: PlannedCell
    position: tuple[int, int, int, bool]
    trial: MeasuredTrial
    is_first: bool


@dataclass(frozen=True)
class _BegunBlock:
    """The block that is being measured.

    block: from 0.
    at_s: when it began, since the run did, without pauses.
    held: cells that it holds.
    made_before: measured trials of the run in the blocks before.
    """

    block: int
    at_s: float
    held: int
    made_before: int


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
        removals: Removals,
        cells: Collection[str] | None = None,
    ) -> None:
        self._plan = plan
        self._all_cells = frozenset(cell.key for cell in plan.cells)
        self._here = self._all_cells if cells is None else frozenset(cells)
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
        self._unread: list[_Unread] = []
        # trials of guests that did not start
        self._unstored: list[tuple[TrialRecord, PlannedCell, TrialResult]] = []
        self._same_settings = SameSettings()
        self._audits = Audits()
        self._removals = removals
        self._lengths = TrialLengths(run.cells)
        self._begun: _BegunBlock | None = None
        self._last_block_s = 0.0  # of the last whole block; 0 before there is one
        # by name of the benchmark
        self._versions: dict[str, str] = {}
        for cell in run.cells:
            if cell.tool_version:
                self._versions[cell.benchmark] = cell.tool_version

    def run_session(self) -> tuple[str, str]:
        """Run the audit and all blocks of the session; returns (status, why it stopped)."""
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
                self._session(session, self._all_cells)
        for block in range(self._max_blocks + 1):
            elapsed_s = self._spent_s()
            pending = {cell.key for cell in self._plan.cells if self._pending(cell, block)}
            decision = self._stopping.decide(block, elapsed_s, self._all_cells - pending)
            if decision.stop:
                return decision.reason
            wanted = self._stopping.pending(decision) & self._here
            made_before = sum(
                made < block and number >= self._warmup for _, made, number in self._done
            )
            self._begun = _BegunBlock(block, elapsed_s, len(wanted), made_before)
            for session in self._plan.sessions(block):
                self._session(session, wanted)
            if wanted:
                self._last_block_s = self._spent_s() - elapsed_s
                self._observer.block_ended(block)
        return "all blocks are done"

    def audit(self) -> None:
        """Raise BadInput when guests differ in facts of the study's must_match."""
        must_match = self._plan.study.must_match
        if not must_match:
            return
        audits: list[tuple[str, Mapping[str, Fact]]] = []
        for session in self._plan.sessions(AUDIT_BLOCK):
            with self._open(session) as opened:
                audits.append((session.platform.name, opened.facts))
        unknown = unknown_fields([facts for _, facts in audits], must_match)
        if unknown:
            raise BadInput(
                f"no guest's audit has {' or '.join(unknown)}{_near(unknown, audits)}",
                where="key must_match",
                hint="vtax show RUN --audit --all lists the fields of an earlier run",
            )
        fields = []
        for group in started_alike(audits).values():
            facts_by_platform = {name: facts[0] for name, facts in group.items()}
            for difference in differences(facts_by_platform, must_match):
                values = [f"{platform} {value}" for platform, value in difference.values.items()]
                fields.append(f"{difference.field}: {', '.join(values)}")
        if fields:
            raise BadInput(
                f"the guests differ in facts of must_match: {'; '.join(fields)}",
                where="key must_match",
                hint="take the field out of must_match, or leave the platform out",
            )

    def _open(self, session: GuestLife) -> OpenGuest:
        return OpenGuest(
            session,
            self._plan,
            self._run,
            self._home,
            self._journal,
            self._observer,
            self._parsers,
            self._audits,
            self._removals,
        )

    def _session(self, session: GuestLife, wanted: frozenset[str]) -> None:
        """Run the pending cells of a session in a fresh guest; a lost guest is replaced for the remaining cells."""
        remaining = []
        for cell in session.cells:
            if cell.key in wanted and self._pending(cell, session.block):
                remaining.append(cell)
        while remaining:
            with self._open(session) as opened:
                self._note_start(opened, session)
                try:
                    while remaining and not opened.lost:
                        insist()
                        pending = self._pending(remaining[0], session.block)
                        if pending:
                            self._trial(opened, remaining[0], session.block, pending[0])
                        else:
                            remaining.pop(0)
                finally:
                    self._store_measured(opened)

    def _note_start(self, opened: OpenGuest, session: GuestLife) -> None:
        """Store trials of guests that did not start once another guest has started: until then, the host may be the
        cause, and they stay pending when the run ends."""
        if opened.has_started:
            self._starts.succeeded()
            self._store_failed_starts()
        else:
            self._starts.failed(session.platform.name, opened.start_error)

    def _store_failed_starts(self) -> None:
        self._commit(self._unstored)
        self._unstored = []

    def _pending(self, cell: PlannedCell, block: int) -> list[int]:
        """Return the numbers of a cell's trials in a block that are not made."""
        numbers = range(self._plan.trials_per_cell)
        return [number for number in numbers if (cell.key, block, number) not in self._done]

    def _trial(self, opened: OpenGuest, cell: PlannedCell, block: int, number: int) -> None:
        self._note_version(opened, cell)
        is_warmup = number < self._warmup
        self._observer.trial_starting(cell.platform.name, cell.point.label, str(cell.point.levels))
        measured = self._measure(opened, cell)
        position = block, number, self._position, is_warmup
        self._done.add((cell.key, block, number))
        self._position += 1
        if isinstance(measured, TrialResult):
            record = trial_record(cell, *position, opened.store(), measured)
            if opened.has_started:
                self._store_measured(opened)
                self._judge_guest(opened, cell, measured, opened.trials == 1)
                self._commit([(record, cell, measured)])
            else:
                self._unstored.append((record, cell, measured))
            return
        self._unread.append(_Unread(cell, position, measured, opened.trials == 1))
        unread_s = sum(unread.trial.outside_s for unread in self._unread)
        if measured.has_failed or unread_s >= UNREAD_S:
            self._store_measured(opened)

    def _store_measured(self, opened: OpenGuest) -> None:
        """Read the trials that were measured in a guest, and store them with it in one transaction."""
        unread, self._unread = self._unread, []
        if not unread:
            return
        with deferred_interrupts():
            results = []
            for measured in unread:
                result = measured.trial.read(self._parsers)
                self._judge_guest(opened, measured.cell, result, measured.is_first)
                results.append(result)
            trials = []
            with self._run.together():
                guest_id = opened.store()
                for measured, result in zip(unread, results, strict=True):
                    record = trial_record(measured.cell, *measured.position, guest_id, result)
                    self._run.add_trial(record)
                    trials.append((record, measured.cell, result))
            for trial in trials:
                self._report(*trial)

    def _judge_guest(
        self, opened: OpenGuest, cell: PlannedCell, result: TrialResult, is_first: bool
    ) -> None:
        """Have a guest replaced whose trial failed. is_first: it was the guest's first."""
        opened.is_spoilt |= bool(result.traceback)
        opened.is_spoilt |= self._failures.spoils_guest(cell.key, result.error, is_first=is_first)

    def _measure(self, opened: OpenGuest, cell: PlannedCell) -> MeasuredTrial | TrialResult:
        """Run a trial; before the first one of a cell whose trials are of equal time, find out how much they do."""
        counted = cell.point.counted
        if counted is None or not opened.has_started:
            return opened.measure(cell)
        known = self._lengths.known(cell)
        if known is None:
            self._store_measured(opened)
            try:
                known = self._lengths.find_out(cell, opened.unstored_trial)
            except CalibrationFailed as error:
                opened.trials += 1
                return error.result
            parameters = known.point.parameters.model_dump(mode="json")
            self._run.set_parameter(cell.key, counted.parameter, parameters[counted.parameter])
        return opened.measure(known)

    def _commit(self, trials: Sequence[tuple[TrialRecord, PlannedCell, TrialResult]]) -> None:
        """Store trials in one transaction, then report them."""
        if not trials:
            return
        with self._run.together():
            for record, _, _ in trials:
                self._run.add_trial(record)
        for trial in trials:
            self._report(*trial)

    def _report(self, record: TrialRecord, cell: PlannedCell, result: TrialResult) -> None:
        """Take a stored trial into account."""
        self._made += 1
        self._here_done += 1
        self._measured += not record.is_warmup
        self._failed += bool(result.error) and not record.is_warmup
        if any(warning.code == CLOCK_RATE for warning in result.warnings):
            self._stopping.distrust_clock(cell)
        if not record.is_warmup and not result.error:
            self._stopping.add(cell, record.block, result.outcome)
            for note in self._same_settings.differences(cell, result.outcome):
                self._run.add_warning(note)
        ended = EndedTrial(
            platform=cell.platform.name,
            label=cell.point.label,
            levels=str(cell.point.levels),
            figure=figure(cell, result),
            error=result.error,
            progress=self._progress(record.block, record.is_warmup),
        )
        self._observer.trial_ended(ended)

    def _note_version(self, opened: OpenGuest, cell: PlannedCell) -> None:
        """Record the tool's version once per run, from the first guest that reports it."""
        benchmark = cell.point.benchmark
        if benchmark.name in self._versions:
            return
        version = opened.tool_version(benchmark)
        if version:
            self._versions[benchmark.name] = version
            self._run.set_tool_version(benchmark.name, version)

    def _spent_s(self) -> float:
        """Return the time that the run has taken, pauses left out."""
        return self._spent_before_s + time.monotonic() - self._started

    def _progress(self, block: int, is_warmup: bool) -> Progress:
        """Return the progress: trials of all boots, and the time left in this one; a budget bounds both."""
        design = self._plan.study.design
        elapsed_s = time.monotonic() - self._started
        per_block = len(self._here) * self._plan.trials_per_cell
        trial_s = elapsed_s / self._made
        blocks = self._max_blocks
        budget_s = self._stopping.budget_s
        if budget_s is not None:
            affordable = int(budget_s / (trial_s * per_block))
            blocks = min(blocks, max(block + 1, affordable))
        left_s = trial_s * (per_block * blocks - self._here_done)
        total_trials = len(self._plan.cells) * design.trials * blocks
        begun = self._begun
        if budget_s is not None and begun is not None and self._last_block_s:
            # blocks get shorter: the first finds out how long trials are, and what is decided leaves
            affordable = int((budget_s - begun.at_s) / self._last_block_s)
            blocks = min(self._max_blocks, begun.block + max(1, affordable))
            ends_at_s = begun.at_s + (blocks - begun.block) * self._last_block_s
            left_s = ends_at_s - self._spent_s()
            total_trials = begun.made_before + begun.held * design.trials * (blocks - begun.block)
        return Progress(
            block=block,
            blocks=blocks,
            done_trials=self._measured,
            total_trials=total_trials,
            elapsed_s=elapsed_s,
            left_s=max(left_s, 0.0),
            is_warmup=is_warmup,
            failed_trials=self._failed,
        )


def _near(unknown: Sequence[str], audits: Sequence[tuple[str, Mapping[str, Fact]]]) -> str:
    """Return the fields, and the beginnings of fields, that come nearest to those which no audit has."""
    names: set[str] = set()
    for _, facts in audits:
        names.update(facts)
    near: dict[str, None] = {}
    for field in unknown:
        near.update(dict.fromkeys(nearest_names(field, names)))
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
