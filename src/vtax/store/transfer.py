"""A run as rows that refer to each other by their place: out of one store, into a file or another store.

A row is (name of its table, column -> value), without `id` and `run_id`. A reference to a row is its number among
those of its table, from 1. Rows come table by table, in an order in which every reference points backwards.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import JSON, Connection, LargeBinary, Table, Text, insert, null, select

from vtax.errors import StoreBusy
from vtax.store import schema
from vtax.store.database import insert_new
from vtax.store.parts import KEYS, add_itself, indices, numbered, of_run, parts_of

Row = tuple[str, dict[str, Any]]
Watch = Callable[[str, Iterable[Row]], Iterable[Row]]
"""Shows progress: (what is done with them, rows) -> the same rows."""
ORDER = (
    "run",
    "session",
    "platform",
    "cell",
    "metric",
    "guest",
    "trial",
    "output",
    "measurement",
    "counter",
    "warning",
)
_OF_TRIALS = ("output", "measurement", "counter")
_OF_PARTS = ("guest", "trial", *_OF_TRIALS, "warning")
_AT_ONCE = 1000  # rows of one statement, fewer where they are large
_AT_ONCE_LARGE = 1  # rows that are fetched at once where one may be large
_AT_ONCE_CHARS = 1 << 18  # of the texts and JSON values of the rows of one statement


class RunIsThere(StoreBusy):
    """A run of this identity or name was stored by another process a moment ago; nothing was added."""

    def __init__(self, name: str) -> None:
        super().__init__(f"another process stores {name}, or a run of that name", hint="try again")


def unwatched(_: str, rows: Iterable[Row]) -> Iterable[Row]:
    """Return the rows; no progress is shown."""
    return rows


def references(table: Table) -> dict[str, str]:
    """Return the table that each column refers to, without the run."""
    targets = {}
    for column in table.columns:
        for key in column.foreign_keys:
            if key.column.table.name != "run":
                targets[column.name] = key.column.table.name
    return targets


def portable_columns(table: Table) -> list[str]:
    """Return the columns of a table that a row has."""
    return [column.name for column in table.columns if column.name not in ("id", "run_id")]


class Ids:
    """The ids of the rows of a table, in their order; a row has the number of its place, from 1.

    before: how many rows come before them.
    """

    def __init__(self, before: int = 0) -> None:
        self._before = before
        self._ids = array("q")
        self.add = self._ids.append

    def __len__(self) -> int:
        return len(self._ids)

    def id_of(self, number: int) -> int:
        """Return the id of a row by its number, from 1 to the number of rows."""
        return self._ids[number - 1]

    def number_of(self, row_id: int) -> int:
        """Return the number of a row by its id, where ids ascend. Raises ValueError when it is not there."""
        index = bisect_left(self._ids, row_id)
        if index == len(self._ids) or self._ids[index] != row_id:
            raise ValueError(f"row {row_id} is not there")
        return self._before + index + 1


def large_columns(table: Table) -> list[str]:
    """Return the columns of a table whose values may be large: outputs, texts, JSON."""
    large = []
    for name in portable_columns(table):
        if isinstance(table.c[name].type, JSON | LargeBinary | Text):
            large.append(name)
    return large


def rows_of(connection: Connection, run_id: int) -> Iterator[Row]:
    """Yield the rows of a run, with those of its parts, as they are stored: not checked, outputs compressed."""
    places = {name: indices(connection, schema.metadata.tables[name], run_id) for name in KEYS}
    ids: dict[tuple[str, int], Ids] = {}
    parts = parts_of(connection, run_id)
    for name in ORDER:
        targets = references(schema.metadata.tables[name])
        count = 0
        for part in parts if name in _OF_PARTS else parts[-1:]:
            own = ids[name, part.place] = Ids(count)
            for row_id, row in _rows_of_part(connection, name, part):
                for column, target in targets.items():
                    if row[column] is None:
                        continue
                    if target in places:
                        row[column] = places[target][row[column]] + 1
                    else:
                        row[column] = ids[target, part.place].number_of(row[column])
                if row_id is not None:
                    own.add(row_id)
                yield name, row
            count += len(own)


def _rows_of_part(
    connection: Connection, name: str, part: Any
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a table of one part of a run, each after its id; None for a table without one."""
    table, trial = schema.metadata.tables[name], schema.trial
    names = portable_columns(table)
    columns = [numbered(table.c[column]) for column in names]
    query = select(table.c.get("id", null()), *columns)
    if name == "run":
        query = query.where(table.c.id == part.member_id)
    elif name in _OF_TRIALS:
        trials = select(trial.c.id).where(trial.c.run_id == part.member_id)
        query = query.where(table.c.trial_id.in_(trials))
    else:
        query = query.where(of_run(table, part.run_id), schema.part.c.place == part.place)
    at_once = _AT_ONCE_LARGE if large_columns(table) else _AT_ONCE
    result = connection.execute(
        query.order_by(*table.primary_key.columns), execution_options={"yield_per": at_once}
    )
    for batch in result.partitions():
        for row_id, *values in batch:
            yield row_id, dict(zip(names, values, strict=True))


