"""One run in the store: what it was declared to be, and the trials added to it one transaction at a time."""

from __future__ import annotations

import math
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Engine, Table, Text, Update, cast, func, insert, select, update

from vtax.errors import StoreBusy, StoreError
from vtax.foreign_text import clean, cleaned, one_line
from vtax.limits import STORED_OUTPUT
from vtax.messages import Note, columns_of, note_in, packed, restored
from vtax.store import schema
from vtax.store.annotations import Annotations
from vtax.store.columns import drop_columns, write_columns
from vtax.store.counts import counts_of
from vtax.store.database import new_id, writing
from vtax.store.parts import of_run
from vtax.store.records import (
    LISTS,
    REFUSED,
    RESOLUTIONS,
    PlatformRecord,
    SessionRecord,
    TrialRecord,
)
from vtax.store.rows import check_declared, check_host, fetch, finite_lists, reading_rows
from vtax.store.run_records import (
    RunRows,
    marked_by_host,
    read_cells,
    read_metrics,
    read_platforms,
    read_plugins,
    read_sessions,
    read_untested,
    rows_of_runs,
)

MAX_UNPACKED = STORED_OUTPUT.size_bytes
BUSY_TIMEOUT_S = 300.0
_NAMES = 4096  # of counters, kept as they are stored
COMPRESSION = 1  # outputs are small and text; level 1 gets most of it in a tenth of the time


