"""A bundle becomes a run of a store: read into a private store, checked there as any stored run is, then copied.

The content of a bundle is untrusted. Every value is checked against its column and cleaned before it is stored; then
the whole run is read once, as a report would. Only what passes goes into the store, in one transaction.

The private store is a temporary database of SQLite, whose file has no name: the kernel removes it with the process,
however that ends, so nothing is registered in the journal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Engine,
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
from vtax.store.database import as_json, reading, store_name, temporary_engine, writing
from vtax.store.provenance import IMPORTED, imported
from vtax.store.records import LISTS
from vtax.store.rows import MAX_INTEGER, checked, checked_values, finite_lists
from vtax.store.run import RunHandle
from vtax.store.transfer import (
    ORDER,
    Row,
    RunIsThere,
    Values,
    Watch,
    add_rows,
    own_values,
    portable_columns,
    rows_of,
    unwatched,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_STATUSES = ("finished", "paused", "interrupted", "failed")
_AHEAD_S = 86_400.0  # by which the clock of another host may be wrong


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
    with temporary_engine() as bundle_engine:
        run = _read(bundle_engine, bundle, watch)
        accept(run)
        return _copy_run(engine, bundle_engine, run, bundle, machine_id, watch, name)


@contextmanager
def opened_bundle(path: Path, watch: Watch = unwatched) -> Iterator[RunHandle]:
    """Yield the run of a bundle, checked, in no store; it lasts as long as the context. Raises as `import_bundle`."""
    with temporary_engine() as engine:
        yield _read(engine, Bundle(path), watch)


def _read(engine: Engine, bundle: Bundle, watch: Watch) -> RunHandle:
    """Return the run of a bundle, checked, in a private store. Raises BadInput, StoreError."""
    try:
        with writing(engine) as connection:
            create(connection)
            run_id = add_rows(connection, watch("read", _values(bundle)), _check_columns)
        (run,) = RunHandle.opened(engine, [run_id])
        check_contents(run)
        _check(engine, run, bundle.path)
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


def _values(bundle: Bundle) -> Iterator[Values]:
    """Yield the rows of a bundle, neither checked nor cleaned. Raises ValueError, BadInput."""
    names, values_of = {}, {}
    for name in ORDER:
        columns = portable_columns(schema.metadata.tables[name])
        names[name], values_of[name] = set(columns), itemgetter(*columns)
    for name, row in bundle.rows():
        if name == "metric":
            row.setdefault("role", "")  # a bundle of old has none
        if name not in names or row.keys() != names[name]:
            raise ValueError(
                f"a row of {name[:20]} has other columns than schema {schema.BUNDLE_VERSION}"
            )
        yield name, values_of[name](row)


def _check_columns(name: str, columns: list[Sequence[Any]]) -> None:
    """Put checked and cleaned values in place of those of a bundle. Raises ValueError."""
    table = schema.metadata.tables[name]
    places = {column: place for place, column in enumerate(portable_columns(table))}
    for column, place in places.items():
        columns[place] = _checked(table.c[column], columns[place])
    if name == "metric":
        named = [columns[places[column]] for column in ("name", "unit", "better", "is_primary")]
        roles = list(columns[places["role"]])
        for number, (metric, unit, better, is_primary) in enumerate(zip(*named, strict=True)):
            if not roles[number]:
                roles[number] = role_of(metric, unit, better, is_primary=is_primary)
        columns[places["role"]] = roles


def _checked(column: Any, values: Sequence[Any]) -> Sequence[Any]:
    """Return values of a column as a driver takes them. References are left to `add_rows`."""
    if column.foreign_keys:
        return values
    if isinstance(column.type, JSON):
        return [as_json(_value(column, value)) for value in values]
    return checked_values(column, values, _value)


def _value(column: Any, value: Any) -> Any:
    """Return a value as its column holds it, which is no reference: `add_rows` checks these. Raises ValueError."""
    if column.name == "effective" and isinstance(value, dict):
        settings = {name: setting for name, setting in value.items() if name not in LISTS}
        lists = {name: finite_lists(value[name]) for name in LISTS if name in value}
        return {**cleaned(settings), **lists}
    plain_value = checked(column, value)
    if isinstance(plain_value, int) and not -MAX_INTEGER <= plain_value < MAX_INTEGER:
        raise ValueError(f"{column.name} is larger than 64 bits")
    if isinstance(plain_value, str) and isinstance(column.type, String):
        longest = column.type.length
        if longest and len(plain_value) > longest:
            raise ValueError(f"{column.name} is longer than {longest} characters")
    return plain_value


def _check(engine: Engine, run: RunHandle, path: Path) -> None:
    """Check what is of several rows. Raises StoreError, and BadInput for what no vtax exports."""
    trial = schema.trial
    if not _NAME.fullmatch(run.name) or run.name == "last" or not _IDENTITY.fullmatch(run.identity):
        raise _damaged(path, "its name or identity is none that vtax gives")
    if run.started_at > time.time() + _AHEAD_S:
        raise _damaged(path, "the run starts in the future")
    with reading(engine) as connection:

        def has(condition: ColumnElement[bool]) -> bool:
            query = select(trial.c.id).where(condition).limit(1)
            return connection.execute(query).first() is not None

        if run.status not in _STATUSES or has(trial.c.status.not_in(("ok", "failed"))):
            raise _damaged(path, "a status is none of a run or a trial that ended")
        if has(trial.c.session > len(run.sessions)):
            raise _damaged(path, "a trial is of a session that is not there")


def _copy_run(
    engine: Engine,
    engine_of_bundle: Engine,
    run: RunHandle,
    bundle: Bundle,
    machine_id: str,
    watch: Watch,
    wanted_name: str,
) -> Imported:
    """Copy a run out of its private store, unless it is there, or another process brings it there meanwhile."""
    is_other = not machine_id or run.host.get("machine_id") != machine_id
    with reading(engine_of_bundle) as connection:
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
        with reading(engine_of_bundle) as source, writing(engine) as connection:
            same_identity = select(schema.run).where(schema.run.c.identity == run.identity)
            stored_run = connection.execute(same_identity).mappings().first()
            if stored_run is not None:
                if imported(stored_run["provenance"]).get("sha256") != bundle.sha256:
                    own_rows = rows_of(source, run.id)
                    _refuse_other_content(connection, stored_run, own_rows, store_name(engine.url))
                name = stored_run["name"]
                break
            names = set(connection.execute(select(schema.run.c.name)).scalars())
            name = _free_name(wanted_name or run.name, names)
            provenance = as_json({**run.provenance, IMPORTED: origin})
            changes = {"name": [name], "provenance": [provenance]}
            rows = watch("stored", own_values(source))
            with suppress(RunIsThere):
                run_id = add_rows(connection, rows, partial(_change_run, changes))
                write_columns(connection, run_id)
                is_new = True
                break
    return Imported(
        name, is_new, run.name, run.study, trials, bundle.sha256, is_other, bundle.is_anonymized
    )


def _change_run(
    changes: Mapping[str, Sequence[Any]], name: str, columns: list[Sequence[Any]]
) -> None:
    """Put other values in place of some columns of the run."""
    if name == "run":
        places = portable_columns(schema.run)
        for column, values in changes.items():
            columns[places.index(column)] = values


def _refuse_other_content(
    connection: Connection, stored_run: Mapping[Any, Any], rows: Iterable[Row], where: str
) -> None:
    """Raise BadInput when a run of this identity is not that of the bundle, tags and notes aside. rows: of it."""
    if sha256_of(rows_of(connection, stored_run["id"])) != sha256_of(rows):
        raise BadInput(
            f"this run is in the store as {stored_run['name']}, with other content",
            where=where,
            hint=f"vtax remove {stored_run['name']} removes it; then import the bundle again",
        )


def _free_name(name: str, names: set[str]) -> str:
    """Return a name that no run of a store has: this one, or what it becomes by an import."""
    free_name, number = name, 1
    while free_name in names:
        free_name = f"{name}-imported" if number == 1 else f"{name}-imported-{number}"
        number += 1
    return free_name


def _damaged(path: Path, reason: str) -> BadInput:
    hint = "copy it again, or export the run again"
    return BadInput(f"the bundle is damaged: {reason}", where=str(path), hint=hint)
