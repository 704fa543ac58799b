"""The state of a run that may still be measured: from its events where this host measures it, else from the store.

While events come, the store is not touched: nobody who watches adds a query to a run, but for the results after each
block. A run of another host or in a database server has no events here; then the store is asked
every few seconds, and its trials are counted only where there are further ones.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy import Connection, Row, func, select

from vtax.host.home import Home
from vtax.host.lock import is_measuring
from vtax.live.events import Event, EventReader, RunProgress
from vtax.stats.rules import rule_class
from vtax.store import schema
from vtax.store.counts import counts_of, last_position
from vtax.store.parts import numbered, of_run
from vtax.store.rows import fetch, reading_rows
from vtax.store.store import LAST, RunHandle, Store

RUNNING = "running"
STORE_PAUSE_S = 5.0
"""Between two looks at the store, where there are no events."""


@dataclass(frozen=True)
class LiveState:
    """A run at a moment.

    status: as in the store.
    because: why it ended.
    events: the last ones, where this host has them.
    change: differs from that of the state before when something happened.
    """

    run: str
    study: str
    status: str
    because: str = ""
    progress: RunProgress = field(default_factory=RunProgress)
    events: tuple[Event, ...] = ()
    change: tuple[object, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether more will happen."""
        return self.status == RUNNING

    @property
    def complete_blocks(self) -> int:
        """Blocks that have ended, as far as known: results change with them."""
        return max(self.progress.block or 0, 0) + (not self.is_running)


class LiveRun:
    """A run to look at again and again. state(): reads what changed; cheap while nothing does."""

    def __init__(self, place: str | Path, home: Home, name: str = LAST) -> None:
        """place: of the store. Raises BadInput for an unknown run or no store, StoreError."""
        self._place = place
        self._reader = EventReader(home.events)
        with Store.open_read_only(place) as store:
            run = store.open_run(name)
            self.name, self.study, self.identity = run.name, run.study, run.identity
            self._stored_state = _read_state(store, run)
        self._looked_at = time.monotonic()
        self._seen_end: tuple[str, str] | None = None

    def state(self) -> LiveState:
        """Return the state now. Raises StoreError, and BadInput when the run is gone."""
        followed = self._reader.read()
        is_ours = bool(self.identity) and followed.identity == self.identity
        events = tuple(followed.events) if is_ours else ()
        run_end = followed.ended if is_ours else None
        if is_ours and run_end is None and is_measuring():
            change = ("events", self._reader.change)
            return LiveState(self.name, self.study, RUNNING, "", followed.progress, events, change)
        is_due = (
            self._stored_state.is_running and time.monotonic() - self._looked_at >= STORE_PAUSE_S
        )
        if is_due or run_end != self._seen_end:
            with Store.open_read_only(self._place) as store:
                self._stored_state = _read_state(
                    store, store.open_run(self.name), self._stored_state
                )
            self._looked_at, self._seen_end = time.monotonic(), run_end
        return replace(self._stored_state, events=events)


def _read_state(store: Store, run: RunHandle, before: LiveState | None = None) -> LiveState:
    """Return the state of a run in the store: exact counts, and an estimate of its position.

    store, run: the run.
    before: the state of the last time, which is returned where nothing is new.
    """
    with reading_rows(store.engine) as connection:
        guest = _last_guest(connection, run.id) if run.status == RUNNING else None
        last = last_position(connection, run.id)
        change = ("store", run.status, run.stopped_because, last, guest.id if guest else 0)
        if before is not None and before.change == change:
            return before
        counts = counts_of(connection, run.id)
        block = connection.execute(
            select(func.max(numbered(schema.trial.c.block))).where(of_run(schema.trial, run.id))
        ).scalar()
    design = run.declared.get("design", {})
    blocks = design.get("blocks") if rule_class(design).is_counted else None
    progress = RunProgress(
        block=guest.block if guest else block,
        blocks=blocks,
        done_trials=counts.trials,
        failed_trials=counts.failed,
        total_trials=_planned_trials(run, blocks),
        elapsed_s=run.duration_s,
        platform=guest.name if guest else "",
    )
    return LiveState(run.name, run.study, run.status, run.stopped_because, progress, change=change)


def _last_guest(connection: Connection, run_id: int) -> Row[tuple[int, int, str]] | None:
    guest, platform = schema.guest, schema.platform
    query = (
        select(guest.c.id, guest.c.block, platform.c.name)
        .join_from(guest, platform)
        .where(guest.c.run_id == run_id)
        .order_by(guest.c.id.desc())
        .limit(1)
    )
    return next(iter(fetch(connection, query)), None)


def _planned_trials(run: RunHandle, blocks: int | None) -> int | None:
    """Return the number of measured trials of the whole run, where its study fixes it."""
    trials = run.declared.get("design", {}).get("trials")
    if not isinstance(trials, int) or not blocks or not math.isfinite(blocks):
        return None
    return len(run.cells) * trials * blocks
