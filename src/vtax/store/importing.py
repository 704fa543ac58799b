"""A bundle becomes a run of a store: read into a private store, checked there as any stored run is, then copied.

The content of a bundle is untrusted. Every value is checked against its column and cleaned before it is stored; then
the whole run is read once, as a report would. Only what passes goes into the store, in one transaction.

The private store is a temporary database of SQLite, whose file has no name: the kernel removes it with the process,
however that ends, so nothing is registered in the journal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Engine,
    Float,
    Integer,
    String,
    func,
    select,
)
from sqlalchemy.exc import IntegrityError

from vtax.errors import BadInput, DamagedRows, StoreError
from vtax.foreign_text import clean, cleaned
from vtax.stats.terms import role_of
from vtax.store import schema
from vtax.store.bundle import Bundle, sha256_of
from vtax.store.columns import write_columns
from vtax.store.contents import check_contents
from vtax.store.creating import create
from vtax.store.database import reading, store_name, temporary_engine, writing
from vtax.store.provenance import IMPORTED, imported
from vtax.store.records import LISTS
from vtax.store.rows import bounds_of, checked, finite_lists
from vtax.store.run import RunHandle
from vtax.store.transfer import (
    Row,
    RunIsThere,
    Watch,
    add_rows,
    portable_columns,
    rows_of,
    unwatched,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_STATUSES = ("finished", "paused", "interrupted", "failed")
_AHEAD_S = 86_400.0  # by which the clock of another host may be wrong
_MAX_INTEGER = 1 << 63
_SHORT, _MAX_KNOWN = 80, 10_000  # characters and number of texts that are remembered


@dataclass(frozen=True)
class Imported:
    """A run that was imported, or was there.

    name: of the run in this store.
    is_new: it was not there before.
    was_called: its name in the bundle.
    """

    name: str
    is_new: bool
    was_called: str
    study: str
    trials: int
    sha256: str
    is_other_host: bool
    is_anonymized: bool


def import_bundle(
    engine: Engine,
    bundle: Bundle,
    machine_id: str,
    watch: Watch = unwatched,
    accept: Callable[[RunHandle], None] = lambda run: None,
    name: str = "",
) -> Imported:
    """Add the run of a bundle to a store.

    machine_id: of this host.
    watch: shows progress.
    accept: raises what is to be raised for a run that is not wanted, before the store is touched.
    name: of the run in this store, if it is free; empty for the name that it has in the bundle.

    A run that is there already, with the same content, is left as it is. Raises BadInput for a bundle that is
    damaged, of another schema, or of a run that is there with other content, and StoreError.
    """
    with temporary_engine() as private:
        run = _read(private, bundle, watch)
        accept(run)
        return _copy_run(engine, private, run, bundle, machine_id, watch, name)


@contextmanager
def opened_bundle(path: Path, watch: Watch = unwatched) -> Iterator[RunHandle]:
    """Yield the run of a bundle, checked, in no store; it lasts as long as the context. Raises as `import_bundle`."""
    with temporary_engine() as private:
        yield _read(private, Bundle(path), watch)


def _read(private: Engine, bundle: Bundle, watch: Watch) -> RunHandle:
    """Return the run of a bundle, checked, in a private store. Raises BadInput, StoreError."""
    try:
        with writing(private) as connection:
            create(connection)
            run_id = add_rows(connection, watch("read", _checked_rows(bundle)))
        run = RunHandle(private, run_id)
        check_contents(run)
        _check(private, run, bundle.path)
    except ValueError as error:
        raise _damaged(bundle.path, clean(str(error), 200)) from error
    except DamagedRows as error:
        raise _damaged(bundle.path, error.problem) from error
    except StoreError as error:
        # nobody else has this store
        if isinstance(error, RunIsThere) or isinstance(error.__cause__, IntegrityError):
            raise _damaged(bundle.path, "rows contradict each other") from error
        raise
    return run


def _checked_rows(bundle: Bundle) -> Iterator[Row]:
    """Yield the rows of a bundle with checked and cleaned values. Raises ValueError, BadInput."""
    checks = {}
    for name, table in schema.metadata.tables.items():
        columns = portable_columns(table)
        checks[name] = {column: _check_of(table.c[column]) for column in columns}
    for name, stored in bundle.rows():
        check = checks.get(name)
        has_no_role = name == "metric" and "role" not in stored  # a bundle of old
        row = {**stored, "role": ""} if has_no_role else stored
        if check is None or row.keys() != check.keys():
            raise ValueError(
                f"a row of {name[:20]} has other columns than schema {schema.BUNDLE_VERSION}"
            )
        values = {column: check[column](value) for column, value in row.items()}
        if has_no_role:
            is_primary = values["is_primary"]
            values["role"] = role_of(
                values["name"], values["unit"], values["better"], is_primary=is_primary
            )
        yield name, values


def _check_of(column: Any) -> Callable[[Any], Any]:
    """Return what makes a value of a column out of one of a bundle: `_value`, short for what most rows hold.

    Texts that come again and again, such as names of counters, are checked once.
    """
    if column.foreign_keys:
        return lambda value: value
    if isinstance(column.type, Boolean):
        return lambda value: value if type(value) is bool else _value(column, value)
    if isinstance(column.type, Integer | Float):
        return _check_of_number(column)
    known: dict[str, Any] = {}

    def check(value: Any) -> Any:
        if type(value) is not str or len(value) > _SHORT:
            return _value(column, value)
        if value not in known:
            if len(known) >= _MAX_KNOWN:
                known.clear()
            known[value] = _value(column, value)
        return known[value]

    return check


def _check_of_number(column: Any) -> Callable[[Any], Any]:
    low, high = bounds_of(column)
    kind: Any = float
    if isinstance(column.type, Integer):
        kind, low, high = int, max(low, -_MAX_INTEGER), min(high, _MAX_INTEGER - 1)

    def check(value: Any) -> Any:
        if type(value) is kind and low <= value <= high:
            return value
        return _value(column, value)

    return check


def _value(column: Any, value: Any) -> Any:
    """Return a value as its column holds it, which is no reference: `add_rows` checks these. Raises ValueError."""
    if column.name == "effective" and isinstance(value, dict):
        settings = {name: setting for name, setting in value.items() if name not in LISTS}
        lists = {name: finite_lists(value[name]) for name in LISTS if name in value}
        return {**cleaned(settings), **lists}
    stored = checked(column, value)
    if isinstance(stored, int) and not -_MAX_INTEGER <= stored < _MAX_INTEGER:
        raise ValueError(f"{column.name} is larger than 64 bits")
    if isinstance(stored, str) and isinstance(column.type, String):
        longest = column.type.length
        if longest and len(stored) > longest:
            raise ValueError(f"{column.name} is longer than {longest} characters")
    return stored


def _check(private: Engine, run: RunHandle, path: Path) -> None:
    """Check what is of several rows. Raises StoreError, and BadInput for what no vtax exports."""
    trial = schema.trial
    if not _NAME.fullmatch(run.name) or run.name == "last" or not _IDENTITY.fullmatch(run.identity):
        raise _damaged(path, "its name or identity is none that vtax gives")
    if run.started_at > time.time() + _AHEAD_S:
        raise _damaged(path, "the run starts in the future")
    with reading(private) as connection:

        def has(condition: ColumnElement[bool]) -> bool:
            query = select(trial.c.id).where(condition).limit(1)
            return connection.execute(query).first() is not None

        if run.status not in _STATUSES or has(trial.c.status.not_in(("ok", "failed"))):
            raise _damaged(path, "a status is none of a run or a trial that ended")
        if has(trial.c.session > len(run.sessions)):
            raise _damaged(path, "a trial is of a session that is not there")


def _copy_run(
    engine: Engine,
    private: Engine,
    run: RunHandle,
    bundle: Bundle,
    machine_id: str,
    watch: Watch,
    wanted_name: str,
) -> Imported:
    """Copy a run out of its private store, unless it is there, or another process brings it there meanwhile."""
    is_other = not machine_id or run.host.get("machine_id") != machine_id
    with reading(private) as connection:
        trials = connection.execute(select(func.count()).select_from(schema.trial)).scalar_one()
    origin = {
        "at": time.time(),
        "name": run.name,
        "sha256": bundle.sha256,
        "is_other_host": is_other,
        "is_anonymized": bundle.is_anonymized,
    }
    is_new = False
    while True:
        with reading(private) as source, writing(engine) as connection:
            same = select(schema.run).where(schema.run.c.identity == run.identity)
            stored = connection.execute(same).mappings().first()
            if stored is not None:
                if imported(stored["provenance"]).get("sha256") != bundle.sha256:
                    own = rows_of(source, run.id)
                    _refuse_other_content(connection, stored, own, store_name(engine.url))
                name = stored["name"]
                break
            names = set(connection.execute(select(schema.run.c.name)).scalars())
            name = _free_name(wanted_name or run.name, names)
            changes = {"name": name, "provenance": {**run.provenance, IMPORTED: origin}}
            rows = watch("stored", rows_of(source, run.id))
            with suppress(RunIsThere):
                write_columns(connection, add_rows(connection, _with_changes(rows, changes)))
                is_new = True
                break
    return Imported(
        name, is_new, run.name, run.study, trials, bundle.sha256, is_other, bundle.is_anonymized
    )


def _with_changes(rows: Iterable[Row], changes: Mapping[str, Any]) -> Iterator[Row]:
    """Yield rows with changes to that of the run."""
    for table, row in rows:
        yield table, {**row, **changes} if table == "run" else row


def _refuse_other_content(
    connection: Connection, stored: Mapping[Any, Any], rows: Iterable[Row], where: str
) -> None:
    """Raise BadInput when a run of this identity is not that of the bundle, tags and notes aside. rows: of it."""
    if sha256_of(rows_of(connection, stored["id"])) != sha256_of(rows):
        raise BadInput(
            f"this run is in the store as {stored['name']}, with other content",
            where=where,
            hint=f"vtax remove {stored['name']} removes it; then import the bundle again",
        )


def _free_name(name: str, names: set[str]) -> str:
    """Return a name that no run of a store has: this one, or what it becomes by an import."""
    free, number = name, 1
    while free in names:
        free = f"{name}-imported" if number == 1 else f"{name}-imported-{number}"
        number += 1
    return free


def _damaged(path: Path, why: str) -> BadInput:
    hint = "copy it again, or export the run again"
    return BadInput(f"the bundle is damaged: {why}", where=str(path), hint=hint)
