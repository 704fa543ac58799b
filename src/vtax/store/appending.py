"""Rows of runs are copied into a merged run inside the database, table by table: none goes through this process.

Guests and trials get ids that are theirs plus what sets them behind all others, so that what refers to them is found
by adding the same. Platforms, cells and metrics are those of the merged run: a copied row refers to them by what is
added to the ids of the run, from one id to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, case, func, insert, literal, select, text, update

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
        moved: dict[str, Any] = {name: _mapped(connection, name, run.id, merged, known[name]) for name in _KEYS}
        moved |= {name: _behind(connection, schema.metadata.tables[name], run.id) for name in ("guest", "trial")}
        _copy(connection, run.id, merged, moved, last)
        last.add(_lengths(connection, run.id))
    if connection.dialect.name == "postgresql":
        for name in ("guest", "trial"):
            connection.execute(text(f"SELECT setval('{name}_id_seq', (SELECT coalesce(max(id), 1) FROM {name}))"))


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
        "available": tested[0].available, "reason": tested[0].reason, "hint": tested[0].hint,
        "marks": list(dict.fromkeys(mark for each in tested for mark in each.marks)),
        "version": clean(_BETWEEN.join(versions)),
    }  # fmt: skip


def _lengths(connection: Connection, run_id: int) -> _Last:
    """Count the numbers that a run takes of each kind."""
    trial, session = schema.trial, schema.session
    before = case((trial.c.block < 0, trial.c.number))
    query = select(func.max(trial.c.block), func.max(before), func.max(trial.c.position))
    block, number, position = connection.execute(query.where(trial.c.run_id == run_id)).one()
    count = select(func.count()).select_from(session).where(session.c.run_id == run_id)
    block, number, position = (-1 if each is None else max(int(each), -1) for each in (block, number, position))
    return _Last(connection.execute(count).scalar_one(), block + 1, number + 1, position + 1)


def _known(connection: Connection, name: str, run_id: int) -> dict[tuple[Any, ...], int]:
    """Key of a row of a table in a run -> its id."""
    table = schema.metadata.tables[name]
    query = select(*(table.c[key] for key in _KEYS[name]), table.c.id).where(table.c.run_id == run_id)
    return {tuple(row[:-1]): row[-1] for row in connection.execute(query.order_by(table.c.id))}


def _mapped(
    connection: Connection, name: str, run_id: int, merged: int, known: dict[tuple[Any, ...], int]
) -> dict[int, int]:
    """Id of a row of a run -> that of the merged run's, after adding those that it has not. known: gets them."""
    table = schema.metadata.tables[name]
    own = _known(connection, name, run_id)
    for key, row_id in own.items():
        if key not in known:
            row = dict(connection.execute(select(table).where(table.c.id == row_id)).mappings().one())
            del row["id"]
            if name == "cell":
                row["platform_id"] = _platform_of(connection, row["platform_id"], merged)
            added = connection.execute(insert(table).values(**row | {"run_id": merged})).inserted_primary_key
            assert added is not None
            known[key] = int(added[0])
    return {row_id: known[key] for key, row_id in own.items()}


def _platform_of(connection: Connection, platform: int, merged: int) -> int:
    """Return the id of the merged run's platform that is called as a run's."""
    table = schema.platform
    name = select(table.c.name).where(table.c.id == platform).scalar_subquery()
    query = select(table.c.id).where(table.c.run_id == merged, table.c.name == name)
    return int(connection.execute(query).scalar_one())


def _behind(connection: Connection, table: Table, run_id: int) -> int:
    """Return what sets the ids of a run's rows behind all others of a table."""
    first = connection.execute(select(func.min(table.c.id)).where(table.c.run_id == run_id)).scalar()
    return 0 if first is None else int(connection.execute(select(func.max(table.c.id))).scalar_one()) + 1 - int(first)


def _ranges(moved: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """(first id, last id, what is added to each), for ids in ascending order."""
    found: list[tuple[int, int, int]] = []
    for old, new in sorted(moved.items()):
        if found and found[-1][2] == new - old:
            found[-1] = (found[-1][0], old, new - old)
        else:
            found.append((old, old, new - old))
    return found


def _copy(connection: Connection, run_id: int, merged: int, moved: Mapping[str, Any], last: _Last) -> None:
    trial = schema.trial
    own = trial.c.run_id == run_id
    ids = select(func.min(trial.c.id), func.max(trial.c.id), func.count()).where(own)
    low, high, count = connection.execute(ids).one()
    for name, by in (("session", ""), ("guest", "platform"), ("trial", "cell"), ("output", ""),
                     ("measurement", "metric"), ("counter", ""), ("warning", "cell")):  # fmt: skip
        table = schema.metadata.tables[name]
        if "run_id" in table.c:
            where = table.c.run_id == run_id
        elif count == 0:
            continue
        else:
            where = table.c.trial_id.between(low, high)
            if high - low + 1 != count:  # another run was stored meanwhile
                where = and_(where, table.c.trial_id.in_(select(trial.c.id).where(own)))
        if not by:
            _insert(connection, table, _changed(table, merged, moved, last), where)
            continue
        column = table.c[f"{by}_id"]
        for first, end, added in _ranges(moved[by]):
            changed = {**_changed(table, merged, moved, last), column.name: column + added}
            _insert(connection, table, changed, and_(where, column.between(first, end)))
        if column.nullable:
            _insert(connection, table, _changed(table, merged, moved, last), and_(where, column.is_(None)))


def _changed(table: Table, merged: int, moved: Mapping[str, Any], last: _Last) -> dict[str, ColumnElement[Any]]:
    """Column of a copied row -> what it holds, where that is not what it was."""
    found: dict[str, Any] = {}
    of = table.c
    if "run_id" in of:
        found["run_id"] = literal(merged)
    if table.name in ("guest", "trial"):
        found["id"] = of.id + moved[table.name]
        found["block"] = case((of.block >= 0, of.block + last.block), else_=of.block)
    found |= {name: of[name] + moved[name[:-3]] for name in ("guest_id", "trial_id") if name in of}
    if table.name == "session":
        found["number"] = of.number + last.session
    if table.name == "trial":
        found["number"] = case((of.block < 0, of.number + last.number), else_=of.number)
        found |= {"position": of.position + last.position, "session": of.session + last.session}
    return found


def _insert(connection: Connection, table: Table, changed: Mapping[str, Any], where: ColumnElement[bool]) -> None:
    names = dict.fromkeys((*changed, *portable_columns(table)))
    values = [changed.get(name, table.c[name]) for name in names]
    ordered = select(*values).where(where).order_by(*table.primary_key.columns)
    connection.execute(insert(table).from_select(list(names), ordered))
