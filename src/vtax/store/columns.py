"""The trials and measurements of a run as columns: what reports read of a run that is not under way.

Rows are the record: what is measured is written as rows, and SQL, bundles and whatever refers to a trial read them.
Columns repeat them, as an index does. They are made of the rows where a run ends or is imported, in that transaction,
and dropped before its rows change. A run without columns is read from its rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    Text,
    bindparam,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
)

from vtax.stats.means import grouped
from vtax.store import schema
from vtax.store.parts import NUMBERS, numbered, of_run, parts_of
from vtax.store.records import LISTS

Columns = Mapping[str, NDArray[Any]]
TRIAL = {
    "has_lists": "?",
    "id": "i8",
    "cell_id": "i8",
    "block": "i4",
    "number": "i4",
    "position": "i8",
    "is_warmup": "?",
    "is_ok": "?",
    "started_at": "f8",
    "outside_s": "f8",
    "inside_s": "f8",
    "session": "i4",
}
"""Columns of trials. outside_s, inside_s: -1 where not known. has_lists: it may have some of records.LISTS."""
MEASUREMENT = {"trial": "i4", "metric_id": "i8", "value": "f8"}
"""Columns of measurements, by trial and metric. trial: place of the trial among those of the run, from 0."""
_WHOLE = ("|i1", "<i2", "<i4", "<i8")
_KINDS = {"?": ("|b1",), "f8": ("<f8",), "i4": _WHOLE, "i8": _WHOLE}  # that a column is stored as
_TRIALS_AT_ONCE = 1 << 16  # whose columns are one row each
_COMPRESSION = 1  # of whole numbers, most of which repeat; digits of a measured value do not


def read_columns(connection: Connection, run_id: int) -> dict[str, NDArray[Any]]:
    """Return the columns of a run: those of its parts one after the other, by the ids of trials within each.

    Numbers of trials are those in the run. Raises ValueError for columns that are damaged.
    """
    parts = parts_of(connection, run_id)
    rows: dict[int, Columns] = {}  # of the parts without columns
    columns: dict[str, NDArray[Any]] = {}
    lengths: dict[str, list[int]] = {}  # of each part
    for name, kind in (TRIAL | MEASUREMENT).items():  # in turn, so that few pieces are held
        columns_by_size = _stored(connection, run_id, name)
        pieces = [np.zeros(0, "i1" if "i" in kind else kind)]
        sizes, offsets = [], []
        for part in parts:
            if not columns and part.place not in columns_by_size:  # of the first one
                rows[part.place] = _of_rows(connection, run_id, part.place)
            if part.place in rows:
                of_part = [rows[part.place][name]]
                offsets.append(0)
            else:
                of_part = columns_by_size.pop(part.place, [])
                offsets.append(getattr(part, name) if name in NUMBERS else 0)
            sizes.append(sum(piece.size for piece in of_part))
            pieces += of_part
        column = np.concatenate(pieces)
        if name == "trial":
            offsets = [0, *accumulate(lengths["id"])][:-1]
        if any(offsets):
            to_add = np.repeat(np.array(offsets, kind), sizes)
            if name in ("block", "number"):  # see parts.numbered
                is_before = (columns["block"] if name == "number" else column) < 0
                to_add[is_before if name == "block" else ~is_before] = 0
            column = column + to_add
        if name not in ("cell_id", "metric_id"):  # of which indices are made
            column = column.astype(kind, copy=False)
        columns[name], lengths[name] = column, sizes
    _check(columns, lengths)
    return columns


def _check(columns: Columns, lengths: Mapping[str, list[int]]) -> None:
    """Raise ValueError for columns that do not belong together. lengths: of each part."""
    for names in (TRIAL, MEASUREMENT):
        if len({tuple(lengths[name]) for name in names}) > 1:
            raise ValueError("columns of a run are of unequal length")
    places = columns["trial"]
    if places.size and not 0 <= places.min() <= places.max() < columns["id"].size:
        raise ValueError("a measurement is of a trial that is not there")


def _of_rows(connection: Connection, run_id: int, place: int) -> Columns:
    """Return the columns of one part of a run from its rows."""
    trials = trial_rows(connection, run_id, schema.part.c.place == place)
    return {**trials, **measurement_rows(connection, trials)}


def _stored(connection: Connection, run_id: int, name: str) -> dict[int, list[NDArray[Any]]]:
    """Return by place of a part the pieces of one of its columns, in their order."""
    table, part = schema.run_column, schema.part
    query = select(part.c.place, table.c.place, table.c.kind, table.c.content)
    query = query.join_from(part, table, table.c.run_id == part.c.member_id)
    query = query.where(part.c.run_id == run_id, table.c.name == name)
    columns: dict[int, dict[int, NDArray[Any]]] = {}
    for of_part, place, kind, content in connection.execute(query):
        columns.setdefault(of_part, {})[place] = _unpacked(name, kind, content)
    pieces = {}
    for of_part, of_place in columns.items():
        pieces[of_part] = [of_place[place] for place in sorted(of_place)]
    return pieces


def write_columns(connection: Connection, run_id: int) -> None:
    """Make the columns of a run, in place of those that it has. It is no merged one."""
    drop_columns(connection, run_id)
    trials = trial_rows(connection, run_id)
    for place, first in enumerate(range(0, trials["id"].size, _TRIALS_AT_ONCE)):
        part_of_trials = {
            name: column[first : first + _TRIALS_AT_ONCE] for name, column in trials.items()
        }
        measurements = measurement_rows(connection, part_of_trials)
        measurements["trial"] = measurements["trial"] + first
        rows = []
        for name, column in {**part_of_trials, **measurements}.items():
            key = {"run_id": run_id, "name": name, "place": place}
            rows.append({**key, **_packed(column)})
        connection.execute(insert(schema.run_column), rows)


def drop_columns(connection: Connection, run_id: int) -> None:
    """Remove the columns of a run."""
    table = schema.run_column
    connection.execute(delete(table).where(table.c.run_id == run_id))


def trial_rows(
    connection: Connection, run_id: int, *conditions: ColumnElement[bool]
) -> dict[str, NDArray[Any]]:
    """Return the columns TRIAL from the rows of a run for which the conditions hold, by part and id."""
    columns = schema.trial.c
    effective = cast(columns.effective, Text)
    has_list = [effective.contains(f'"{name}"', autoescape=True) for name in LISTS]
    query = select(
        or_(*has_list).label("has_lists"),
        columns.id,
        columns.cell_id,
        numbered(columns.block),
        numbered(columns.number),
        numbered(columns.position),
        columns.is_warmup,
        (columns.status == "ok").label("is_ok"),
        columns.started_at,
        func.coalesce(columns.outside_s, -1.0).label("outside_s"),
        func.coalesce(columns.inside_s, -1.0).label("inside_s"),
        numbered(columns.session),
        schema.part.c.place,
    ).where(of_run(schema.trial, run_id), *conditions)
    rows = fetch_array(connection, query, [*TRIAL.values(), "i4"])
    order = np.lexsort((rows["id"], rows["place"]))
    return {name: rows[name][order] for name in TRIAL}


def measurement_rows(connection: Connection, trials: Columns) -> dict[str, NDArray[Any]]:
    """Return the columns MEASUREMENT of trials, those of each session from one range of the clustered table."""
    table = schema.measurement
    first_id, last_id = bindparam("first", type_=Integer), bindparam("last", type_=Integer)
    query = (
        select(table.c.trial_id, table.c.metric_id, table.c.value)
        .where(table.c.trial_id.between(first_id, last_id))
        .order_by(table.c.trial_id, table.c.metric_id)
    )
    pieces = {name: [np.zeros(0, kind)] for name, kind in MEASUREMENT.items()}
    starts = np.flatnonzero(np.diff(trials["session"], prepend=0)).tolist()
    for start, end in pairwise([*starts, trials["id"].size]):
        ids = trials["id"][start:end]
        between = {"first": int(ids[0]), "last": int(ids[-1])}
        rows = fetch_array(connection, query, ["i8", "i8", "f8"], **between)
        distinct, _, counts = grouped(rows["trial_id"])
        place = np.searchsorted(ids, distinct)
        is_own = np.repeat(ids[place] == distinct, counts)  # others were stored meanwhile
        pieces["trial"].append(np.repeat(place, counts)[is_own] + start)
        pieces["metric_id"].append(rows["metric_id"][is_own])
        pieces["value"].append(rows["value"][is_own])
    return {name: np.concatenate(arrays) for name, arrays in pieces.items()}


def fetch_array(
    connection: Connection, query: Select[Any], kinds: list[str], **values: int
) -> NDArray[Any]:
    """Return rows of a query as one structured array, filled straight from the driver's cursor."""
    names = [column.key for column in query.selected_columns]
    dtype = np.dtype(list(zip(names, kinds, strict=True)))
    with connection.execute(query, values) as result:
        return np.fromiter(result.cursor, dtype=dtype)  # type: ignore[call-overload, no-any-return]


def _packed(column: NDArray[Any]) -> dict[str, Any]:
    """Return a column as its row has it: little-endian, whole numbers in the fewest bytes, compressed."""
    if column.dtype.kind == "f":
        return {"kind": "<f8", "content": column.astype("<f8").tobytes()}
    if column.dtype.kind == "i":
        low, high = int(column.min(initial=0)), int(column.max(initial=0))
        fitting = [
            kind for kind in _WHOLE if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max
        ]
        column = column.astype(fitting[0])
    return {
        "kind": column.dtype.str,
        "content": zlib.compress(column.tobytes(), _COMPRESSION),
    }


def _unpacked(name: str, kind: str, content: bytes) -> NDArray[Any]:
    """Return a column from its row. Raises ValueError and zlib.error for a damaged one."""
    types = {**TRIAL, **MEASUREMENT}
    if name not in types or kind not in _KINDS[types[name]]:
        raise ValueError("a column of a run is an unknown one")
    return np.frombuffer(content if kind == "<f8" else zlib.decompress(content), kind)
