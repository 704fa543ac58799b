"""Rows of runs are copied into a merged run inside the database, table by table: none goes through this process.

Guests and trials get ids that are theirs plus what sets them behind all others, so that what refers to them is found
by adding the same. Platforms, cells and metrics are those of the merged run: a copied row refers to them by what is
added to the ids of the run, from one id to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Insert,
    Select,
    Table,
    and_,
    bindparam,
    case,
    func,
    insert,
    select,
    text,
    update,
)

from vtax.foreign_text import clean
from vtax.store import schema
from vtax.store.records import PlatformRecord
from vtax.store.run import RunHandle
from vtax.store.transfer import portable_columns

_KEYS = {"platform": ("name",), "cell": ("key",), "metric": ("benchmark", "name")}
_BETWEEN = " / "  # versions of a platform


@dataclass
class _Last:
    """Numbers to add to those of the next run."""

    session: int
    block: int
    number: int  # of trials before the first block
    position: int

    def add(self, other: _Last) -> None:
        """Add those of a run that was appended."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


def append(connection: Connection, merged: int, runs: Iterable[RunHandle]) -> None:
    """Copy all rows of runs into a merged one, as its next sessions. merged: its id."""
    if connection.dialect.name == "postgresql":  # ids are taken here: others that store runs wait
        connection.execute(text("LOCK TABLE guest, trial IN SHARE ROW EXCLUSIVE MODE"))
    known = {name: _known(connection, name, merged) for name in _KEYS}
    last = _lengths(connection, merged)
    for run in runs:
        moved = {name: _mapped(connection, name, run.id, merged, known[name]) for name in _KEYS}
        behind = {f"of_{name}": _behind(connection, name, run.id) for name in ("guest", "trial")}
        lengths = {f"of_{name}": value for name, value in vars(last).items()}
        _copy(connection, moved, {"of_run": run.id, "of_merged": merged, **behind, **lengths})
        last.add(_lengths(connection, run.id))
    if connection.dialect.name == "postgresql":
        for name in ("guest", "trial"):
            connection.execute(
                text(f"SELECT setval('{name}_id_seq', (SELECT coalesce(max(id), 1) FROM {name}))")
            )


def describe_platforms(connection: Connection, merged: int, runs: Iterable[RunHandle]) -> None:
    """Say of the platforms of a merged run what its runs say: tested where one tested it, marked as in any."""
    table = schema.platform
    said: dict[str, list[PlatformRecord]] = {}
    for run in runs:
        for each in run.platforms:
            said.setdefault(each.name, []).append(each)
    for number, (name, found) in enumerate(said.items()):
        of_run = (table.c.run_id == merged, table.c.name == name)
        connection.execute(update(table).where(*of_run).values(position=number, **_platform(found)))


def _platform(found: list[PlatformRecord]) -> dict[str, Any]:
    tested = [each for each in found if each.available] or found
    versions = dict.fromkeys(version for each in tested for version in each.version.split(_BETWEEN))
    return {
        "available": tested[0].available,
        "reason": tested[0].reason,
        "hint": tested[0].hint,
        "marks": list(dict.fromkeys(mark for each in tested for mark in each.marks)),
        "version": clean(_BETWEEN.join(versions)),
    }


def _lengths(connection: Connection, run_id: int) -> _Last:
    """Count the numbers that a run takes of each kind."""
    block, number, position = connection.execute(_HIGHEST, {"of_run": run_id}).one()
    count = connection.execute(_SESSIONS, {"of_run": run_id}).scalar_one()
    block, number, position = (
        -1 if each is None else max(int(each), -1) for each in (block, number, position)
    )
    return _Last(count, block + 1, number + 1, position + 1)


def _known(connection: Connection, name: str, run_id: int) -> dict[tuple[Any, ...], int]:
    """Key of a row of a table in a run -> its id."""
    return {
        tuple(row[:-1]): row[-1] for row in connection.execute(_KNOWN[name], {"of_run": run_id})
    }


def _mapped(
    connection: Connection, name: str, run_id: int, merged: int, known: dict[tuple[Any, ...], int]
) -> dict[int, int]:
    """Id of a row of a run -> that of the merged run's, after adding those that it has not. known: gets them."""
    table = schema.metadata.tables[name]
    own = _known(connection, name, run_id)
    for key, row_id in own.items():
        if key not in known:
            row = dict(
                connection.execute(select(table).where(table.c.id == row_id)).mappings().one()
            )
            del row["id"]
            if name == "cell":
                row["platform_id"] = _platform_of(connection, row["platform_id"], merged)
            added = connection.execute(
                insert(table).values(**row | {"run_id": merged})
            ).inserted_primary_key
            assert added is not None
            known[key] = int(added[0])
    return {row_id: known[key] for key, row_id in own.items()}


def _platform_of(connection: Connection, platform: int, merged: int) -> int:
    """Return the id of the merged run's platform that is called as a run's."""
    table = schema.platform
    name = select(table.c.name).where(table.c.id == platform).scalar_subquery()
    query = select(table.c.id).where(table.c.run_id == merged, table.c.name == name)
    return int(connection.execute(query).scalar_one())


