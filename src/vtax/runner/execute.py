"""Carries out a plan, block by block, and commits every trial the moment it ends.

Nothing here knows a platform, a benchmark or a topology by name. A trial that fails is recorded and the run goes
on; a guest that is lost is replaced by a fresh one for the cells it still owed; a request to stop (Ctrl-C, SIGTERM)
ends the current trial, takes everything down, and leaves a run that `vtax resume` goes on with.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vtax.counters.host import host_facts
from vtax.errors import RunInterrupted, VtaxError
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.runner.events import Observer, Progress
from vtax.runner.interrupt import stop_requests
from vtax.runner.plan import Cell, Plan, Session
from vtax.runner.session import OpenSession
from vtax.runner.stopping import Stopping
from vtax.runner.trial import TrialResult
from vtax.store.records import CellRecord, MetricRecord, OutputRecord, PlatformRecord, TrialRecord
from vtax.store.store import RunHandle, Store


@dataclass
class _Pace:
    """How long things take in this run: the first estimate, then what was measured."""

    plan: Plan
    started: float
    done: int = 0
    spent_s: float = 0.0

    def progress(self, block: int) -> Progress:
        """Trials done and left, and the time left at the pace so far."""
        per_block = len(self.plan.cells) * self.plan.trials_per_cell
        total = per_block * self.plan.most_blocks
        elapsed = time.monotonic() - self.started
        each = elapsed / self.done if self.done else self.plan.expected_block_s() / max(per_block, 1)
        return Progress(block, self.plan.most_blocks, self.done, total, elapsed, each * (total - self.done))


def begin(store: Store, plan: Plan, *, vtax_version: str) -> RunHandle:
    """Enter a new run in the store, with everything that is known before its first trial."""
    metrics = {
        (point.benchmark.name, metric.name): MetricRecord(
            benchmark=point.benchmark.name,
            name=metric.name,
            title=metric.title,
            unit=metric.unit,
            better=metric.better,
            is_primary=metric.primary,
        )
        for point in plan.points
        for metric in point.benchmark.metrics
    }
    return store.begin_run(
        name=store.next_run_name(plan.study.name),
        study=plan.study.name,
        declared=plan.study.declared(),
        seed=plan.seed,
        vtax_version=vtax_version,
        image_key=plan.image.key,
        host=host_facts(),
        started_at=time.time(),
        platforms=[_platform_record(plan, index) for index in range(len(plan.platforms))],
        cells=[_cell_record(cell) for cell in plan.cells],
        metrics=list(metrics.values()),
    )


def execute(plan: Plan, run: RunHandle, home: Home, observer: Observer) -> None:
    """Carry the plan out from where the run stands until its stopping rule is met.

    Raises RunInterrupted after a request to stop (the run is resumable), StoreError when a trial cannot be
    committed; in every case the host is as it was before.
    """
    status, because = "failed", "vtax failed"
    try:
        with stop_requests(observer.message), Journal(home.journal) as journal:
            because = _blocks(plan, run, home, journal, observer)
            status = "finished"
    except RunInterrupted as stop:
        status, because = "interrupted", stop.what
        raise
    except VtaxError as error:
        because = error.what
        raise
    finally:
        with _quiet_store_errors(observer):
            run.finish(status, because, time.time())


def _blocks(plan: Plan, run: RunHandle, home: Home, journal: Journal, observer: Observer) -> str:
    done = run.done()
    stopping = Stopping(plan, run.primary_values())
    pace = _Pace(plan, time.monotonic())
    pace.done = 0
    for block in range(plan.most_blocks):
        reason = stopping.reason_to_stop(block, pace.progress(block).elapsed_s)
        if reason:
            return reason
        for session in plan.sessions(block):
            owed = [cell for cell in session.cells if not _complete(cell, block, plan, done)]
            pace.done += (len(session.cells) - len(owed)) * plan.trials_per_cell
            if owed:
                _run_session(session, owed, plan, run, home, journal, observer, stopping, pace, done)
    return stopping.reason_to_stop(plan.most_blocks, pace.progress(plan.most_blocks).elapsed_s) or "all blocks done"


def _run_session(
    session: Session,
    owed: list[Cell],
    plan: Plan,
    run: RunHandle,
    home: Home,
    journal: Journal,
    observer: Observer,
    stopping: Stopping,
    pace: _Pace,
    done: set[tuple[str, int, int]],
) -> None:
    """Run the cells a session owes, in a fresh guest; a lost guest is replaced for the cells after the one lost."""
    remaining = list(owed)
    while remaining:
        opened = OpenSession(session, plan, run, home, journal, observer)
        with opened:
            while remaining and not opened.lost:
                cell = remaining.pop(0)
                for number in range(plan.trials_per_cell):
                    if (cell.key, session.block, number) in done:
                        continue
                    observer.trial_starting(cell.platform.name, cell.point.label, levels_text(cell))
                    result = opened.trial(cell)
                    warm = number < plan.study.design.warmup
                    _commit(run, cell, session.block, number, warm, opened.guest_id, result)
                    done.add((cell.key, session.block, number))
                    if not warm and not result.error:
                        stopping.add(cell, session.block, result.outcome.values)
                    pace.done += 1
                    observer.trial_ended(
                        cell.platform.name,
                        cell.point.label,
                        figure(cell, result),
                        result.error,
                        pace.progress(session.block),
                    )


def _commit(
    run: RunHandle, cell: Cell, block: int, number: int, is_warmup: bool, guest_id: int | None, result: TrialResult
) -> None:
    foreground = result.foreground
    run.add_trial(
        TrialRecord(
            cell_key=cell.key,
            guest_id=guest_id,
            block=block,
            number=number,
            position=run.next_position(),
            is_warmup=is_warmup,
            status="failed" if result.error else "ok",
            started_at=result.started_at,
            outside_s=foreground.outside_s if foreground else None,
            inside_s=foreground.inside_s if foreground else None,
            used=dict(result.outcome.used),
            error=result.error,
            outputs=tuple(
                OutputRecord(role, r.argv, r.status, r.stdout, r.stderr) for role, r in result.results.items()
            ),
            values={} if result.error else dict(result.outcome.values),
            counters=dict(result.counters),
            warnings=result.warnings,
        )
    )


def _complete(cell: Cell, block: int, plan: Plan, done: set[tuple[str, int, int]]) -> bool:
    return all((cell.key, block, number) in done for number in range(plan.trials_per_cell))


def levels_text(cell: Cell) -> str:
    """The levels of a cell as people read them: `direction=send, mtu=1500`."""
    return ", ".join(f"{name}={level}" for name, level in cell.point.levels.items())


def figure(cell: Cell, result: TrialResult) -> str:
    """A trial's primary metric with its unit, or nothing when it failed."""
    for metric in cell.point.benchmark.metrics:
        if metric.primary and metric.name in result.outcome.values and not result.error:
            return f"{result.outcome.values[metric.name]:.4g} {metric.unit}"
    return ""


def _platform_record(plan: Plan, index: int) -> PlatformRecord:
    planned = plan.platforms[index]
    probe = planned.probe
    return PlatformRecord(
        name=planned.platform.name,
        identity=planned.platform.identity(),
        available=probe.available,
        reason=probe.reason,
        cure=probe.cure,
        marks=probe.marks,
        version=probe.version,
        is_baseline=planned.platform.name == plan.study.baseline,
    )


def _cell_record(cell: Cell) -> CellRecord:
    point = cell.point
    return CellRecord(
        key=cell.key,
        point=point.key,
        platform=cell.platform.name,
        benchmark=point.benchmark.name,
        label=point.label,
        tool_version="",
        topology=point.topology,
        parameters=point.parameters.model_dump(mode="json"),
        link=dict(point.link),
        levels=dict(point.levels),
    )


@contextmanager
def _quiet_store_errors(observer: Observer) -> Iterator[None]:
    """The last word of a run must not hide the error that ended it (a full disk ends both)."""
    try:
        yield
    except VtaxError as error:
        observer.message(f"the end of the run could not be stored: {error.what}")
