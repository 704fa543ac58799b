"""Queries of reports: a whole run as arrays, fetched in one pass without Python code per measurement."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Select,
    Text,
    cast,
    func,
    select,
)

from vtax.described import Means
from vtax.foreign_data import parse_json
from vtax.messages import Note, note_in, restored
from vtax.question import Selection
from vtax.store import schema
from vtax.store.columns import (
    Columns,
    fetch_array,
    measurement_rows,
    read_columns,
    trial_rows,
)
from vtax.store.parts import indices, numbered, of_run
from vtax.store.records import CLOCK_RATE, HISTOGRAMS, LISTS, RESOLUTIONS, SAMPLES
from vtax.store.rows import fetch, plain_settings, reading_rows
from vtax.store.run import RunHandle, lists_of_trials, unpack

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_AT_ONCE = 50  # trials whose outputs are held in memory
_TRIALS_AT_ONCE = 1 << 16  # whose measurements are held in memory by `in_order`
_IDS_AT_ONCE = 1 << 16  # that are looked up
_AFTER_LAST = 1 << 60  # no trial has that position
LATEST = 1e11  # of all moments, Unix time


@dataclass(frozen=True)
class Trials:
    """Every trial of a run as parallel arrays, in the order they were stored in; those of a merged run by its parts.

    Whole numbers but id and position have 32 bits, since a run may have many millions of trials.

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
        columns = {
            column.name: getattr(self.trials, column.name)[kept] for column in fields(Trials)
        }
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
        cells = _cells_of(connection, run)
        columns = read_columns(connection, run.id)
        metrics = indices(connection, schema.metric, run.id)
        measurements = _measurements_of(metrics, columns)
        has_lists = bool(columns["has_lists"].any())
        trials = _trials_of(run, cells, columns)
        return RunData(
            run,
            trials,
            measurements,
            _read_guests(connection, run),
            _read_warnings(connection, run.id, cells),
            () if trials.is_ok.all() else _read_failures(connection, run.id, cells),
            lists_of_trials(connection, run.id, HISTOGRAMS) if has_lists else {},
            lists_of_trials(connection, run.id, RESOLUTIONS) if has_lists else {},
        )


def in_order(
    engine: Engine, run: RunHandle, at_once: int = _TRIALS_AT_ONCE
) -> Iterator[tuple[RunData, Mapping[int, str]]]:
    """Yield trials, measurements and failures of a run, and what `effective` returns of its trials.

    They come part by part in the order in which they happened; of a run without trials one part is empty. at_once:
    trials of a part, and more only where they have one position.

    Raises StoreError.
    """
    trial, offset = schema.trial, schema.part.c.position
    query = select(numbered(trial.c.position)).where(of_run(trial, run.id))
    with reading_rows(engine) as connection:
        cells = _cells_of(connection, run)
        metrics = indices(connection, schema.metric, run.id)
        failures = _read_failures(connection, run.id, cells)
        positions = np.sort(fetch_array(connection, query, ["i8"])["position"])
        firsts = np.unique(positions[::at_once]).tolist() or [0]
        for first, end in pairwise([*firsts, _AFTER_LAST]):
            is_within = trial.c.position.between(first - offset, end - 1 - offset)
            rows = trial_rows(connection, run.id, is_within)
            measured = measurement_rows(connection, rows)
            trials = _trials_of(run, cells, rows)
            data = RunData(run, trials, _measurements_of(metrics, measured), (), (), failures)
            yield data, _read_effective(connection, run.id, is_within)


def _cells_of(connection: Connection, run: RunHandle) -> dict[int, int]:
    """Return by the id of a cell where it stands among those of the run. Raises ValueError."""
    cells = indices(connection, schema.cell, run.id)
    if len({*cells.values()}) != len(run.cells):
        raise ValueError("cells are of platforms that are not there")
    return cells


def outputs(
    engine: Engine, run: RunHandle, trials: Collection[int] | None = None
) -> list[OutputRow]:
    """Return raw outputs of a run's trials, in the order they happened. trials: their ids; None for all.

    Raises StoreError.
    """
    trial, output = schema.trial, schema.output
    query = (
        select(
            numbered(trial.c.position),
            trial.c.cell_id,
            numbered(trial.c.block),
            numbered(trial.c.number),
            output.c.role,
            output.c.argv,
            output.c.status,
            output.c.stdout,
            output.c.stderr,
        )
        .join_from(output, trial)
        .where(of_run(trial, run.id))
        .order_by(numbered(trial.c.position), output.c.id)
    )
    if trials is not None:
        query = query.where(trial.c.id.in_(trials))
    rows = []
    with reading_rows(engine) as connection:
        index = indices(connection, schema.cell, run.id)
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
    engine: Engine, run: RunHandle, trials: Mapping[int, int]
) -> Iterator[list[OutputRow]]:
    """Yield the raw outputs of every trial, in this order; those of few trials are in memory.

    trials: the position of each -> its id.

    Raises StoreError.
    """
    positions = list(trials)
    for first in range(0, len(positions), _AT_ONCE):
        rows: dict[int, list[OutputRow]] = {
            position: [] for position in positions[first : first + _AT_ONCE]
        }
        for row in outputs(engine, run, [trials[position] for position in rows]):
            rows[row.position].append(row)
        yield from rows.values()


