"""Rows of runs are copied into a merged run inside the database, table by table: none goes through this process.

Guests and trials get ids that are theirs plus what sets them behind all others, so that what refers to them is found
by adding the same. Platforms, cells and metrics are those of the merged run: a copied row refers to them by what is
added to the ids of the run, from one id to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
from vtax.store.database import new_id
from vtax.store.records import PlatformRecord
from vtax.store.run import RunHandle
from vtax.store.transfer import portable_columns

_KEYS = {"platform": ("name",), "cell": ("key",), "metric": ("benchmark", "name")}
_BETWEEN = " / "  # versions of a platform


@dataclass
class _Offsets:
    """Numbers to add to those of the next run."""

    session: int
    block: int
    number: int  # of trials before the first block
    position: int

    def add(self, other: _Offsets) -> None:
        """Add those of a run that was appended."""
        self.session += other.session
        self.block += other.block
        self.number += other.number
        self.position += other.position


def append(connection: Connection, merged: int, runs: Iterable[RunHandle]) -> None:
    """Copy all rows of runs into a merged one, as its next sessions. merged: its id."""
    is_postgresql = connection.dialect.name == "postgresql"
    if is_postgresql:  # ids are taken here: others that store runs wait
        connection.execute(text("LOCK TABLE guest, trial IN SHARE ROW EXCLUSIVE MODE"))
    known = {name: _ids_by_key(connection, name, merged) for name in _KEYS}
    offsets = _numbers_taken(connection, merged)
    for run in runs:
        moved = {}
        for name in _KEYS:
            moved[name] = _merge_rows(connection, name, run.id, merged, known[name])
        numbers = {"of_run": run.id, "of_merged": merged}
        for name in ("guest", "trial"):
            numbers[f"of_{name}"] = _id_offset(connection, name, run.id)
        for name, value in vars(offsets).items():
            numbers[f"of_{name}"] = value
        _copy(connection, moved, numbers)
        offsets.add(_numbers_taken(connection, run.id))
    if is_postgresql:
        for name in ("guest", "trial"):
            connection.execute(
                text(f"SELECT setval('{name}_id_seq', (SELECT coalesce(max(id), 1) FROM {name}))")
            )


def describe_platforms(connection: Connection, merged: int, runs: Iterable[RunHandle]) -> None:
    """Say of the platforms of a merged run what its runs say: tested where one tested it, marked as in any."""
    table = schema.platform
    records: dict[str, list[PlatformRecord]] = {}
    for run in runs:
        for platform in run.platforms:
            records.setdefault(platform.name, []).append(platform)
    for number, (name, same) in enumerate(records.items()):
        this = (table.c.run_id == merged, table.c.name == name)
        values = {"position": number, **_merge_platforms(same)}
        connection.execute(update(table).where(*this).values(values))


def _merge_platforms(records: list[PlatformRecord]) -> dict[str, Any]:
    """Return what several runs say of one platform."""
    tested = [record for record in records if record.available] or records
    versions: dict[str, None] = {}
    marks: dict[str, None] = {}
    for record in tested:
        versions.update(dict.fromkeys(record.version.split(_BETWEEN)))
        marks.update(dict.fromkeys(record.marks))
    return {
        "available": tested[0].available,
        "reason": tested[0].reason,
        "hint": tested[0].hint,
        "marks": list(marks),
        "version": clean(_BETWEEN.join(versions)),
    }


def _numbers_taken(connection: Connection, run_id: int) -> _Offsets:
    """Return how many numbers a run takes of each kind."""
    highest = connection.execute(_HIGHEST, {"of_run": run_id}).one()
    sessions = connection.execute(_SESSIONS, {"of_run": run_id}).scalar_one()
    taken = [0 if number is None else max(int(number) + 1, 0) for number in highest]
    return _Offsets(sessions, *taken)


def _ids_by_key(connection: Connection, name: str, run_id: int) -> dict[tuple[Any, ...], int]:
    """Return the id of each row of a table in a run, by the row's key."""
    rows = connection.execute(_KNOWN[name], {"of_run": run_id})
    return {tuple(row[:-1]): row[-1] for row in rows}