class RunHandle:
    """A run that exists in the store.

    id: its row.
    name, study, seed, declared, image_key, host, plugins, started_at: as begun.
    status: as of the last call of this handle.
    identity, provenance: see store.provenance.
    annotations, duration_s: as it was opened.
    platforms, cells, metrics, untested: the records it began with, in order.
    sessions: those that were begun, at least one.
    waiting: called when another process holds the lock of the store; when set, writing waits for that process for up
        to BUSY_TIMEOUT_S, since nothing is measured meanwhile.
    """

    waiting: Callable[[str], None] | None = None

    def __init__(self, engine: Engine, rows: RunRows) -> None:
        """rows: of the run, see `opened`. Raises ValueError for rows that contradict each other."""
        row = rows.run
        check_declared(row.declared)
        check_host(row.host)
        if "/" in row.name:  # it becomes the name of a file
            raise ValueError(f"a run is called {row.name}")
        self._engine = engine
        self._connection: Connection | None = None  # of `together`
        self._of_trials: dict[Table, list[dict[str, Any]]] = defaultdict(list)  # to be inserted
        self.id: int = row.id
        self.plugins = read_plugins(row.plugins)
        self.untested = read_untested(row.untested)
        self._platform_ids, platforms = read_platforms(rows.platforms)
        self.platforms = marked_by_host(platforms, row.host)
        self._cell_ids, self.cells = read_cells(rows.cells, self.platforms)
        self._metric_ids, self.metrics = read_metrics(rows.metrics)
        self.sessions = read_sessions(rows.sessions)
        self.name: str = row.name
        self.study: str = row.study
        self.declared: Mapping[str, Any] = row.declared
        self.seed: int = row.seed
        self.status: str = row.status
        self.vtax_version: str = row.vtax_version
        self.image_key: str = row.image_key
        self.host: Mapping[str, Any] = row.host
        self.started_at: float = row.started_at
        self.ended_at: float | None = row.ended_at
        self.duration_s = duration_s(row)
        self._active_before_s: float | None = row.active_s
        self._reopened: float | None = None  # when, by the monotonic clock
        self.stopped_because = restored(row.stopped_because)
        self.identity: str = row.identity
        self.provenance: Mapping[str, Any] = row.provenance
        self.annotations = Annotations.read(row.tags, row.notes)
        self._benchmark_of = {cell.key: cell.benchmark for cell in self.cells}

    @classmethod
    def opened(cls, engine: Engine, run_ids: Sequence[int]) -> list[RunHandle]:
        """Return the runs of some ids, whose rows are read together. Raises StoreError."""
        with reading_rows(engine) as connection:
            return [cls(engine, rows) for rows in rows_of_runs(connection, run_ids)]

    @property
    def session(self) -> SessionRecord:
        """The session that trials are added to: the last one."""
        return self.sessions[-1]

    def begin_session(
        self, boot_id: str, host: Mapping[str, Any], started_at: float
    ) -> SessionRecord:
        """Begin a further session; until it is carried out, the run is `interrupted`.

        boot_id, host: of this host now. started_at: Unix time.
        """
        session = SessionRecord(self.session.number + 1, boot_id, host, started_at)
        reason = Note("session-begun", session=session.number)
        values = {"status": "interrupted", "stopped_because": packed(reason)}
        with self._writing() as connection:
            add_sessions(connection, self.id, [session])
            connection.execute(self._update().values(values))
        self.sessions = (*self.sessions, session)
        self.status, self.stopped_because = "interrupted", reason
        return session

    def note_boot(self, name: str, facts: Mapping[str, Any]) -> None:
        """Record a boot of the host that the session has, by its name in the study. facts: of the host in it."""
        session = self.session
        host = {**session.host, "boots": {**session.host.get("boots", {}), name: dict(facts)}}
        table = schema.session
        with self._writing() as connection:
            conditions = (table.c.run_id == self.id, table.c.number == session.number)
            connection.execute(update(table).where(*conditions).values(host=host))
        self.sessions = (*self.sessions[:-1], replace(session, host=host))

    @property
    def engine(self) -> Engine:
        """The store that holds the run."""
        return self._engine

    def begin_guest(self, platform_name: str, block: int, topology: str, started_at: float) -> int:
        """Note that a guest is being started, at a Unix time; returns its id for `end_guest` and for trials."""
        row = {
            "run_id": self.id,
            "platform_id": self._platform_ids[platform_name],
            "block": block,
            "topology": topology,
            "started_at": started_at,
            "facts": {},
            "notes": [],
            "error": "",
        }
        with self._writing() as connection:
            return new_id(connection, schema.guest, row)

    def end_guest(
        self,
        guest_id: int,
        *,
        ready_s: float | None,
        clock_offset_s: float | None,
        facts: Mapping[str, Any],
        notes: Sequence[str],
        error: str = "",
    ) -> None:
        """Record the end of a guest. ready_s: start to agent ready, None when it never was. facts: its audit."""
        values = {
            "ready_s": ready_s,
            "clock_offset_s": clock_offset_s,
            "facts": cleaned(facts),
            "notes": [packed(note) for note in notes],
            "error": packed(error),
        }
        with self._writing() as connection:
            connection.execute(
                update(schema.guest).where(schema.guest.c.id == guest_id).values(values)
            )

    def add_trial(self, trial: TrialRecord) -> int:
        """Store a trial in one transaction and return its id; it is on disk then, or after the block of `together`.

        A value that is not a finite number fails the trial (it cannot be averaged); such a counter is left out.
        Raises StoreError: disk full, damaged, or this trial is stored already.
        """
        benchmark = self._benchmark_of[trial.cell_key]
        error, status, values = trial.error, trial.status, trial.values
        infinite = sorted(name for name, value in values.items() if not math.isfinite(value))
        if infinite:
            status, error = "failed", error or Note("not-finite", names=infinite)
            values = {}
        measurements = []
        for name, value in values.items():
            if (benchmark, name) not in self._metric_ids:
                raise StoreError(
                    f"{benchmark} has no metric {name!r} in this run",
                    where=f"cell {trial.cell_key}",
                )
            metric_id = self._metric_ids[benchmark, name]
            measurements.append({"metric_id": metric_id, "value": float(value)})
        row = {
            "run_id": self.id,
            "cell_id": self._cell_ids[trial.cell_key],
            "guest_id": trial.guest_id,
            "block": trial.block,
            "number": trial.number,
            "position": trial.position,
            "is_warmup": trial.is_warmup,
            "status": status,
            "started_at": trial.started_at,
            "outside_s": trial.outside_s,
            "inside_s": trial.inside_s,
            "effective": _effective(trial.effective),
            "error": packed(error),
            "session": self.session.number,
        }
        with self.together(), self._writing() as connection:
            if self.status != "running":
                drop_columns(connection, self.id)
            trial_id = new_id(connection, schema.trial, row)
            if self._reopened is not None:
                connection.execute(self._update().values(active_s=self._active_s()))
            for table, rows in (
                (schema.measurement, measurements),
                (schema.output, _output_rows(trial)),
                (schema.counter, _counter_rows(trial)),
                (schema.warning, self._warning_rows(trial)),
            ):
                for table_row in rows:
                    table_row["trial_id"] = trial_id
                self._of_trials[table] += rows
        return trial_id

    def _update(self) -> Update:
        """Return the statement that changes the row of this run."""
        return update(schema.run).where(schema.run.c.id == self.id)

    def done(self) -> set[tuple[str, int, int]]:
        """Return (cell key, block, number) of every trial stored, whether it went well or failed."""
        trial, cell = schema.trial, schema.cell
        query = select(cell.c.key, trial.c.block, trial.c.number).join_from(trial, cell)
        with reading_rows(self._engine) as connection:
            rows = fetch(connection, query.where(trial.c.run_id == self.id))
        return {(row.key, row.block, row.number) for row in rows}

    def failed_trials(self) -> int:
        """Return how many measured trials failed."""
        with reading_rows(self._engine) as connection:
            return counts_of(connection, self.id).failed

    def bounded_values(self, metrics: Mapping[str, str]) -> list[tuple[str, float | None]]:
        """Return (cell key, value) of every measured trial of the tables that bound a metric, in the order measured.

        metrics: names of the metrics by the labels of these tables. None is the value of a trial that failed.
        """
        if not metrics:
            return []
        trial, cell, metric = schema.trial, schema.cell, schema.metric
        measurement = schema.measurement
        trials = (
            select(cell.c.key, cell.c.label, trial.c.id)
            .join_from(trial, cell, trial.c.cell_id == cell.c.id)
            .where(trial.c.run_id == self.id, ~trial.c.is_warmup, cell.c.label.in_(metrics))
            .order_by(trial.c.position)
        )
        values = (
            select(measurement.c.trial_id, metric.c.name, measurement.c.value)
            .join_from(measurement, trial)
            .join(metric, measurement.c.metric_id == metric.c.id)
            .where(trial.c.run_id == self.id, trial.c.status == "ok")
            .where(metric.c.name.in_(metrics.values()))
        )
        with reading_rows(self._engine) as connection:
            values_by_trial = {
                (row.trial_id, row.name): row.value for row in fetch(connection, values)
            }
            return [
                (trial_row.key, values_by_trial.get((trial_row.id, metrics[trial_row.label])))
                for trial_row in fetch(connection, trials)
            ]

    def primary_values(self) -> list[tuple[str, int, str, float, float]]:
        """Return (cell key, block, metric name, value, its smallest step or 0) of every primary metric, in the order
        measured.

        Only trials that went well, warm-up left out: what a stopping rule looks at.
        """
        trial, cell, metric = schema.trial, schema.cell, schema.metric
        measurement = schema.measurement
        query = (
            select(cell.c.key, trial.c.block, metric.c.name, measurement.c.value, trial.c.id)
            .join_from(measurement, trial)
            .join(cell, trial.c.cell_id == cell.c.id)
            .join(metric, measurement.c.metric_id == metric.c.id)
            .where(
                trial.c.run_id == self.id,
                trial.c.status == "ok",
                ~trial.c.is_warmup,
                metric.c.is_primary,
            )
            .order_by(trial.c.position, metric.c.id)
        )
        values = []
        with reading_rows(self._engine) as connection:
            steps = lists_of_trials(connection, self.id, RESOLUTIONS)
            for key, block, name, value, trial_id in fetch(connection, query):
                step = steps.get(trial_id, {}).get(name, [0.0])[0]
                values.append((key, block, name, value, step))
        return values

    def cells_warned_of(self, code: str) -> set[str]:
        """Return the keys of the cells of which a trial had a warning of this code."""
        cell, warning = schema.cell, schema.warning
        query = select(cell.c.key).join_from(warning, cell, warning.c.cell_id == cell.c.id)
        query = query.where(warning.c.run_id == self.id, warning.c.code == code)
        with reading_rows(self._engine) as connection:
            return {row.key for row in fetch(connection, query)}

    def spent_s(self) -> float:
        """Return the seconds that this run has spent so far on starting guests and on its tools: a resumed run's part of
        a budget."""
        spent_s = 0.0
        with reading_rows(self._engine) as connection:
            for column in (schema.trial.c.outside_s, schema.guest.c.ready_s):
                query = select(func.sum(column)).where(column.table.c.run_id == self.id)
                spent_s += float(connection.execute(query).scalar() or 0.0)
        return spent_s

    def set_tool_version(self, benchmark: str, version: str) -> None:
        """Store the version of a benchmark's tool, once a guest has said it."""
        table = schema.cell
        conditions = (table.c.run_id == self.id, table.c.benchmark == benchmark)
        with self._writing() as connection:
            connection.execute(update(table).where(*conditions).values(tool_version=clean(version)))

    def set_parameter(self, cell_key: str, name: str, value: Any) -> None:
        """Store a parameter of a cell that its first trials found out."""
        table = schema.cell
        index = [cell.key for cell in self.cells].index(cell_key)
        cell = self.cells[index]
        parameters = {**cell.parameters, name: value}
        condition = table.c.id == self._cell_ids[cell_key]
        with self._writing() as connection:
            connection.execute(update(table).where(condition).values(parameters=parameters))
        changed = replace(cell, parameters=parameters)
        self.cells = (*self.cells[:index], changed, *self.cells[index + 1 :])

    def set_probe(self, platform: PlatformRecord) -> None:
        """Store what a later probe of a platform found, in place of the first."""
        table = schema.platform
        values = {
            "available": platform.available,
            "reason": packed(platform.reason),
            "hint": packed(platform.hint),
            "marks": list(platform.marks),
            "version": clean(platform.version),
        }
        with self._writing() as connection:
            conditions = (table.c.run_id == self.id, table.c.name == platform.name)
            connection.execute(update(table).where(*conditions).values(values))
        names = [record.name for record in self.platforms]
        index = names.index(platform.name)
        self.platforms = (*self.platforms[:index], platform, *self.platforms[index + 1 :])

    def next_position(self) -> int:
        """Return the position after the last stored trial: where a resumed run goes on counting."""
        query = select(func.max(schema.trial.c.position)).where(schema.trial.c.run_id == self.id)
        with reading_rows(self._engine) as connection:
            last_position = connection.execute(query).scalar()
        return 0 if last_position is None else int(last_position) + 1

    def add_warning(self, note: Note, cell_key: str | None = None) -> None:
        """Store a warning about the run, or about one of its cells. The same one is kept once."""
        cell_id = None if cell_key is None else self._cell_ids[cell_key]
        row = {"run_id": self.id, "cell_id": cell_id, "trial_id": None, **columns_of(note)}
        table = schema.warning
        same_code = select(table.c.cell_id, table.c.trial_id, table.c.data).where(
            table.c.run_id == self.id, table.c.code == note.code
        )
        with self._writing() as connection:
            stored_data = list(map(tuple, connection.execute(same_code)))
            if (cell_id, None, row["data"]) not in stored_data:
                connection.execute(insert(table), row)

    def is_refused(self) -> bool:
        """Return whether the run ended because of what its study asks for: it would again. Raises StoreError."""
        table = schema.warning
        query = select(table.c.data).where(table.c.run_id == self.id, table.c.code == REFUSED)
        with reading_rows(self._engine) as connection:
            notes = [note_in(REFUSED, row.data) for row in fetch(connection, query)]
        return self.stopped_because in notes

    def reopen(self) -> None:
        """Mark the run as running, at first or again: its time goes on."""
        self._active_before_s = self._active_s() or 0.0
        self._reopened = time.monotonic()
        self._set_status("running", "", None)

    def finish(self, status: str, stopped_because: str, ended_at: float) -> None:
        """Record how the run ended. status: finished, paused, interrupted or failed. ended_at: Unix time."""
        self._set_status(status, stopped_because, ended_at)

    def _set_status(self, status: str, stopped_because: str, ended_at: float | None) -> None:
        values = {
            "status": status,
            "stopped_because": packed(stopped_because),
            "ended_at": ended_at,
            "active_s": self._active_s(),
        }
        with self._writing() as connection:
            connection.execute(self._update().values(values))
            if status == "running":
                drop_columns(connection, self.id)
            else:
                write_columns(connection, self.id)
        self.status, self.stopped_because, self.ended_at = status, stopped_because, ended_at

    def _active_s(self) -> float | None:
        """Return how long this run was carried out up to now; None when it is not known."""
        if self._active_before_s is None or self._reopened is None:
            return self._active_before_s
        return self._active_before_s + time.monotonic() - self._reopened

    @contextmanager
    def together(self) -> Iterator[None]:
        """Within the block everything that is written is one transaction, which is on disk after the block.

        What belongs to trials is written at its end, all rows of a table at once.
        """
        if self._connection is not None:
            yield
            return
        with self._writing() as connection:
            self._connection = connection
            try:
                yield
                for table, rows in self._of_trials.items():
                    if rows:
                        connection.execute(insert(table), rows)
            finally:
                self._connection = None
                self._of_trials.clear()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        if self._connection is not None:
            yield self._connection
            return
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        with ExitStack() as stack:
            while True:
                try:
                    connection = stack.enter_context(writing(self._engine))
                    break
                except StoreBusy as error:
                    if self.waiting is None or time.monotonic() > deadline:
                        raise
                    self.waiting(f"{error.what} ({error.where}); waiting for it")
            yield connection

    def _warning_rows(self, trial: TrialRecord) -> list[dict[str, Any]]:
        place = {"run_id": self.id, "cell_id": self._cell_ids[trial.cell_key]}
        return [{**place, **columns_of(note)} for note in trial.warnings]


