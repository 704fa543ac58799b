"""The state of a run that may still be measured: from its events where this host measures it, else from the store.

While events come, the store is not touched: nobody who watches adds a query to a run, but for the results after each
block. A run of another host, in a database server, or of an older vtax has no events here; then the store is asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import case, func, select

from vtax.host.home import Home
from vtax.host.lock import is_measuring
from vtax.live.events import Event, EventReader
from vtax.store import schema
from vtax.store.rows import fetch, reading_rows
from vtax.store.store import LAST, RunHandle, Store

RUNNING = "running"


@dataclass(frozen=True)
class LiveState:
    """A run at a moment. As in `live.events.Progressed`, and:

    status: as in the store. because: why it ended. blocks, total_trials, elapsed_s, left_s: None where unknown.
    change: differs from that of the state before when something happened.
    """

    run: str
    study: str
    status: str
    because: str = ""
    block: int | None = None
    blocks: int | None = None
    is_warmup: bool = False
    done_trials: int = 0
    total_trials: int | None = None
    failed: int = 0
    elapsed_s: float | None = None
    left_s: float | None = None
    platform: str = ""
    guest: str = ""
    ready_s: float | None = None
    trial: tuple[str, str] | None = None
    events: tuple[Event, ...] = ()
    change: tuple[object, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether more will happen."""
        return self.status == RUNNING

    @property
    def complete_blocks(self) -> int:
        """Blocks that have ended, as far as known: results change with them."""
        return max(self.block or 0, 0) + (not self.is_running)


class LiveRun:
    """A run to look at again and again. state(): reads what changed; cheap while nothing does."""

    def __init__(self, place: str | Path, home: Home, name: str = LAST) -> None:
        """place: of the store. Raises BadInput for an unknown run or no store, StoreError."""
        self._place = place
        self._reader = EventReader(home.events)
        with Store.looked_at(place) as store:
            run = store.open_run(name)
            self.name, self.study, self.identity = run.name, run.study, run.identity
            self._stored = _stored(store, run)

    def state(self) -> LiveState:
        """The state now. Raises StoreError, and BadInput when the run is gone."""
        found = self._reader.read()
        is_ours = bool(self.identity) and found.identity == self.identity
        if is_ours and found.ended is None and is_measuring():
            return LiveState(
                self.name, self.study, RUNNING, "", found.block, found.blocks, found.is_warmup, found.done_trials,
                found.total_trials, found.failed, found.elapsed_s, found.left_s, found.platform, found.guest,
                found.ready_s, found.trial, tuple(found.events), ("events", self._reader.change),
            )  # fmt: skip
        if self._stored.is_running or not is_ours or found.ended != (self._stored.status, self._stored.because):
            with Store.looked_at(self._place) as store:
                self._stored = _stored(store, store.open_run(self.name))
        events = tuple(found.events) if is_ours else ()
        return LiveState(**{**vars(self._stored), "events": events})


def _stored(store: Store, run: RunHandle) -> LiveState:
    """What the store says of a run: exact counts, and no more than an estimate of where it is."""
    trial, guest, platform = schema.trial, schema.guest, schema.platform
    measured = ~trial.c.is_warmup
    counts = select(
        func.max(trial.c.block).label("block"), func.sum(case((measured, 1), else_=0)),
        func.sum(case((measured & (trial.c.status != "ok"), 1), else_=0)), func.max(trial.c.position),
    ).where(trial.c.run_id == run.id)  # fmt: skip
    last = (
        select(guest.c.id, guest.c.block, platform.c.name)
        .join_from(guest, platform)
        .where(guest.c.run_id == run.id)
        .order_by(guest.c.id.desc())
        .limit(1)
    )
    with reading_rows(store.engine) as connection:
        block, done, failed, position = connection.execute(counts).one()
        guests = fetch(connection, last) if run.status == RUNNING else []
    design = run.declared.get("design", {})
    blocks = design.get("blocks") if design.get("stop") == "fixed" else None
    return LiveState(
        run.name, run.study, run.status, run.stopped_because, guests[0].block if guests else block, blocks,
        done_trials=int(done or 0), failed=int(failed or 0),
        total_trials=_planned(run, blocks), elapsed_s=run.duration_s,
        platform=guests[0].name if guests else "",
        change=("store", run.status, run.stopped_because, position, guests[0].id if guests else 0),
    )  # fmt: skip


def _planned(run: RunHandle, blocks: int | None) -> int | None:
    """Measured trials of the whole run, where its study fixes them."""
    trials = run.declared.get("design", {}).get("trials")
    if not isinstance(trials, int) or not blocks or not math.isfinite(blocks):
        return None
    return len(run.cells) * trials * blocks