def _behind(connection: Connection, name: str, run_id: int) -> int:
    """Return what sets the ids of a run's rows behind all others of a table."""
    first, last = connection.execute(_IDS[name], {"of_run": run_id}).one()
    return 0 if first is None else int(last) + 1 - int(first)


def _ranges(moved: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """(first id, last id, what is added to each), for ids in ascending order."""
    found: list[tuple[int, int, int]] = []
    for old, new in sorted(moved.items()):
        if found and found[-1][2] == new - old:
            found[-1] = (found[-1][0], old, new - old)
        else:
            found.append((old, old, new - old))
    return found


def _copy(
    connection: Connection, moved: Mapping[str, Mapping[int, int]], numbers: Mapping[str, int]
) -> None:
    """Copy the rows of a run. moved: as by `_mapped`, of each table. numbers: of its statements."""
    low, high, count = connection.execute(_TRIALS, {"of_run": numbers["of_run"]}).one()
    numbers = {**numbers, "low": low, "high": high}
    for name, by in (
        ("session", ""),
        ("guest", "platform"),
        ("trial", "cell"),
        ("output", ""),
        ("measurement", "metric"),
        ("counter", ""),
        ("warning", "cell"),
    ):
        table = schema.metadata.tables[name]
        if "run_id" not in table.c and count == 0:
            continue
        is_scattered = count > 0 and high - low + 1 != count  # another run was stored meanwhile
        for first, end, added in _ranges(moved[by]) if by else ():
            ranged = {**numbers, "first": first, "end": end, "added": added}
            connection.execute(_copying(name, f"{by}_id", is_scattered), ranged)
        if not by or table.c[f"{by}_id"].nullable:
            connection.execute(_copying(name, "", is_scattered), numbers)


@cache
def _copying(name: str, by: str, is_scattered: bool) -> Insert:
    """Return the statement that copies rows of a table, once for all runs: making it takes longer than running it.

    by: the column whose values from `first` to `end` are copied, with what is `added`; empty for rows without one.
    """
    table, trial = schema.metadata.tables[name], schema.trial
    changed = _changed(table)
    if "run_id" in table.c:
        where = table.c.run_id == _number("of_run")
    else:
        where = table.c.trial_id.between(_number("low"), _number("high"))
        if is_scattered:
            where = and_(
                where,
                table.c.trial_id.in_(select(trial.c.id).where(trial.c.run_id == _number("of_run"))),
            )
    if by:
        changed[by] = table.c[by] + _number("added")
        where = and_(where, table.c[by].between(_number("first"), _number("end")))
    elif "cell_id" in table.c:
        where = and_(where, table.c.cell_id.is_(None))
    names = dict.fromkeys((*changed, *portable_columns(table)))
    values = [changed.get(each, table.c[each]) for each in names]
    return insert(table).from_select(
        list(names), select(*values).where(where).order_by(*table.primary_key.columns)
    )


def _changed(table: Table) -> dict[str, ColumnElement[Any]]:
    """Column of a copied row -> what it holds, where that is not what it was."""
    found: dict[str, Any] = {}
    of = table.c
    if "run_id" in of:
        found["run_id"] = _number("of_merged")
    if table.name in ("guest", "trial"):
        found["id"] = of.id + _number(f"of_{table.name}")
        found["block"] = case((of.block >= 0, of.block + _number("of_block")), else_=of.block)
    found |= {
        name: of[name] + _number(f"of_{name[:-3]}")
        for name in ("guest_id", "trial_id")
        if name in of
    }
    if table.name == "session":
        found["number"] = of.number + _number("of_session")
    if table.name == "trial":
        found["number"] = case((of.block < 0, of.number + _number("of_number")), else_=of.number)
        found |= {
            "position": of.position + _number("of_position"),
            "session": of.session + _number("of_session"),
        }
    return found


def _number(name: str) -> ColumnElement[Any]:
    return bindparam(name, type_=BigInteger)


def _of_run(table: Table, *columns: Any) -> Select[Any]:
    return select(*columns).where(table.c.run_id == _number("of_run"))


_HIGHEST = _of_run(
    schema.trial,
    func.max(schema.trial.c.block),
    func.max(case((schema.trial.c.block < 0, schema.trial.c.number))),
    func.max(schema.trial.c.position),
)
_SESSIONS = _of_run(schema.session, func.count(schema.session.c.id))
_TRIALS = _of_run(
    schema.trial, func.min(schema.trial.c.id), func.max(schema.trial.c.id), func.count()
)
_TABLES = schema.metadata.tables
_KNOWN = {
    name: _of_run(
        _TABLES[name], *(_TABLES[name].c[key] for key in keys), _TABLES[name].c.id
    ).order_by(_TABLES[name].c.id)
    for name, keys in _KEYS.items()
}
_IDS = {
    name: _of_run(
        _TABLES[name],
        func.min(_TABLES[name].c.id),
        select(func.max(_TABLES[name].alias().c.id)).scalar_subquery(),
    )
    for name in ("guest", "trial")
}
