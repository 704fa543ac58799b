"""The store as the runner and the commands use it: open it, begin a run, add trials, list and remove runs.

Every method that writes is one transaction, committed before it returns: what was measured is kept, and nothing is
ever half-written. What reports read is in `query.py`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from sqlalchemy import URL, Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from vtax.errors import BadInput, NotFound, StoreError
from vtax.foreign_text import cleaned, one_line
from vtax.host.lock import is_measuring
from vtax.messages import Note, packed
from vtax.store import schema
from vtax.store.counts import counts_of_all
from vtax.store.creating import ensure_schema
from vtax.store.database import (
    make_engine,
    new_id,
    refuse_writes,
    sqlite_file,
    store_name,
    translated_errors,
    writing,
)
from vtax.store.parts import add_itself, refuse_member
from vtax.store.records import (
    CellRecord,
    Design,
    PlatformRecord,
    RunRecord,
    RunSummary,
    SessionRecord,
    UntestedRecord,
)
from vtax.store.rows import fetch, reading_rows
from vtax.store.run import RunHandle, add_sessions
from vtax.store.summaries import SUMMARY, summaries

LAST = "last"
_RUNS_AT_ONCE = 500  # whose rows are read together
_NEWEST = 10  # runs, of which older ones say less of a host
KILLED = Note("killed")
"""Why a run ended whose process was killed."""

__all__ = ["KILLED", "LAST", "RunHandle", "Store"]


class Store:
    """One open database. Make it with `open`, or with `existing` to look at it."""

    def __init__(self, engine: Engine, *, read_only: bool = False) -> None:
        self.engine = engine
        self._only_looks = read_only

    @classmethod
    def open(cls, place: str | Path, *, read_only: bool = False) -> Self:
        """Open the store of a SQLAlchemy URL or of an SQLite file, made or brought up to date when needed.

        read_only: see `existing`.
        Raises StoreError: damaged, of a newer schema, out of reach, not writable, or not a store.
        """
        engine = make_engine(place)
        try:
            file = sqlite_file(engine.url)
            if file:
                with translated_errors(engine.url):
                    file.parent.mkdir(parents=True, exist_ok=True)
            ensure_schema(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, read_only=read_only)

    @classmethod
    def existing(cls, place: str | Path) -> Self:
        """Open a store read-only. Raises BadInput when there is none yet (none is made), and as `open`.

        A `running` run without a measuring process was killed and is shown as interrupted, like after `vtax clean`.
        """
        engine = make_engine(place)
        file = sqlite_file(engine.url)
        with translated_errors(engine.url):
            is_missing = file is not None and not file.exists()
        engine.dispose()
        if is_missing:
            raise no_runs_error(engine.url)
        return cls.open(place, read_only=True)

    @classmethod
    def open_read_only(cls, place: str | Path) -> Self:
        """Open a store as `existing` does, on connections that refuse to write."""
        store = cls.existing(place)
        refuse_writes(store.engine)
        return store

    def close(self) -> None:
        """Close every connection; SQLite then folds its write-ahead log into the file."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def next_run_name(self, study_name: str) -> str:
        """Return the first free name of the form STUDY-NUMBER, counting up from the highest there is."""
        return next_name(study_name, self.run_names())

    def begin_run(self, run: RunRecord, design: Design) -> RunHandle:
        """Create a run before its first trial. Raises StoreError, and BadInput when the name is taken."""
        if run.name == LAST:
            raise BadInput(f"a run cannot be called {LAST!r}: it means the newest one")
        row = {
            **vars(run),
            "declared": dict(run.declared),
            "status": "running",
            "host": dict(run.host),
            "stopped_because": "",
            "untested": cleaned(list(map(_untested_row, run.untested))),
            "plugins": cleaned(list(map(vars, run.plugins))),
            "identity": uuid4().hex,
            "provenance": {},
            "tags": list(run.tags),
            "notes": [],
        }
        session = SessionRecord(1, row.pop("boot_id"), run.host, run.started_at)
        try:
            with writing(self.engine) as connection:
                run_id = new_id(connection, schema.run, row)
                add_itself(connection, run_id)
                add_sessions(connection, run_id, [session])
                add_design(connection, run_id, design)
        except StoreError as error:
            if isinstance(error.__cause__, IntegrityError) and run.name in self.run_names():
                raise BadInput(
                    f"there is a run {run.name!r} already", where=store_name(self.engine.url)
                ) from error
            raise
        (handle,) = RunHandle.opened(self.engine, [run_id])
        return handle

    def open_run(self, name: str) -> RunHandle:
        """Return an existing run by its name; `last` is the one that began last.

        Raises BadInput for an unknown one.
        """
        (run,) = self.open_runs([name])
        return run

    def open_runs(self, names: Sequence[str]) -> list[RunHandle]:
        """Return runs by their names, as `open_run` does; the rows of many are read together."""
        runs = []
        for first in range(0, len(names), _RUNS_AT_ONCE):
            run_ids = self._run_ids(names[first : first + _RUNS_AT_ONCE])
            runs += RunHandle.opened(self.engine, run_ids)
        for run in runs:
            run.status, run.stopped_because = self.status_for_reader(
                run.status, run.stopped_because
            )
        return runs

    def run_name(self, name: str) -> str:
        """Return the name of an existing run, which may not be readable: its own, or that of `last`.

        Raises BadInput.
        """
        run_id = self._run_id(name)
        with reading_rows(self.engine) as connection:
            (row,) = fetch(connection, select(schema.run.c.name).where(schema.run.c.id == run_id))
        return str(row.name)

    def runs(self) -> list[RunSummary]:
        """Return every run, the oldest first."""
        run = schema.run
        with reading_rows(self.engine) as connection:
            rows = fetch(connection, select(*SUMMARY).order_by(run.c.started_at, run.c.id))
            return summaries(connection, rows, counts_of_all(connection), self.status_for_reader)

    def newest_names(self, limit: int, study: str = "") -> list[str]:
        """Return names of the newest runs, or of the newest of a study. Raises StoreError."""
        run = schema.run
        query = select(run.c.name).order_by(run.c.started_at.desc(), run.c.id.desc()).limit(limit)
        if study:
            query = query.where(run.c.study == study)
        with reading_rows(self.engine) as connection:
            return [row.name for row in fetch(connection, query)]

    def newest(self, machine: str, study: str = "") -> Iterator[RunHandle]:
        """Yield those that a machine measured of the ten newest runs, or of the ten newest of a study; newest first.

        machine: see counters.host.machine_id; of an unknown one (empty) there are none. Runs that cannot be read are
        passed over.
        """
        if not machine:
            return
        for name in self.newest_names(_NEWEST, study):
            with suppress(StoreError):
                handle = self.open_run(name)
                if handle.host.get("machine_id") == machine:
                    yield handle

    def remove_runs(self, *names: str) -> None:
        """Delete runs and everything of them, all or none.

        Raises BadInput for an unknown one, and for one that a merged run is made of, unless that is deleted too.
        """
        ids = {
            self._run_id(name): name for name in names
        }  # also those that cannot be read any more
        with writing(self.engine) as connection:
            for run_id, name in ids.items():
                refuse_member(connection, run_id, name, "removed", without=ids)
            connection.execute(delete(schema.part).where(schema.part.c.run_id.in_(ids)))
            trials = select(schema.trial.c.id).where(schema.trial.c.run_id.in_(ids))
            for table in (schema.measurement, schema.counter, schema.output):
                connection.execute(delete(table).where(table.c.trial_id.in_(trials)))
            for table in (
                schema.run_column,
                schema.warning,
                schema.trial,
                schema.guest,
                schema.metric,
                schema.cell,
                schema.platform,
                schema.session,
            ):
                connection.execute(delete(table).where(table.c.run_id.in_(ids)))
            connection.execute(delete(schema.run).where(schema.run.c.id.in_(ids)))

    def close_orphans(self, names: Sequence[str], ended_at: float) -> None:
        """Mark runs that a killed vtax left `running` as interrupted. ended_at: Unix time."""
        with writing(self.engine) as connection:
            connection.execute(
                update(schema.run)
                .where(schema.run.c.name.in_(names), schema.run.c.status == "running")
                .values(status="interrupted", stopped_because=packed(KILLED), ended_at=ended_at)
            )

    def status_for_reader(self, status: str, because: str) -> tuple[str, str]:
        """Return status of a run and why it stopped; runs on a database server may belong to another host."""
        is_ours = sqlite_file(self.engine.url) is not None
        if self._only_looks and is_ours and status == "running" and not is_measuring():
            return "interrupted", KILLED
        return status, because

    def _run_ids(self, names: Sequence[str]) -> list[int]:
        run = schema.run
        with reading_rows(self.engine) as connection:
            query = select(run.c.name, run.c.id).where(run.c.name.in_(names))
            ids = {row.name: row.id for row in fetch(connection, query)}
        return [ids[name] if name in ids else self._run_id(name) for name in names]

    def _run_id(self, name: str) -> int:
        run = schema.run
        query = select(run.c.id)
        if name == LAST:
            query = query.order_by(run.c.started_at.desc(), run.c.id.desc()).limit(1)
        else:
            query = query.where(run.c.name == name)
        with reading_rows(self.engine) as connection:
            run_id = connection.execute(query).scalar()
        if run_id is None:
            raise self._unknown(name)
        return int(run_id)

    def run_names(self) -> list[str]:
        """Return the names of all runs, in the order of their rows."""
        with reading_rows(self.engine) as connection:
            rows = fetch(connection, select(schema.run.c.name).order_by(schema.run.c.id))
        return [row.name for row in rows]

    def _unknown(self, name: str) -> NotFound:
        names = self.run_names()
        if not names:
            return no_runs_error(self.engine.url)
        near = difflib.get_close_matches(name, names, n=3)
        hint = f"the latest are {', '.join(names[-3:])}; see vtax list"
        if near:
            hint = f"did you mean {', '.join(near)}?"
        return NotFound(f"there is no run {name!r}", where=store_name(self.engine.url), hint=hint)


