"""Parts of a run: the runs whose guests, trials and warnings it has, and what is added to the numbers of each.

A run that was measured or imported has one part, itself. A merged run has those that it was merged from, and itself at
the end, whose warnings are about all of them: no row of a trial is copied. Its sessions, platforms, cells and metrics
are its own; those of its parts stand for them by their keys.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
_RUNS_AT_ONCE = 500  # whose parts are read together
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
    return _parts_of_runs(connection, [run_id])[run_id]


def _parts_of_runs(connection: Connection, run_ids: Sequence[int]) -> dict[int, list[Any]]:
    """Return by run its parts, as rows in their order."""
    parts: dict[int, list[Any]] = {run_id: [] for run_id in run_ids}
    query = select(_part).where(_part.c.run_id.in_(run_ids)).order_by(_part.c.place)
    for part in connection.execute(query):
        parts[part.run_id].append(part)
    return parts


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


def add_parts(connection: Connection, run_id: int, runs: Sequence[tuple[int, int]]) -> None:
    """Make runs the parts of a merged one, in this order. runs: the id and the number of sessions of each."""
    total = dict.fromkeys(NUMBERS, 0)
    rows: list[dict[str, int]] = []
    for first in range(0, len(runs), _RUNS_AT_ONCE):
        sessions_by_run = dict(runs[first : first + _RUNS_AT_ONCE])
        parts_by_run = _parts_of_runs(connection, [*sessions_by_run])
        added_by_run = _added_by(connection, [*sessions_by_run])
        for member_id, sessions in sessions_by_run.items():
            parts = parts_by_run[member_id]
            for part in parts[:-1] or parts:  # of a merged one without itself
                totals = {name: count + getattr(part, name) for name, count in total.items()}
                place = {"run_id": run_id, "place": len(rows), "member_id": part.member_id}
                rows.append({**place, **totals})
            total["session"] += sessions
            for name, count in added_by_run.get(member_id, {}).items():
                total[name] += count
            if len(parts) > 1:
                _add_warnings_of(connection, run_id, member_id)
    connection.execute(insert(_part), rows)
    add_itself(connection, run_id, len(rows))


def _added_by(connection: Connection, run_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """Return by run what its trials add to block, number and position of the trials that follow in a merged run.

    Indexes have the last ones of each cell, so that no trial is read.
    """
    cell = schema.cell
    last_block = select(func.max(_trial.c.block)).where(_trial.c.cell_id == cell.c.id)
    last_number = select(func.max(_trial.c.number)).where(
        _trial.c.cell_id == cell.c.id, _trial.c.block < 0
    )
    last_position = select(func.max(_trial.c.position)).where(_trial.c.run_id == _part.c.member_id)
    block = last_block.scalar_subquery()
    query = (
        select(
            _part.c.run_id,
            func.max(case((block < 0, block), else_=block + _part.c.block)),
            func.max(last_number.scalar_subquery() + _part.c.number),
            func.max(last_position.scalar_subquery() + _part.c.position),
        )
        .join_from(_part, cell, cell.c.run_id == _part.c.member_id)
        .where(_part.c.run_id.in_(run_ids))
        .group_by(_part.c.run_id)
    )
    added = {}
    for run_id, *numbers in connection.execute(query):
        counts = [0 if number is None else max(number + 1, 0) for number in numbers]
        added[run_id] = dict(zip(("block", "number", "position"), counts, strict=True))
    return added


def _add_warnings_of(connection: Connection, run_id: int, member_id: int) -> None:
    """Give a merged run the warnings about another merged run, which is among those that it is made of."""
    warning = schema.warning
    columns = [literal(run_id), warning.c.code, warning.c.data]
    own_rows = select(*columns).where(warning.c.run_id == member_id)
    connection.execute(insert(warning).from_select(["run_id", "code", "data"], own_rows))