def add_sessions(connection: Connection, run_id: int, sessions: Iterable[SessionRecord]) -> None:
    """Store sessions of a run."""
    rows = []
    for session in sessions:
        rows.append({"run_id": run_id, **vars(session), "host": dict(session.host)})
    connection.execute(insert(schema.session), rows)


def duration_s(row: Any) -> float | None:
    """Return the seconds that a run (its row) was carried out; from start to end where that was not kept. None: not
    ended."""
    if row.ended_at is None:
        return None
    return float(row.ended_at - row.started_at if row.active_s is None else row.active_s)


def pack(text: str) -> bytes:
    """Return the text of a program as it is stored; any string, even one with lone surrogates, comes back from
    `unpack`."""
    return zlib.compress(text.encode("utf-8", "surrogatepass"), COMPRESSION)


def unpack(data: bytes, limit: int = MAX_UNPACKED) -> str:
    """Return the inverse of `pack`, at most `limit` bytes of it. Raises ValueError or zlib.error for damaged data."""
    text = unpacked(data, limit)
    return text.decode("utf-8", "surrogatepass" if len(text) < limit else "replace")


def unpacked(data: bytes, limit: int = MAX_UNPACKED) -> bytes:
    """Return what `unpack` does, in UTF-8."""
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(data, limit)
    if len(text) < limit and not unpacker.eof:
        raise ValueError("an output is cut off")
    return text