def counters(engine: Engine, run: RunHandle) -> dict[tuple[int, str, str], tuple[float, int]]:
    """Return by (cell index, place, name) the mean over the measured trials that went well, and their number."""
    cell, counter = schema.cell, schema.counter
    keys = (cell.c.key, counter.c.place, counter.c.name)
    query = _counted(run, *keys, func.avg(counter.c.value), func.count()).group_by(*keys)
    index = {record.key: number for number, record in enumerate(run.cells)}
    means = {}
    with reading_rows(engine) as connection:
        for key, place, name, mean, count in fetch(connection, query):
            means[index[key], place, name] = float(mean), int(count)
    return dict(sorted(means.items()))


def block_counters(engine: Engine, run: RunHandle, cells: Collection[int]) -> BlockCounters:
    """Return the counts in trials of these cells that went well, warm-up left out, by block. cells: their indices."""
    cell, counter, part = schema.cell, schema.counter, schema.part
    keys = (cell.c.key, counter.c.place, counter.c.name)
    query = _counted(
        run, *keys, numbered(schema.trial.c.block), func.avg(counter.c.value), func.count()
    )
    query = query.where(cell.c.key.in_([run.cells[number].key for number in cells]))
    columns: dict[tuple[int, str, str], tuple[list[int], list[float], list[int]]] = {}
    of_block = (part.c.place, part.c.block, schema.trial.c.block)
    index = {record.key: number for number, record in enumerate(run.cells)}
    with reading_rows(engine) as connection:
        for key, place, name, block, mean, count in fetch(
            connection, query.group_by(*keys, *of_block).order_by(*keys, *of_block)
        ):
            blocks, means, counts = columns.setdefault((index[key], place, name), ([], [], []))
            blocks.append(block)
            means.append(mean)
            counts.append(count)
    by_counter = {}
    for place_of, (blocks, means, counts) in sorted(columns.items()):
        arrays = np.array(blocks, np.int64), np.array(means, np.float64)
        by_counter[place_of] = (*arrays, sum(counts) / len(counts))
    return by_counter


def trial_counters(
    engine: Engine, trials: Collection[int], names: Collection[str]
) -> list[tuple[int, str, str, float]]:
    """Return (trial id, place, name, value) of the counters with these names in these trials. Raises StoreError."""
    columns = schema.counter.c
    query = select(columns.trial_id, columns.place, columns.name, columns.value)
    query = query.where(columns.trial_id.in_(trials), columns.name.in_(names))
    with reading_rows(engine) as connection:
        return [tuple(row) for row in fetch(connection, query)]


def _counted(run: RunHandle, *columns: Any) -> Select[Any]:
    """Return the query of columns of counters, cells and trials, of those trials that went well, warm-up left out."""
    trial, cell, counter = schema.trial, schema.cell, schema.counter
    query = select(*columns).join_from(cell, trial).join(counter)
    return query.where(of_run(cell, run.id), ~trial.c.is_warmup, trial.c.status == "ok")


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
    with reading_rows(engine) as connection:
        return _read_effective(connection, run.id)


def _read_effective(
    connection: Connection, run_id: int, *conditions: ColumnElement[bool]
) -> dict[int, str]:
    table = schema.trial
    query = (
        select(table.c.id, cast(table.c.effective, Text))
        .where(of_run(table, run_id), *conditions)
        .order_by(table.c.id)
    )
    plain: dict[str, str] = {}
    settings = {}
    for trial, text in connection.execute(query):
        if text not in plain:
            plain[text] = plain_settings(text, without=LISTS)
        settings[trial] = plain[text]
    return settings


def guests_of_trials(engine: Engine, run: RunHandle) -> dict[int, int]:
    """Return by trial id (as in Trials.id) the number of its guest among those of the run, from 1.

    Raises StoreError.
    """
    table, guest = schema.trial, schema.guest
    query = select(table.c.id, table.c.guest_id).where(
        of_run(table, run.id), table.c.guest_id.is_not(None)
    )
    guests = select(guest.c.id).where(of_run(guest, run.id))
    with reading_rows(engine) as connection:
        ids = connection.execute(guests.order_by(schema.part.c.place, guest.c.id)).scalars()
        numbers = {guest_id: number for number, guest_id in enumerate(ids, start=1)}
        return {trial: numbers[guest_id] for trial, guest_id in fetch(connection, query)}