def _merge_rows(
    connection: Connection, name: str, run_id: int, merged: int, known: dict[tuple[Any, ...], int]
) -> dict[int, int]:
    """Return the id of the merged run's row for the id of each row of a run, after adding those that it has not.

    name: of the table. known: ids of the merged run's rows by key; gets those that are added.
    """
    table = schema.metadata.tables[name]
    own = _ids_by_key(connection, name, run_id)
    for key, row_id in own.items():
        if key not in known:
            query = select(table).where(table.c.id == row_id)
            row = dict(connection.execute(query).mappings().one())
            del row["id"]
            row["run_id"] = merged
            if name == "cell":
                row["platform_id"] = _platform_of(connection, row["platform_id"], merged)
            known[key] = new_id(connection, table, row)
    return {row_id: known[key] for key, row_id in own.items()}


def _platform_of(connection: Connection, platform: int, merged: int) -> int:
    """Return the id of the merged run's platform that is called as a run's."""
    table = schema.platform
    name = select(table.c.name).where(table.c.id == platform).scalar_subquery()
    query = select(table.c.id).where(table.c.run_id == merged, table.c.name == name)
    return int(connection.execute(query).scalar_one())


def _id_offset(connection: Connection, name: str, run_id: int) -> int:
    """Return what sets the ids of a run's rows behind all others of a table."""
    first, last = connection.execute(_IDS[name], {"of_run": run_id}).one()
    return 0 if first is None else int(last) + 1 - int(first)


def _ranges(moved: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """Return (first id, last id, what is added to each), for ids in ascending order."""
    ranges: list[tuple[int, int, int]] = []
    for old, new in sorted(moved.items()):
        if ranges and ranges[-1][2] == new - old:
            ranges[-1] = (ranges[-1][0], old, new - old)
        else:
            ranges.append((old, old, new - old))
    return ranges


def _copy(
    connection: Connection, moved: Mapping[str, Mapping[int, int]], numbers: Mapping[str, int]
) -> None:
    """Copy the rows of a run. moved: as by `_merge_rows`, of each table. numbers: of its statements."""
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
            own = select(trial.c.id).where(trial.c.run_id == _number("of_run"))
            where = and_(where, table.c.trial_id.in_(own))
    if by:
        changed[by] = table.c[by] + _number("added")
        where = and_(where, table.c[by].between(_number("first"), _number("end")))
    elif "cell_id" in table.c:
        where = and_(where, table.c.cell_id.is_(None))
    names = dict.fromkeys((*changed, *portable_columns(table)))
    values = [changed.get(name, table.c[name]) for name in names]
    return insert(table).from_select(
        list(names), select(*values).where(where).order_by(*table.primary_key.columns)
    )


def _changed(table: Table) -> dict[str, ColumnElement[Any]]:
    """Return what a copied row holds in the columns in which it is not what it was."""
    columns = table.c
    changed: dict[str, Any] = {}
    if "run_id" in columns:
        changed["run_id"] = _number("of_merged")
    if table.name in ("guest", "trial"):
        block = columns.block
        changed["id"] = columns.id + _number(f"of_{table.name}")
        changed["block"] = case((block >= 0, block + _number("of_block")), else_=block)
    for name in ("guest", "trial"):
        if f"{name}_id" in columns:
            changed[f"{name}_id"] = columns[f"{name}_id"] + _number(f"of_{name}")
    if table.name == "session":
        changed["number"] = columns.number + _number("of_session")
    if table.name == "trial":
        before = (columns.block < 0, columns.number + _number("of_number"))
        changed["number"] = case(before, else_=columns.number)
        changed["position"] = columns.position + _number("of_position")
        changed["session"] = columns.session + _number("of_session")
    return changed


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


def _select_keys(table: Table) -> Select[Any]:
    """Return the query of the keys of a run's rows, with their ids last."""
    keys = [table.c[key] for key in _KEYS[table.name]]
    return _of_run(table, *keys, table.c.id).order_by(table.c.id)


def _select_ids(table: Table) -> Select[Any]:
    """Return the query of the first id of a run's rows and the last one of the table."""
    last = select(func.max(table.alias().c.id)).scalar_subquery()
    return _of_run(table, func.min(table.c.id), last)


_KNOWN = {name: _select_keys(schema.metadata.tables[name]) for name in _KEYS}
_IDS = {"guest": _select_ids(schema.guest), "trial": _select_ids(schema.trial)}
