"""A run as rows that refer to each other by their place: out of one store, into a file or another store.

A row is (name of its table, column -> value), without `id` and `run_id`. A reference to a row is its number among
those of its table, from 1. Rows come table by table, in an order in which every reference points backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from vtax.store import schema

Row = tuple[str, dict[str, Any]]
Watch = Callable[[str, Iterable[Row]], Iterable[Row]]
"""Shows progress: (what is done with them, rows) -> the same rows."""
ORDER = (
    "run", "session", "platform", "cell", "metric", "guest", "trial", "output", "measurement", "counter", "warning",
)  # fmt: skip
_OF_TRIALS = ("output", "measurement", "counter")
_AT_ONCE = 1000  # rows of one statement; outputs, which are large, go one by one


def unwatched(_: str, rows: Iterable[Row]) -> Iterable[Row]:
    """No progress is shown."""
    return rows


def references(table: Table) -> dict[str, str]:
    """Column -> the table that it refers to, without the run."""
    found = {column.name: key.column.table.name for column in table.columns for key in column.foreign_keys}
    return {name: target for name, target in found.items() if target != "run"}


def portable_columns(table: Table) -> list[str]:
    """The columns of a table that a row has."""
    return [column.name for column in table.columns if column.name not in ("id", "run_id")]


def rows_of(connection: Connection, run_id: int) -> Iterator[Row]:
    """The rows of a run, as they are stored: not checked, outputs compressed."""
    numbers: dict[str, dict[int, int]] = {}
    of_run = select(schema.trial.c.id).where(schema.trial.c.run_id == run_id)
    for name in ORDER:
        table = schema.metadata.tables[name]
        names, targets = portable_columns(table), references(table)
        has_id = "id" in table.c
        query = select(*(table.c[column] for column in names), *([table.c.id] if has_id else []))
        query = query.order_by(*table.primary_key.columns)
        if name == "run":
            query = query.where(table.c.id == run_id)
        else:
            query = query.where(table.c.trial_id.in_(of_run) if name in _OF_TRIALS else table.c.run_id == run_id)
        own = numbers[name] = {}
        for batch in connection.execute(query, execution_options={"yield_per": _AT_ONCE}).partitions():
            for found in batch:
                row = dict(zip(names, found, strict=False))
                for column, target in targets.items():
                    if row[column] is not None:
                        row[column] = numbers[target][row[column]]
                if has_id:
                    own[found[-1]] = len(own) + 1
                yield name, row


def add_rows(
    connection: Connection, rows: Iterable[Row], tables: Mapping[str, Table] = schema.metadata.tables
) -> int:
    """Insert the rows of one run; returns its id. tables: of the store that they go into.

    Raises ValueError for a reference to a row that is not there, and for tables in another order.
    """
    ids: dict[str, list[int]] = {}
    run_id = 0
    for name, group in groupby(rows, key=lambda row: row[0]):
        if name not in ORDER or name in ids or (name != "run") != bool(run_id):
            raise ValueError(f"rows of {name} are not where they belong")
        table, targets = tables[name], references(tables[name])
        own = ids[name] = []
        while batch := [row for _, row in islice(group, 1 if name == "output" else _AT_ONCE)]:
            for row in batch:
                row.update({column: _id(ids, target, row[column]) for column, target in targets.items()})
                if "run_id" in table.c:
                    row["run_id"] = run_id
            if "id" in table.c:
                statement = insert(table).returning(table.c.id, sort_by_parameter_order=True)
                own += [int(each) for each in connection.execute(statement, batch).scalars()]
            else:
                _add_plain(connection, table, batch)
        if name == "run":
            if len(own) != 1:
                raise ValueError(f"{len(own)} runs")
            run_id = own[0]
    if not run_id:
        raise ValueError("no run")
    return run_id


def _add_plain(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of a table without `id`, whose columns are plain numbers and texts: as the driver takes them."""
    statement = insert(table).values(dict.fromkeys(rows[0])).compile(dialect=connection.dialect)
    names = statement.positiontup
    given: Any = [tuple(row[name] for name in names) for row in rows] if names else [dict(row) for row in rows]
    connection.exec_driver_sql(str(statement), given)


def _id(ids: Mapping[str, list[int]], table: str, number: Any) -> int | None:
    """The id of a row by its number. Raises ValueError when there is none."""
    if number is None:
        return None
    known = ids.get(table, [])
    if type(number) is not int or not 0 < number <= len(known):
        raise ValueError(f"{table} {str(number)[:20]} is not there")
    return known[number - 1]