def next_name(stem: str, names: Iterable[str]) -> str:
    """Return the first free name of the form STEM-NUMBER among these, counting up from the highest there is."""
    pattern = re.compile(re.escape(stem) + r"-(\d+)")
    highest = 0
    for name in names:
        match = pattern.fullmatch(name)
        if match:
            highest = max(highest, int(match[1]))
    return f"{stem}-{highest + 1}"


def no_runs_error(url: URL) -> NotFound:
    """Return the error for a store without a run, or without a file."""
    return NotFound(
        "there is no run yet", where=store_name(url), hint="start one: sudo vtax run tour"
    )


def _untested_row(record: UntestedRecord) -> dict[str, Any]:
    return {**vars(record), "reason": packed(record.reason), "hint": packed(record.hint)}


def add_design(connection: Connection, run_id: int, design: Design) -> None:
    """Store what a run measures."""
    _add_platforms(connection, run_id, design.platforms)
    _add_cells(connection, run_id, design.cells)
    rows = [{"run_id": run_id, **vars(metric)} for metric in design.metrics]
    if rows:
        connection.execute(insert(schema.metric), rows)


def _add_platforms(
    connection: Connection, run_id: int, platforms: Iterable[PlatformRecord]
) -> None:
    rows = []
    for position, platform in enumerate(platforms):
        row = {
            **vars(platform),
            "run_id": run_id,
            "position": position,
            "identity": dict(platform.identity),
            "marks": list(platform.marks),
            "reason": packed(platform.reason),
            "hint": packed(platform.hint),
            "version": one_line(platform.version),
        }
        rows.append(row)
    if rows:
        connection.execute(insert(schema.platform), rows)


def _add_cells(connection: Connection, run_id: int, cells: Iterable[CellRecord]) -> None:
    query = select(schema.platform.c.name, schema.platform.c.id).where(
        schema.platform.c.run_id == run_id
    )
    ids = {row.name: row.id for row in connection.execute(query)}
    rows = []
    for cell in cells:
        row = {**vars(cell), "run_id": run_id, "platform_id": ids[cell.platform]}
        row |= {key: dict(row[key]) for key in ("parameters", "link", "levels")}
        del row["platform"]
        rows.append(row)
    if rows:
        connection.execute(insert(schema.cell), rows)
