"""The trials of a session: each is read, stored with its guest, and reported, when there is time.

Nothing is read or stored between two short trials of a guest. A run that is killed before measures them again when
it is resumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vtax.benchmarks.printed import Printed
from vtax.host.interrupts import deferred_interrupts
from vtax.runner.events import EndedTrial, Figure
from vtax.runner.guest_limits import GuestLimits
from vtax.runner.open_guest import OpenGuest, OpenRun
from vtax.runner.plan import PlannedTrial
from vtax.runner.progress import SessionProgress
from vtax.runner.records import trial_record
from vtax.runner.run_health import SameSettings, TrialFailures
from vtax.runner.stopping import Stopping
from vtax.runner.trial import MeasuredTrial, TrialResult
from vtax.store.records import CLOCK_RATE

UNREAD_S = 3.0
"""Once trials of a guest that are not stored have lasted so long, they are: a run that is killed loses no more."""


@dataclass(frozen=True)
class _MadeTrial:
    """A trial that was made in a guest and is not stored.

    position: in the whole run.
    is_first: it was its guest's first.
    """

    guest: OpenGuest
    planned: PlannedTrial
    position: int
    trial: MeasuredTrial | TrialResult
    is_first: bool


@dataclass(frozen=True)
class _ReadTrial:
    """A trial with its result. guest_id: of its guest in the store."""

    made: _MadeTrial
    result: TrialResult
    guest_id: int


class Ledger:
    """The trials of a run that are made.

    stopping: gets the figures of those that are stored.
    limits: gets what they say of the number of guests.
    progress: counts these.
    """

    def __init__(
        self, run: OpenRun, stopping: Stopping, limits: GuestLimits, progress: SessionProgress
    ) -> None:
        self._plan = run.plan
        self._run = run.handle
        self._observer = run.observer
        self._parsers = run.parsers
        self._stopping = stopping
        self._limits = limits
        self._progress = progress
        self._done = run.handle.done()
        self._position = run.handle.next_position()
        self._made: list[_MadeTrial] = []  # in the guests that are there
        self._unread_s = 0.0
        self._of_failed_starts: list[_ReadTrial] = []
        self._failures = TrialFailures()
        self._same_settings = SameSettings()

    def is_made(self, trial: PlannedTrial) -> bool:
        """Return whether a trial is made."""
        return trial.key in self._done

    def whole_cells(self, block: int) -> frozenset[str]:
        """Return the keys of the cells whose trials in a block are all made."""
        numbers = range(self._plan.trials_per_cell)
        keys = []
        for cell in self._plan.cells:
            if all((cell.key, block, number) in self._done for number in numbers):
                keys.append(cell.key)
        return frozenset(keys)

    def measured_before(self, block: int) -> int:
        """Return how many measured trials the run has in the blocks before one."""
        warmup = self._plan.study.design.warmup
        return sum(made < block and number >= warmup for _, made, number in self._done)

    def add(
        self, guest: OpenGuest, planned: PlannedTrial, trial: MeasuredTrial | TrialResult
    ) -> None:
        """Take a trial that was made in a guest; that of a guest that did not start waits until another one has."""
        made = _MadeTrial(guest, planned, self._position, trial, is_first=guest.trials == 1)
        self._position += 1
        self._done.add(planned.key)
        if not guest.has_started:
            result = trial.read(self._parsers)
            self._of_failed_starts.append(_ReadTrial(made, result, guest.store()))
            return
        self._made.append(made)
        if isinstance(trial, MeasuredTrial) and not trial.has_failed:
            self._unread_s += trial.outside_s
            if self._unread_s < UNREAD_S:
                return
        self.store()

    def store(self) -> None:
        """Read the trials that were made, store them with their guests in one transaction, and report them."""
        made, self._made = self._made, []
        self._unread_s = 0.0
        if not made:
            return
        with deferred_interrupts():
            results = []
            for trial in made:
                result = trial.trial.read(self._parsers)
                self._judge_guest(trial, result)
                results.append(result)
            with self._run.together():
                trials = []
                for trial, result in zip(made, results, strict=True):
                    trials.append(_ReadTrial(trial, result, trial.guest.store()))
                self._add_to_store(trials)
            self._report(trials)

    def store_failed_starts(self) -> None:
        """Store and report the trials of guests that did not start, in one transaction."""
        trials, self._of_failed_starts = self._of_failed_starts, []
        if trials:
            with self._run.together():
                self._add_to_store(trials)
            self._report(trials)

    def _add_to_store(self, trials: Sequence[_ReadTrial]) -> None:
        for trial in trials:
            made = trial.made
            record = trial_record(made.planned, made.position, trial.guest_id, trial.result)
            self._run.add_trial(record)

    def _judge_guest(self, trial: _MadeTrial, result: TrialResult) -> None:
        """Have a guest replaced whose trial failed."""
        cell, guest = trial.planned.cell.key, trial.guest
        guest.is_spoilt |= bool(result.traceback)
        guest.is_spoilt |= self._failures.spoils_guest(cell, result.error, is_first=trial.is_first)

    def _report(self, trials: Sequence[_ReadTrial]) -> None:
        """Take stored trials into account, and tell the observer."""
        for trial in trials:
            planned, result = trial.made.planned, trial.result
            cell = planned.cell
            is_good = not planned.is_warmup and not result.error
            if any(warning.code == CLOCK_RATE for warning in result.warnings):
                self._stopping.distrust_clock(cell)
            if not planned.is_warmup:
                self._limits.add(cell, result.outcome.values if is_good else None)
            if is_good:
                self._stopping.add(cell, planned.block, result.outcome)
                for note in self._same_settings.differences(cell, result.outcome):
                    self._run.add_warning(note)
            ended = EndedTrial(
                platform=cell.platform.name,
                label=cell.point.label,
                levels=str(cell.point.levels),
                figure=_figure(planned, result),
                error=result.error,
                progress=self._progress.add(planned, has_failed=bool(result.error)),
            )
            self._observer.trial_ended(ended)


def _figure(trial: PlannedTrial, result: TrialResult) -> Figure | None:
    """Return a trial's primary metric, or nothing when it failed."""
    for metric in trial.cell.point.own_metrics:
        if metric.primary and metric.name in result.outcome.values and not result.error:
            step = result.outcome.resolutions.get(metric.name, 0.0)
            return Printed(result.outcome.values[metric.name], step), metric.unit
    return None
