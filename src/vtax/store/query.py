"""Queries of reports: a whole run as arrays, fetched in one pass without Python code per measurement."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, Select, Text, cast, func, select

from vtax.described import Means
from vtax.foreign_data import parse_json
from vtax.messages import Note, note_in, restored
from vtax.question import Selection
from vtax.store import schema
from vtax.store.records import CLOCK_RATE, HISTOGRAMS, LISTS, RESOLUTIONS, SAMPLES
from vtax.store.rows import fetch, plain_settings, reading_rows
from vtax.store.run import RunHandle, lists_of_trials, unpack

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_AT_ONCE = 50  # trials whose outputs are held in memory
LATEST = 1e11  # of all moments, Unix time


@dataclass(frozen=True)
class Trials:
    """Every trial of a run as parallel arrays, ordered by id (the order they were stored in).

    cell: index into RunData.run.cells.
    session: number, from 1.
    started_at: Unix time.
    outside_s, inside_s: NaN where not known.
    """

    id: Ints
    cell: Ints
    block: Ints
    number: Ints
    position: Ints
    is_warmup: Flags
    is_ok: Flags
    started_at: Floats
    outside_s: Floats
    inside_s: Floats
    session: Ints


@dataclass(frozen=True)
class Measurements:
    """Every measurement of a run. trial: index into Trials. metric: index into RunData.run.metrics."""

    trial: Ints
    metric: Ints
    value: Floats


@dataclass(frozen=True)
class GuestRow:
    """A guest of a run.

    ready_s: start to agent ready.
    facts: its audit.
    notes: limits it could not be given.
    """

    platform: str
    block: int
    topology: str
    ready_s: float | None
    clock_offset_s: float | None
    facts: Mapping[str, Any]
    notes: tuple[str, ...]
    error: str


@dataclass(frozen=True)
class WarningRow:
    """A warning and its count, trials before the first block left out but for their clocks: no figure is theirs.

    cell: index into RunData.run.cells, None for the whole run.
    """

    note: Note
    cell: int | None
    times: int

    @property
    def code(self) -> str:
        """The code of its sentence."""
        return self.note.code


@dataclass(frozen=True)
class FailureRow:
    """A failed trial. cell: index into RunData.run.cells."""

    cell: int
    block: int
    number: int
    is_warmup: bool
    error: str


@dataclass(frozen=True)
class OutputRow:
    """Output of a program of a trial. position: of the trial in the run."""

    position: int
    cell: int
    block: int
    number: int
    role: Annotated[str, Means("what the program is in the trial, such as `server`")]
    argv: Annotated[tuple[str, ...], Means("its command")]
    status: Annotated[int, Means("exit status; negative for a signal")]
    stdout: Annotated[str, Means("what it printed")]
    stderr: Annotated[str, Means("what it printed as errors")]


BlockCounters = Mapping[tuple[int, str, str], tuple[Ints, Floats, float]]
"""(cell index, place, name) -> blocks, the mean over the trials of each, and the mean number of trials of a block."""


@dataclass(frozen=True)
class RunData:
    """A whole run, as one consistent state of the store.

    histograms: trial id (as in Trials.id) -> what it is of -> see benchmarks.base.Outcome. resolutions: trial id ->
    metric name -> its smallest step alone.
    """

    run: RunHandle
    trials: Trials
    measurements: Measurements
    guests: tuple[GuestRow, ...]
    warnings: tuple[WarningRow, ...]
    failures: tuple[FailureRow, ...]
    histograms: Mapping[int, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    resolutions: Mapping[int, Mapping[str, Sequence[float]]] = field(default_factory=dict)

    def of_trials(self, kept: Flags) -> RunData:
        """Return the data with some of the trials alone. kept: whether each of them stays."""
        columns = {each.name: getattr(self.trials, each.name)[kept] for each in fields(Trials)}
        measured, of_kept = self.measurements, kept[self.measurements.trial]
        trial = (np.cumsum(kept) - 1)[measured.trial[of_kept]]
        measurements = Measurements(trial, measured.metric[of_kept], measured.value[of_kept])
        return replace(self, trials=Trials(**columns), measurements=measurements)

    def narrowed(self, only: Selection) -> RunData:
        """Return the data of some cells alone, with what concerns their platforms or the whole run."""
        if not only:
            return self
        is_kept = np.array([only.selects(cell.place) for cell in self.run.cells], np.bool_)
        platforms = {self.run.cells[number].platform for number in np.flatnonzero(is_kept)}
        return replace(
            self.of_trials(is_kept[self.trials.cell]),
            guests=tuple(guest for guest in self.guests if guest.platform in platforms),
            warnings=tuple(w for w in self.warnings if w.cell is None or is_kept[w.cell]),
            failures=tuple(failure for failure in self.failures if is_kept[failure.cell]),
        )


def load(engine: Engine, run: RunHandle) -> RunData:
    """Return everything of a run but raw outputs and counters. Raises StoreError."""
    with reading_rows(engine) as connection:
        cell_ids = _ids(connection, schema.cell, run.id)
        if cell_ids.size != len(run.cells):
            raise ValueError("cells are of platforms that are not there")
        trials = _read_trials(connection, run.id, cell_ids)
        if not {session.number for session in run.sessions} >= set(
            np.unique(trials.session).tolist()
        ):
            raise ValueError("trials are of sessions that are not there")
        return RunData(
            run,
            trials,
            _read_measurements(connection, run.id, trials),
            _read_guests(connection, run),
            _read_warnings(connection, run.id, cell_ids),
            _read_failures(connection, run.id, cell_ids),
            lists_of_trials(connection, run.id, HISTOGRAMS),
            lists_of_trials(connection, run.id, RESOLUTIONS),
        )


def outputs(
    engine: Engine, run: RunHandle, positions: Collection[int] | None = None
) -> list[OutputRow]:
    """Return raw outputs of a run's trials, in the order they happened. positions: of the trials; None for all.

    Raises StoreError.
    """
    trial, output = schema.trial, schema.output
    query = (
        select(
            trial.c.position,
            trial.c.cell_id,
            trial.c.block,
            trial.c.number,
            output.c.role,
            output.c.argv,
            output.c.status,
            output.c.stdout,
            output.c.stderr,
        )
        .join_from(output, trial)
        .where(trial.c.run_id == run.id)
        .order_by(trial.c.position, output.c.id)
    )
    if positions is not None:
        query = query.where(trial.c.position.in_(positions))
    rows = []
    with reading_rows(engine) as connection:
        index = _index_of(_ids(connection, schema.cell, run.id))
        for row in fetch(connection, query):
            rows.append(
                OutputRow(
                    row.position,
                    index[row.cell_id],
                    row.block,
                    row.number,
                    row.role,
                    tuple(row.argv),
                    row.status,
                    unpack(row.stdout),
                    unpack(row.stderr),
                )
            )
    return rows


def outputs_of_each(
    engine: Engine, run: RunHandle, positions: Sequence[int]
) -> Iterator[list[OutputRow]]:
    """Yield the raw outputs of every trial, in this order; those of few trials are in memory. Raises StoreError."""
    for first in range(0, len(positions), _AT_ONCE):
        part = positions[first : first + _AT_ONCE]
        rows: dict[int, list[OutputRow]] = {position: [] for position in part}
        for row in outputs(engine, run, positions=part):
            rows[row.position].append(row)
        for position in part:
            yield rows[position]


def counters(engine: Engine, run: RunHandle) -> dict[tuple[int, str, str], tuple[float, int]]:
    """Return by (cell index, place, name) the mean over the measured trials that went well, and their number."""
    trial, counter = schema.trial, schema.counter
    keys = (trial.c.cell_id, counter.c.place, counter.c.name)
    query = (
        select(*keys, func.avg(counter.c.value), func.count())
        .join_from(counter, trial)
        .where(trial.c.run_id == run.id, ~trial.c.is_warmup, trial.c.status == "ok")
        .group_by(*keys)
    )
    means = {}
    with reading_rows(engine) as connection:
        index = _index_of(_ids(connection, schema.cell, run.id))
        for cell_id, place, name, mean, count in fetch(connection, query):
            means[index[cell_id], place, name] = float(mean), int(count)
    return means


def block_counters(
    engine: Engine, run: RunHandle, cells: Collection[int], only: tuple[str, str] | None = None
) -> BlockCounters:
    """Return the counts in trials of these cells that went well, warm-up left out, by block. cells: their indices.

    only: place and name of the one counter that is wanted.
    """
    trial, counter = schema.trial, schema.counter
    keys = (trial.c.cell_id, counter.c.place, counter.c.name, trial.c.block)
    query = select(*keys, func.avg(counter.c.value), func.count()).join_from(counter, trial)
    query = query.where(trial.c.run_id == run.id, ~trial.c.is_warmup, trial.c.status == "ok")
    if only:
        query = query.where(counter.c.place == only[0], counter.c.name == only[1])
    columns: dict[tuple[int, str, str], tuple[list[int], list[float], list[int]]] = {}
    with reading_rows(engine) as connection:
        ids = _ids(connection, schema.cell, run.id)
        wanted = trial.c.cell_id.in_([int(ids[cell]) for cell in cells])
        query = query.where(wanted).group_by(*keys).order_by(*keys)
        index = _index_of(ids)
        for cell_id, place, name, block, mean, count in fetch(connection, query):
            blocks, means, counts = columns.setdefault((index[cell_id], place, name), ([], [], []))
            blocks.append(block)
            means.append(mean)
            counts.append(count)
    by_counter = {}
    for key, (blocks, means, counts) in columns.items():
        arrays = np.array(blocks, np.int64), np.array(means, np.float64)
        by_counter[key] = (*arrays, sum(counts) / len(counts))
    return by_counter


def samples(engine: Engine, run: RunHandle) -> dict[int, dict[str, list[float]]]:
    """Return by trial id (as in Trials.id) and metric name the values within the trial, of trials that have them.

    Raises StoreError.
    """
    with reading_rows(engine) as connection:
        return lists_of_trials(connection, run.id, SAMPLES)


def effective(engine: Engine, run: RunHandle) -> dict[int, str]:
    """Return by trial id (as in Trials.id) the settings that were really in force, as a JSON object without LISTS.

    Raises StoreError.
    """
    table = schema.trial
    query = (
        select(table.c.id, cast(table.c.effective, Text))
        .where(table.c.run_id == run.id)
        .order_by(table.c.id)
    )
    with reading_rows(engine) as connection:
        rows = connection.execute(query)
        return {trial: plain_settings(text, without=LISTS) for trial, text in rows}


def guests_of_trials(engine: Engine, run: RunHandle) -> dict[int, int]:
    """Return by trial id (as in Trials.id) the number of its guest among those of the run, from 1.

    Raises StoreError.
    """
    table = schema.trial
    query = select(table.c.id, table.c.guest_id).where(
        table.c.run_id == run.id, table.c.guest_id.is_not(None)
    )
    with reading_rows(engine) as connection:
        index = _index_of(_ids(connection, schema.guest, run.id))
        return {trial: index[guest] + 1 for trial, guest in fetch(connection, query)}


def _read_trials(connection: Connection, run_id: int, cell_ids: Ints) -> Trials:
    columns = schema.trial.c
    query = (
        select(
            columns.id,
            columns.cell_id,
            columns.block,
            columns.number,
            columns.position,
            columns.is_warmup,
            columns.started_at,
            (columns.status == "ok").label("is_ok"),
            func.coalesce(columns.outside_s, -1.0).label("outside_s"),
            func.coalesce(columns.inside_s, -1.0).label("inside_s"),
            columns.session,
        )
        .where(columns.run_id == run_id)
        .order_by(columns.id)
    )
    kinds = ["i8", "i8", "i4", "i4", "i8", "?", "f8", "?", "f8", "f8", "i4"]
    rows = _fetch(connection, query, kinds)
    _refuse_infinite(rows, ("started_at", "outside_s", "inside_s"))
    outside_s, inside_s = rows["outside_s"], rows["inside_s"]
    return Trials(
        id=rows["id"].astype(np.int64),
        cell=_positions(cell_ids, rows["cell_id"], "cell"),
        block=rows["block"].astype(np.int64),
        number=rows["number"].astype(np.int64),
        position=rows["position"].astype(np.int64),
        is_warmup=rows["is_warmup"].astype(np.bool_),
        is_ok=rows["is_ok"].astype(np.bool_),
        started_at=rows["started_at"].astype(np.float64),
        outside_s=np.where(outside_s < 0, np.nan, outside_s),
        inside_s=np.where(inside_s < 0, np.nan, inside_s),
        session=rows["session"].astype(np.int64),
    )


def _read_measurements(connection: Connection, run_id: int, trials: Trials) -> Measurements:
    table, trial = schema.measurement, schema.trial
    metric_ids = _ids(connection, schema.metric, run_id)
    query = select(table.c.trial_id, table.c.metric_id, table.c.value).order_by(
        table.c.trial_id, table.c.metric_id
    )
    if trials.id.size:
        # one range of the clustered table; other runs that were stored meanwhile drop out below
        query = query.where(table.c.trial_id.between(int(trials.id[0]), int(trials.id[-1])))
    else:
        own = select(trial.c.id).where(trial.c.run_id == run_id)
        query = query.where(table.c.trial_id.in_(own))
    rows = _fetch(connection, query, ["i8", "i8", "f8"])
    _refuse_infinite(rows, ("value",))
    index = np.searchsorted(trials.id, rows["trial_id"])
    is_own = np.zeros(rows.size, np.bool_)
    if trials.id.size:
        is_own = trials.id[index] == rows["trial_id"]
    return Measurements(
        trial=index[is_own].astype(np.int64),
        metric=_positions(metric_ids, rows["metric_id"][is_own], "metric"),
        value=rows["value"][is_own].astype(np.float64),
    )


def _read_guests(connection: Connection, run: RunHandle) -> tuple[GuestRow, ...]:
    table, platform = schema.guest, schema.platform
    query = select(table, platform.c.name.label("platform")).join_from(table, platform)
    query = query.where(table.c.run_id == run.id).order_by(table.c.id)
    known = {record.name for record in run.platforms}
    guests = []
    for row in fetch(connection, query):
        if row.platform not in known:
            raise ValueError(f"a guest is of {row.platform}, which is no platform of this run")
        guests.append(
            GuestRow(
                row.platform,
                row.block,
                row.topology,
                row.ready_s,
                row.clock_offset_s,
                row.facts,
                tuple(map(restored, row.notes)),
                restored(row.error),
            )
        )
    return tuple(guests)


def _read_warnings(connection: Connection, run_id: int, cell_ids: Ints) -> tuple[WarningRow, ...]:
    table, trial = schema.warning, schema.trial
    index = _index_of(cell_ids)
    is_used = (trial.c.block.is_(None)) | (trial.c.block >= 0) | (table.c.code == CLOCK_RATE)
    data = cast(table.c.data, Text)
    query = (
        select(table.c.code, data, table.c.cell_id, func.count())
        .join_from(table, trial, table.c.trial_id == trial.c.id, isouter=True)
        .where(table.c.run_id == run_id, is_used)
        .group_by(table.c.code, data, table.c.cell_id)
        .order_by(func.min(table.c.id))
    )
    rows = []
    for code, text, cell_id, times in connection.execute(query):
        cell = None if cell_id is None else index[cell_id]
        rows.append(WarningRow(note_in(code, parse_json(text)), cell, times))
    return tuple(rows)


def _read_failures(connection: Connection, run_id: int, cell_ids: Ints) -> tuple[FailureRow, ...]:
    table = schema.trial
    index = _index_of(cell_ids)
    query = (
        select(table.c.cell_id, table.c.block, table.c.number, table.c.is_warmup, table.c.error)
        .where(table.c.run_id == run_id, table.c.status != "ok")
        .order_by(table.c.position)
    )
    failures = []
    for cell_id, block, number, is_warmup, error in fetch(connection, query):
        failures.append(FailureRow(index[cell_id], block, number, is_warmup, restored(error)))
    return tuple(failures)


def _positions(ids: Ints, wanted: Any, what: str) -> Ints:
    """Return where each of the wanted ids stands among the sorted ones. Raises ValueError for one that is not there."""
    index: Ints = np.searchsorted(ids, wanted).astype(np.int64)
    if wanted.size and (index.max() >= ids.size or (ids[index] != wanted).any()):
        raise ValueError(f"a trial refers to a {what} that this run does not have")
    return index


def _refuse_infinite(rows: NDArray[Any], names: Sequence[str]) -> None:
    for name in names:
        limit = LATEST if name == "started_at" else np.inf
        if not np.isfinite(rows[name]).all() or (np.abs(rows[name]) > limit).any():
            raise ValueError(f"{name} of a trial is no time or value")


def _ids(connection: Connection, table: Any, run_id: int) -> Ints:
    query = select(table.c.id).where(table.c.run_id == run_id).order_by(table.c.id)
    return np.array(connection.execute(query).scalars().all(), np.int64)


def _index_of(ids: Ints) -> dict[int, int]:
    return {row_id: index for index, row_id in enumerate(ids.tolist())}


def _fetch(connection: Connection, query: Select[Any], kinds: list[str]) -> NDArray[Any]:
    """Return rows of a query as one structured array, filled straight from the driver's cursor."""
    sql = str(query.compile(connection, compile_kwargs={"literal_binds": True}))
    names = [column.key for column in query.selected_columns]
    dtype = np.dtype(list(zip(names, kinds, strict=True)))
    cursor = connection.connection.cursor()
    try:
        cursor.execute(sql)
        return np.fromiter(cursor, dtype=dtype)  # type: ignore[call-overload, no-any-return]
    finally:
        cursor.close()
