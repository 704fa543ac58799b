"""A bundle becomes a run of a store: read into a private store, checked there as any stored run is, then copied.

The content of a bundle is untrusted. Every value is checked against its column and cleaned before it is stored; then
the whole run is read once, as a report would. Only what passes goes into the store, in one transaction.

The private store is a temporary database of SQLite, whose file has no name: the kernel removes it with the process,
however that ends, so nothing is registered in the journal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Float, String, func, select
from sqlalchemy.exc import IntegrityError

from vtax.errors import BadInput, DamagedRows, StoreError
from vtax.foreign_text import clean, cleaned
from vtax.store import schema
from vtax.store.bundle import Bundle, sha256_of
from vtax.store.contents import check_contents
from vtax.store.creating import create
from vtax.store.database import reading, shown, temporary_engine, writing
from vtax.store.provenance import IMPORTED, imported
from vtax.store.records import LISTS
from vtax.store.rows import checked, finite_lists
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
_LARGEST = 1.7e308  # as in store.rows
_SHORT, _MAX_KNOWN = 80, 10_000  # characters and number of texts that are remembered


@dataclass(frozen=True)
class Imported:
    """name: of the run in this store. is_new: it was not there before. was_called: its name in the bundle."""

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
) -> Imported:
    """Add the run of a bundle to a store. machine_id: of this host. watch: shows progress. accept: raises what is to
    be raised for a run that is not wanted, before the store is touched.

    A run that is there already, with the same content, is left as it is. Raises BadInput for a bundle that is
    damaged, of another schema, or of a run that is there with other content, and StoreError.
    """
    private = temporary_engine()
    try:
        run = _read(private, bundle, watch)
        accept(run)
        return _added(engine, private, run, bundle, machine_id, watch)
    finally:
        private.dispose()


@contextmanager
def opened_bundle(path: Path, watch: Watch = unwatched) -> Iterator[RunHandle]:
    """Yield the run of a bundle, checked, in no store; it lasts as long as the context. Raises as `import_bundle`."""
    private = temporary_engine()
    try:
        yield _read(private, Bundle(path), watch)
    finally:
        private.dispose()


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
        if isinstance(error, RunIsThere) or isinstance(
            error.__cause__, IntegrityError
        ):  # nobody else has this store
            raise _damaged(bundle.path, "rows contradict each other") from error
        raise
    return run


def _checked_rows(bundle: Bundle) -> Iterator[Row]:
    """Yield the rows of a bundle with checked and cleaned values. Raises ValueError, BadInput."""
    checks = {
        name: {column: _check_of(table.c[column]) for column in portable_columns(table)}
        for name, table in schema.metadata.tables.items()
    }
    for name, row in bundle.rows():
        check = checks.get(name)
        if check is None or row.keys() != check.keys():
            raise ValueError(f"a row of {name[:20]} has other columns than schema {schema.VERSION}")
        yield name, {column: check[column](value) for column, value in row.items()}


def _check_of(column: Any) -> Callable[[Any], Any]:
    """Return what makes a value of a column out of one of a bundle: `_value`, short for what most rows hold.

    Texts that come again and again, such as names of counters, are checked once.
    """
    known: dict[str, Any] = {}
    is_plain_number = isinstance(column.type, Float) and column.name == "value"

    def check(value: Any) -> Any:
        if is_plain_number and type(value) is float and abs(value) <= _LARGEST:
            return value
        if type(value) is not str or len(value) > _SHORT:
            return _value(column, value)
        if value not in known:
            if len(known) >= _MAX_KNOWN:
                known.clear()
            known[value] = _value(column, value)
        return known[value]

    return (lambda value: value) if column.foreign_keys else check


def _value(column: Any, value: Any) -> Any:
    """Return a value as its column holds it, which is no reference: `add_rows` checks these. Raises ValueError."""
    if column.name == "effective" and isinstance(value, dict):
        settings = cleaned({name: each for name, each in value.items() if name not in LISTS})
        return {**settings, **{name: finite_lists(value[name]) for name in LISTS if name in value}}
    found = checked(column, value)
    if isinstance(found, int) and not -_MAX_INTEGER <= found < _MAX_INTEGER:
        raise ValueError(f"{column.name} is larger than 64 bits")
    if (
        isinstance(found, str)
        and isinstance(column.type, String)
        and len(found) > (column.type.length or len(found))
    ):
        raise ValueError(f"{column.name} is longer than {column.type.length} characters")
    return found


def _check(private: Engine, run: RunHandle, path: Path) -> None:
    """Check what is of several rows. Raises StoreError, and BadInput for what no vtax exports."""
    trial = schema.trial
    if not _NAME.fullmatch(run.name) or run.name == "last" or not _IDENTITY.fullmatch(run.identity):
        raise _damaged(path, "its name or identity is none that vtax gives")
    if run.started_at > time.time() + _AHEAD_S:
        raise _damaged(path, "the run starts in the future")
    with reading(private) as connection:

        def has(condition: ColumnElement[bool]) -> bool:
            return (
                connection.execute(select(trial.c.id).where(condition).limit(1)).first() is not None
            )

        if run.status not in _STATUSES or has(trial.c.status.not_in(("ok", "failed"))):
            raise _damaged(path, "a status is none of a run or a trial that ended")
        if has(trial.c.session > len(run.sessions)):
            raise _damaged(path, "a trial is of a session that is not there")


def _added(
    engine: Engine, private: Engine, run: RunHandle, bundle: Bundle, machine_id: str, watch: Watch
) -> Imported:
    """Copy a run out of its private store, unless it is there, or another process brings it there meanwhile."""
    host = run.host.get("machine_id")
    is_other = not machine_id or host != machine_id
    table = schema.run
    with reading(private) as connection:
        trials = connection.execute(select(func.count()).select_from(schema.trial)).scalar_one()
    known = {
        "at": time.time(),
        "name": run.name,
        "sha256": bundle.sha256,
        "is_other_host": is_other,
        "is_anonymized": bundle.is_anonymized,
    }
    is_new = False
    while True:
        with reading(private) as source, writing(engine) as connection:
            names = set(connection.execute(select(table.c.name)).scalars())
            there = (
                connection.execute(select(table).where(table.c.identity == run.identity))
                .mappings()
                .first()
            )
            if there is not None:
                if imported(there["provenance"]).get("sha256") != bundle.sha256:
                    _refuse_other_content(
                        connection, there, rows_of(source, run.id), shown(engine.url)
                    )
                name = there["name"]
                break
            name = run.name if run.name not in names else _free(f"{run.name}-imported", names)
            changes = {"name": name, "provenance": {**run.provenance, IMPORTED: known}}
            rows = watch("stored", rows_of(source, run.id))
            with suppress(RunIsThere):
                add_rows(
                    connection, ((t, {**row, **changes} if t == "run" else row) for t, row in rows)
                )
                is_new = True
                break
    return Imported(
        name, is_new, run.name, run.study, trials, bundle.sha256, is_other, bundle.is_anonymized
    )


def _refuse_other_content(
    connection: Connection, there: Mapping[Any, Any], rows: Iterator[Row], where: str
) -> None:
    """Raise BadInput when a run of this identity is not that of the bundle, tags and notes aside. rows: of it."""
    if sha256_of(rows_of(connection, there["id"])) != sha256_of(rows):
        raise BadInput(
            f"this run is in the store as {there['name']}, with other content",
            where=where,
            hint=f"vtax remove {there['name']} removes it; then import the bundle again",
        )


def _free(stem: str, names: set[str]) -> str:
    return next(
        name
        for n in range(1, len(names) + 2)
        if (name := stem if n == 1 else f"{stem}-{n}") not in names
    )


def _damaged(path: Path, why: str) -> BadInput:
    hint = "copy it again, or export the run again"
    return BadInput(f"the bundle is damaged: {why}", where=str(path), hint=hint)