def _effective(effective: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in force, cleaned; values within a trial, which are many, are numbers already."""
    settings = {name: value for name, value in effective.items() if name not in LISTS}
    lists = {name: effective[name] for name in LISTS if name in effective}
    return {**cleaned(settings), **lists}


def _output_rows(trial: TrialRecord) -> list[dict[str, Any]]:
    rows = []
    for output in trial.outputs:
        row = {
            "role": output.role,
            "argv": list(output.argv),
            "status": output.status,
            "stdout": pack(output.stdout),
            "stderr": pack(output.stderr),
        }
        rows.append(row)
    return rows


@lru_cache(_NAMES)
def _counter_name(name: str) -> str:
    """Return the name of a counter as it is stored; every trial has the same hundreds of them."""
    return one_line(name, 80)


def _counter_rows(trial: TrialRecord) -> list[dict[str, Any]]:
    rows = []
    for (place, name), value in trial.counters.items():
        if math.isfinite(value):
            rows.append({"place": place, "name": _counter_name(name), "value": float(value)})
    return rows


def lists_of_trials(
    connection: Connection, run_id: int, key: str
) -> dict[int, dict[str, list[float]]]:
    """Return by trial id and name the numbers of the trials that have some under a key of LISTS."""
    table = schema.trial
    query = select(table.c.id, table.c.effective).where(
        of_run(table, run_id),
        cast(table.c.effective, Text).contains(f'"{key}"', autoescape=True),
    )
    lists = {}
    for trial, effective in connection.execute(query):
        if key in effective:
            lists[trial] = finite_lists(effective[key])
    return lists