def _trials_of(run: RunHandle, cells: Mapping[int, int], columns: dict[str, Any]) -> Trials:
    """Return the trials of a run, taken from their columns. cells: index by id. Raises ValueError."""
    _refuse_infinite(columns, ("started_at", "outside_s", "inside_s"))
    sessions = {session.number for session in run.sessions}
    if not sessions >= set(np.unique(columns["session"]).tolist()):
        raise ValueError("trials are of sessions that are not there")
    for name in ("outside_s", "inside_s"):
        columns[name] = np.where(columns[name] < 0, np.nan, columns[name])
    columns["cell"] = _indices_of(cells, columns.pop("cell_id"), "cell")
    return Trials(**{column.name: columns.pop(column.name) for column in fields(Trials)})


def _measurements_of(metrics: Mapping[int, int], columns: dict[str, Any]) -> Measurements:
    """Return the measurements of a run, taken from their columns. metrics: index by id. Raises ValueError."""
    _refuse_infinite(columns, ("value",))
    metric = _indices_of(metrics, columns.pop("metric_id"), "metric")
    return Measurements(columns.pop("trial"), metric, columns.pop("value"))


def _read_guests(connection: Connection, run: RunHandle) -> tuple[GuestRow, ...]:
    table, platform = schema.guest, schema.platform
    columns = [numbered(column) for column in table.c]
    query = select(*columns, platform.c.name.label("platform")).join_from(table, platform)
    query = query.where(of_run(table, run.id)).order_by(schema.part.c.place, table.c.id)
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


def _read_warnings(
    connection: Connection, run_id: int, cells: Mapping[int, int]
) -> tuple[WarningRow, ...]:
    table, trial, place = schema.warning, schema.trial, schema.part.c.place
    is_used = (trial.c.block.is_(None)) | (trial.c.block >= 0) | (table.c.code == CLOCK_RATE)
    data = cast(table.c.data, Text)
    query = (
        select(table.c.code, data, table.c.cell_id, func.count())
        .join_from(table, trial, table.c.trial_id == trial.c.id, isouter=True)
        .where(of_run(table, run_id), is_used)
        .group_by(place, table.c.code, data, table.c.cell_id)
        .order_by(place, func.min(table.c.id))
    )
    counts: dict[tuple[str, str, int | None], int] = {}
    for code, text, cell_id, times in connection.execute(query):
        key = (code, text, None if cell_id is None else cells[cell_id])
        counts[key] = counts.get(key, 0) + times
    rows = []
    for (code, text, cell), times in counts.items():
        rows.append(WarningRow(note_in(code, parse_json(text)), cell, times))
    return tuple(rows)


def _read_failures(
    connection: Connection, run_id: int, cells: Mapping[int, int]
) -> tuple[FailureRow, ...]:
    table = schema.trial
    block, number = numbered(table.c.block), numbered(table.c.number)
    query = (
        select(table.c.cell_id, block, number, table.c.is_warmup, table.c.error)
        .where(of_run(table, run_id), table.c.status != "ok")
        .order_by(numbered(table.c.position))
    )
    failures = []
    for cell_id, block, number, is_warmup, error in fetch(connection, query):
        failures.append(FailureRow(cells[cell_id], block, number, is_warmup, restored(error)))
    return tuple(failures)


def _indices_of(indices: Mapping[int, int], wanted: Any, what: str) -> Any:
    """Return the index of each of the wanted ids. indices: of ids. Raises ValueError for one that is not there."""
    known = np.array(sorted(indices.items()), np.int64).reshape(-1, 2)
    found = np.empty(wanted.size, np.int32)
    for first in range(0, wanted.size, _IDS_AT_ONCE):
        some = wanted[first : first + _IDS_AT_ONCE]
        place = np.searchsorted(known[:, 0], some)
        if place.max() >= len(known) or (known[place, 0] != some).any():
            raise ValueError(f"a trial refers to a {what} that this run does not have")
        found[first : first + _IDS_AT_ONCE] = known[place, 1]
    return found


def _refuse_infinite(rows: Columns, names: Sequence[str]) -> None:
    for name in names:
        low, high = rows[name].min(initial=0.0), rows[name].max(initial=0.0)
        limit = LATEST if name == "started_at" else np.finfo(np.float64).max
        if not -limit <= low <= high <= limit:  # a NaN is neither
            raise ValueError(f"{name} of a trial is no time or value")