def add_rows(connection: Connection, rows: Iterable[Row]) -> int:
    """Insert the rows of one run, a part at a time; returns its id.

    Raises ValueError for a reference to a row that is not there, and for tables in another order; RunIsThere.
    """
    ids: dict[str, Ids] = {}
    run_id = 0
    for name, group in groupby(rows, key=lambda row: row[0]):
        if name not in ORDER or name in ids or (name != "run") != bool(run_id):
            raise ValueError(f"rows of {name} are not where they belong")
        table = schema.metadata.tables[name]
        targets = references(table)
        own = ids[name] = Ids()
        for batch in _batches((row for _, row in group), large_columns(table)):
            for row in batch:
                for column, target in targets.items():
                    row[column] = _id(ids, target, row[column])
                if "run_id" in table.c:
                    row["run_id"] = run_id
            if name == "run":
                for row in batch:
                    own.add(_add_run(connection, row))
            elif "id" in table.c:
                statement = insert(table).returning(table.c.id, sort_by_parameter_order=True)
                for row_id in connection.execute(statement, batch).scalars():
                    own.add(int(row_id))
            else:
                _add_plain(connection, table, batch)
        if name == "run":
            if len(own) != 1:
                raise ValueError(f"{len(own)} runs")
            run_id = own.id_of(1)
    if not run_id:
        raise ValueError("no run")
    return run_id


def _batches(
    rows: Iterable[dict[str, Any]], large: Sequence[str]
) -> Iterator[list[dict[str, Any]]]:
    """Yield rows in parts of bounded number and size. large: the columns that count."""
    waiting, size = list[dict[str, Any]](), 0
    for row in rows:
        waiting.append(row)
        size += sum(_size(row[name]) for name in large)
        if len(waiting) >= _AT_ONCE or size >= _AT_ONCE_CHARS:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _size(value: Any) -> int:
    """Return about how many characters or bytes a value has."""
    if isinstance(value, str | bytes):
        return len(value)
    return len(repr(value)) if value else 0


def _add_run(connection: Connection, row: Mapping[str, Any]) -> int:
    """Insert a run; returns its id. Waits for another process that inserts one of its identity or name.

    Raises RunIsThere when that one was stored.
    """
    statement = insert_new(connection, schema.run).returning(schema.run.c.id)
    run_id = connection.execute(statement, dict(row)).scalar()
    if run_id is None:
        raise RunIsThere(row["name"])
    add_itself(connection, int(run_id))
    return int(run_id)


def _add_plain(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of a table without `id`, whose columns are plain numbers and texts: as the driver takes them."""
    if connection.dialect.name == "postgresql":
        columns = list(rows[0])
        cursor: Any = connection.connection.cursor()
        with cursor, cursor.copy(f"COPY {table.name} ({', '.join(columns)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row([row[name] for name in columns])
        return
    statement = insert(table).values(dict.fromkeys(rows[0])).compile(dialect=connection.dialect)
    names = statement.positiontup
    parameters: Any = list(map(dict, rows))
    if names:
        parameters = [tuple(row[name] for name in names) for row in rows]
    connection.exec_driver_sql(str(statement), parameters)


def _id(ids: Mapping[str, Ids], table: str, number: Any) -> int | None:
    """Return the id of a row by its number. Raises ValueError when there is none."""
    if number is None:
        return None
    if type(number) is not int or not 0 < number <= len(ids.get(table, ())):
        raise ValueError(f"{table} {str(number)[:20]} is not there")
    return ids[table].id_of(number)
