"""Parts of a run: the runs whose guests, trials and warnings it has, and what is added to the numbers of each.

A run that was measured or imported has one part, itself. A merged run has those that it was merged from, and itself at
the end, whose warnings are about all of them: no row of a trial is copied. Its sessions, platforms, cells and metrics
are its own; those of its parts stand for them by their keys.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Table,
    and_,
    case,
    func,
    insert,
    literal,
    select,
)

from vtax.errors import BadInput
from vtax.foreign_text import one_line
from vtax.store import schema

KEYS = {"platform": ("name",), "cell": ("key",), "metric": ("benchmark", "name")}
NUMBERS = ("session", "block", "number", "position")
_part, _trial = schema.part, schema.trial


def numbered(column: Column[Any]) -> ColumnElement[Any]:
    """Return a column with the numbers of guests and trials in the run that a query is of, by `of_run`.

    The numbers before the first block (blocks below 0) and those of trials in a block stay as they are.
    """
    table, name = column.table, column.name
    if table not in (schema.guest, _trial) or name not in NUMBERS:
        return column
    number_in_run = column + _part.c[name]
    if name == "block":
        number_in_run = case((table.c.block < 0, column), else_=number_in_run)
    elif name == "number":
        number_in_run = case((table.c.block < 0, number_in_run), else_=column)
    return number_in_run.label(name)


def of_run(table: Table, run_id: int) -> ColumnElement[bool]:
    """Return the condition for the rows of a table that a run has; it joins the parts of the run."""
    return and_(_part.c.run_id == run_id, _part.c.member_id == table.c.run_id)


def add_itself(connection: Connection, run_id: int, place: int = 0) -> None:
    """Make a run a part of itself, at this place."""
    row = {"run_id": run_id, "place": place, "member_id": run_id}
    connection.execute(insert(_part), row)


def parts_of(connection: Connection, run_id: int) -> list[Any]:
    """Return the parts of a run, as rows in their order."""
    query = select(_part).where(_part.c.run_id == run_id).order_by(_part.c.place)
    return list(connection.execute(query))


def indices(connection: Connection, table: Table, run_id: int) -> dict[int, int]:
    """Return by the id of a platform, cell or metric of a run's parts where it stands among those of the run."""
    keys = [table.c[name] for name in KEYS[table.name]]
    query = select(table.c.run_id, table.c.id, *keys).where(of_run(table, run_id))
    numbers_by_key: dict[Any, int] = {}
    numbers_by_id = {}
    for owner, row_id, *key in connection.execute(
        query.order_by(table.c.run_id != run_id, table.c.id)
    ):
        if owner == run_id:
            numbers_by_key[tuple(key)] = len(numbers_by_key)
        numbers_by_id[row_id] = numbers_by_key[tuple(key)]
    return numbers_by_id


def refuse_member(
    connection: Connection, run_id: int, name: str, action: str, without: Collection[int] = ()
) -> None:
    """Raise BadInput for a run that others are made of.

    name: of the run.
    action: what is to be done with it, as `removed`.
    without: ids of runs that do not count.
    """
    run = schema.run
    query = select(run.c.name).join(_part, _part.c.run_id == run.c.id)
    query = query.where(_part.c.member_id == run_id, _part.c.run_id.not_in([run_id, *without]))
    names = connection.execute(query.order_by(run.c.id)).scalars().all()
    if names:
        raise BadInput(
            f"{name} cannot be {action}: it is part of {', '.join(map(one_line, names))}",
            hint=f"vtax remove {' '.join(map(one_line, names))} first; vtax merge makes it again",
        )


def add_parts(connection: Connection, run_id: int, runs: list[tuple[int, int]]) -> None:
    """Make runs the parts of a merged one, in this order. runs: the id and the number of sessions of each."""
    total, block = dict.fromkeys(NUMBERS, 0), _trial.c.block
    rows: list[dict[str, int]] = []
    for member_id, sessions in runs:
        parts = parts_of(connection, member_id)
        for part in parts[:-1] or parts:  # of a merged one without itself
            totals = {name: count + getattr(part, name) for name, count in total.items()}
            place = {"run_id": run_id, "place": len(rows), "member_id": part.member_id}
            rows.append({**place, **totals})
        blocks, numbers, positions = connection.execute(
            select(
                func.max(numbered(block)),
                func.max(case((block < 0, numbered(_trial.c.number)))),
                func.max(numbered(_trial.c.position)),
            ).where(of_run(_trial, member_id))
        ).one()
        total["session"] += sessions
        for name, limit in (("block", blocks), ("number", numbers), ("position", positions)):
            total[name] += 0 if limit is None else max(limit + 1, 0)
        if len(parts) > 1:  # warnings of a merged one
            warning = schema.warning
            columns = [literal(run_id), warning.c.code, warning.c.data]
            own_rows = select(*columns).where(warning.c.run_id == member_id)
            names = ["run_id", "code", "data"]
            connection.execute(insert(warning).from_select(names, own_rows))
    connection.execute(insert(_part), rows)
    add_itself(connection, run_id, len(rows))
