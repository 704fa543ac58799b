"""A run as rows that refer to each other by their place: out of one store, into a file or another store.

A row is (name of its table, column -> value), without `id` and `run_id`. A reference to a row is its number among
those of its table, from 1. Rows come table by table, in an order in which every reference points backwards.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    JSON,
    Connection,
    LargeBinary,
    Select,
    Table,
    Text,
    cast,
    func,
    null,
    select,
    text,
)

from vtax.errors import StoreBusy
from vtax.store import schema
from vtax.store.parts import KEYS, add_itself, indices, numbered, of_run, parts_of

Row = tuple[str, dict[str, Any]]
Values = tuple[str, Sequence[Any]]
"""A row as a driver takes and gives it, JSON as text: its table, and the values of its `portable_columns`."""

Watch = Callable[[str, Iterable[Any]], Iterable[Any]]
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
_AT_ONCE = 1000  # rows of one statement, or fetched at once
_AT_ONCE_CHARS = 1 << 18  # of the texts and JSON values of these rows


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

    def __init__(self, count_before: int = 0) -> None:
        self._before = count_before
        self._ids = array("q")
        self.add = self._ids.append
        self.extend = self._ids.extend

    def __len__(self) -> int:
        return len(self._ids)

    def id_of(self, number: int) -> int:
        """Return the id of a row by its number, from 1 to the number of rows."""
        return self._ids[number - 1]

    def ids_of(self, numbers: Iterable[int]) -> list[int]:
        """Return the ids of rows by such numbers."""
        ids = self._ids
        return [ids[number - 1] for number in numbers]

    def number_of(self, row_id: int) -> int:
        """Return the number of a row by its id, where ids ascend. Raises ValueError when it is not there."""
        index = bisect_left(self._ids, row_id)
        if index == len(self._ids) or self._ids[index] != row_id:
            raise ValueError(f"row {row_id} is not there")
        return self._before + index + 1


def large_columns(table: Table) -> list[str]:
    """Return the columns of a table whose values may be large: outputs, texts, JSON."""
    columns = []
    for name in portable_columns(table):
        if isinstance(table.c[name].type, JSON | LargeBinary | Text):
            columns.append(name)
    return columns


def rows_of(connection: Connection, run_id: int) -> Iterator[Row]:
    """Yield the rows of a run, with those of its parts, as they are stored: not checked, outputs compressed."""
    places = {}
    for name in KEYS:
        own_places = indices(connection, schema.metadata.tables[name], run_id)
        places[name] = {row_id: place + 1 for row_id, place in own_places.items()}
    ids: dict[tuple[str, int], Ids] = {}
    parts = parts_of(connection, run_id)
    for name in ORDER:
        targets = references(schema.metadata.tables[name])
        count = 0
        for part in parts if name in _OF_PARTS else parts[-1:]:
            own_ids = ids[name, part.place] = Ids(count)
            numbers: list[tuple[str, Callable[[int], int]]] = []
            for column, target in targets.items():
                if target in places:
                    numbers.append((column, places[target].__getitem__))
                else:
                    numbers.append((column, ids[target, part.place].number_of))
            for row_id, row in _rows_of_part(connection, name, part):
                for column, number_of in numbers:
                    if row[column] is not None:
                        row[column] = number_of(row[column])
                if row_id is not None:
                    own_ids.add(row_id)
                yield name, row
            count += len(own_ids)


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
    query_in_order = query.order_by(*table.primary_key.columns)
    options = {"yield_per": _at_once(connection, table, query)}
    result = connection.execute(query_in_order, execution_options=options)
    for batch in result.partitions():
        for row_id, *values in batch:
            yield row_id, dict(zip(names, values, strict=True))


def own_values(connection: Connection) -> Iterator[Values]:
    """Yield the rows of the one run of a store as its driver gives them, where ids are from 1 without a gap."""
    for name in ORDER:
        table = schema.metadata.tables[name]
        order = ", ".join(column.name for column in table.primary_key.columns)
        columns = ", ".join(portable_columns(table))
        query = f"SELECT {columns} FROM {table} ORDER BY {order}"
        for row in connection.connection.cursor().execute(query):
            yield name, row


def _at_once(connection: Connection, table: Table, query: Select[Any]) -> int:
    """Return how many rows of a query can be fetched at once: their texts are bounded together."""
    columns = [table.c[name] for name in large_columns(table)]
    if not columns:
        return _AT_ONCE
    if any(isinstance(column.type, LargeBinary) for column in columns):
        return 1
    lengths = [func.coalesce(func.max(func.length(cast(column, Text))), 0) for column in columns]
    longest = sum(connection.execute(query.with_only_columns(*lengths)).one())
    return max(1, min(_AT_ONCE, _AT_ONCE_CHARS // (longest + 1)))


def add_rows(
    connection: Connection,
    rows: Iterable[Values],
    check: Callable[[str, list[Sequence[Any]]], None] = lambda table, columns: None,
) -> int:
    """Insert the rows of one run, a part at a time; returns its id.

    rows: see `Values`.
    check: is given the name of a table and, for each of its `portable_columns`, the values of some rows, which it may
    replace.
    Raises ValueError for a reference to a row that is not there, and for tables in another order; RunIsThere.
    """
    ids: dict[str, Ids] = {}
    run_id = 0
    for name, group in groupby(rows, key=itemgetter(0)):
        if name not in ORDER or name in ids or (name != "run") != bool(run_id):
            raise ValueError(f"rows of {name} are not where they belong")
        table = schema.metadata.tables[name]
        names = portable_columns(table)
        targets = references(table)
        large = [names.index(column) for column in large_columns(table)]
        own_ids = ids[name] = Ids()
        for batch in _batches(map(itemgetter(1), group), large):
            columns: list[Sequence[Any]] = list(zip(*batch, strict=True))
            check(name, columns)
            for column, target in targets.items():
                place = names.index(column)
                columns[place] = _referred(columns[place], target, ids.get(target) or Ids())
            by_name = dict(zip(names, columns, strict=True))
            if name == "run":
                own_ids.extend(_add_runs(connection, by_name))
                continue
            if "run_id" in table.c:
                by_name["run_id"] = [run_id] * len(batch)
            if "id" in table.c:
                by_name["id"] = _new_ids(connection, name, len(batch))
                own_ids.extend(by_name["id"])
            _add_plain(connection, name, by_name)
        if name == "run":
            if len(own_ids) != 1:
                raise ValueError(f"{len(own_ids)} runs")
            run_id = own_ids.id_of(1)
    if not run_id:
        raise ValueError("no run")
    return run_id


def _batches(rows: Iterable[Sequence[Any]], large: Sequence[int]) -> Iterator[list[Sequence[Any]]]:
    """Yield rows in parts of bounded number and size. large: places of the columns that count."""
    if not large:
        iterator = iter(rows)
        while batch := list(islice(iterator, _AT_ONCE)):
            yield batch
        return
    waiting, size = list[Sequence[Any]](), 0
    for row in rows:
        waiting.append(row)
        for place in large:
            size += _size(row[place])
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


def _add_runs(connection: Connection, columns: Mapping[str, Sequence[Any]]) -> Iterator[int]:
    """Insert runs; yields their ids. Waits for another process that inserts one of the same identity or name.

    Raises RunIsThere when that one was stored.
    """
    mark = "%s" if connection.dialect.name == "postgresql" else "?"
    into = f"run ({', '.join(columns)}) VALUES ({', '.join(mark for _ in columns)})"
    statement = f"INSERT INTO {into} ON CONFLICT DO NOTHING RETURNING id"
    for row in zip(*columns.values(), strict=True):
        run_id = connection.exec_driver_sql(statement, row).scalar()
        if run_id is None:
            raise RunIsThere(row[list(columns).index("name")])
        add_itself(connection, int(run_id))
        yield int(run_id)


def _new_ids(connection: Connection, table: str, count: int) -> Sequence[int]:
    """Return the ids of rows that are inserted next, ascending."""
    if connection.dialect.name == "postgresql":
        query = text(f"SELECT nextval('{table}_id_seq') FROM generate_series(1, :count)")
        return sorted(connection.execute(query, {"count": count}).scalars())
    last_id = connection.exec_driver_sql(f"SELECT max(id) FROM {table}").scalar() or 0
    return range(last_id + 1, last_id + 1 + count)


def _add_plain(connection: Connection, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
    """Insert rows, as the driver takes them."""
    into = f"{table} ({', '.join(columns)})"
    rows = zip(*columns.values(), strict=True)
    if connection.dialect.name == "postgresql":
        cursor: Any = connection.connection.cursor()
        with cursor, cursor.copy(f"COPY {into} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        return
    marks = ", ".join("?" * len(columns))
    connection.exec_driver_sql(f"INSERT INTO {into} VALUES ({marks})", list(rows))


def _referred(numbers: Sequence[Any], table: str, ids: Ids) -> Sequence[int | None]:
    """Return the ids of other rows for their numbers. Raises ValueError where there is none."""
    count = len(ids)
    if set(map(type, numbers)) == {int} and min(numbers) > 0 and max(numbers) <= count:
        return ids.ids_of(numbers)
    referred: list[int | None] = []
    for number in numbers:
        if number is None:
            referred.append(None)
        elif type(number) is int and 0 < number <= count:
            referred.append(ids.id_of(number))
        else:
            raise ValueError(f"{table} {str(number)[:20]} is not there")
    return referred
