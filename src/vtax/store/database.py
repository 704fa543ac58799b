"""Connections to SQLite or PostgreSQL; their errors become StoreError.

SQLite runs in WAL mode with `synchronous=FULL`: what a transaction wrote that has ended has survived SIGKILL and a
power cut; short trials of a guest share one, since it costs an fsync. Writers take the lock when they begin
(`BEGIN IMMEDIATE`), so that two processes wait for each other instead of failing half-way.

Looking needs no root: of a SQLite file that this user may not write a copy is read while there is a write-ahead log
(see `snapshot`). Without one everything is in the file itself, which `immutable=1` reads alone. See "Read-Only
Databases" in SQLite's text on WAL.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    Table,
    Text,
    cast,
    create_engine,
    event,
    func,
    insert,
    select,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from vtax.errors import StoreBusy, StoreError
from vtax.extras import install_hint
from vtax.foreign_data import NestedTooDeep, parse_json
from vtax.foreign_text import REPLACEMENT, one_line
from vtax.host.lock import locker_of
from vtax.store.snapshot import Snapshot, close_index, index_of, log_of

BUSY_TIMEOUT_MS = 20_000
SYNCHRONOUS = "FULL"
"""SQLite's setting of that name. `OFF` is for stores of tests, which need survive no power cut."""
_NEARLY_FULL_BYTES = 1 << 20
_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_URLS = "write sqlite:////absolute/path or postgresql://user@host/database"

_SQLITE_ERRORS = {
    "SQLITE_NOTADB": (
        "the store is not a database, or is damaged beyond its first page",
        "nothing was changed; move the file away, or name another store with VTAX_STORE",
    ),
    "SQLITE_CORRUPT": (
        "the store is damaged",
        "nothing was changed; to recover data: sqlite3 FILE .recover | sqlite3 NEWFILE",
    ),
    "SQLITE_READONLY": (
        "the store is not writable",
        "run with sudo, or as the user who owns it, or name another store with VTAX_STORE",
    ),
    "SQLITE_CANTOPEN": (
        "the store cannot be opened",
        "check that its directory exists and may be written, or name another store with VTAX_STORE",
    ),
    "SQLITE_BUSY": (
        "the store is in use by another process",
        "wait for that process to end, then try again",
    ),
    "SQLITE_FULL": (
        "the disk of the store is full; everything stored before is kept",
        "free some space, then `vtax resume`",
    ),
}

# by SQLSTATE: PostgreSQL's manual, appendix A
_POSTGRESQL_ERRORS: Mapping[str, tuple[type[StoreError], str, str]] = {
    "25006": (
        StoreError,
        "the store is not writable: its server allows only to read",
        "name the server that takes writes with VTAX_STORE",
    ),
    "40P01": (
        StoreBusy,
        "the store was locked by another process, which waited for this one",
        "try again",
    ),
    "42501": (
        StoreError,
        "this user has no right to do that in the store",
        "log in as a member of vtax_reader or vtax_writer: vtax campaign roles",
    ),
    "53100": (StoreError, *_SQLITE_ERRORS["SQLITE_FULL"]),
    "53300": (
        StoreBusy,
        "the server of the store has no connection left for this user",
        "try again when others have ended",
    ),
    "55P03": (
        StoreBusy,
        "another process holds a lock in the store for longer than lock_timeout",
        "try again when it has ended",
    ),
    "57014": (
        StoreBusy,
        "the server of the store ended a statement that took too long",
        "try again when it has less to do, or raise its statement_timeout",
    ),
}
_REFUSED = "FATAL:"
_REFUSED_FOR_NOW = (
    "too many connections",
    "remaining connection slots",
    "starting up",
    "shutting down",
    "not accepting connections",
)


def make_engine(place: str | Path) -> Engine:
    """Return an engine for a SQLAlchemy URL or an SQLite file. Connects to nothing yet.

    Raises StoreError for one that cannot be used. A URL that cannot be read is not shown: it may hold a password
    anywhere.
    """
    url = _url(place)
    problem = _problem(url)
    if problem:
        raise StoreError(problem, where="VTAX_STORE", hint=_URLS)
    try:
        engine = create_engine(
            url.set(drivername=_DRIVERS[url.drivername]),
            json_serializer=as_json,
            json_deserializer=_from_json,
        )
    except (ArgumentError, ValueError) as error:
        raise StoreError("the store cannot be used", where=store_name(url), hint=_URLS) from error
    except ImportError as error:
        raise StoreError(
            "a PostgreSQL store needs the Python package psycopg", hint=install_hint("psycopg")
        ) from error
    if engine.url.get_backend_name() == "sqlite":
        event.listen(engine, "do_connect", _open_read_only)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        event.listen(engine, "close", _remove_snapshot)
    return engine


@contextmanager
def temporary_engine() -> Iterator[Engine]:
    """Yield an engine of an empty SQLite database with one connection, which ends with the block or the process.

    What its cache does not hold is in a file without a name: see "Temporary Databases" in SQLite's documentation. An
    engine serves again for the next database, since it keeps its statements compiled.
    """
    engine = _idle.pop() if _idle else _temporary_engine()
    try:
        yield engine
    finally:
        engine.dispose()
        _idle.append(engine)


_idle: list[Engine] = []


def _temporary_engine() -> Engine:
    engine = create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect("", check_same_thread=False),
        poolclass=StaticPool,
        json_serializer=as_json,
        json_deserializer=_from_json,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _url(place: str | Path) -> URL:
    if isinstance(place, Path):
        return URL.create("sqlite", database=str(place))
    try:
        url = make_url(place)
    except (ArgumentError, ValueError):  # whose text has what it could not read
        raise StoreError("this is not a database URL", where="VTAX_STORE", hint=_URLS) from None
    if url.get_backend_name() != "sqlite" and (
        place.count("@") > 1 or "@" in place.partition("?")[2]
    ):
        raise StoreError(  # SQLAlchemy takes what follows the first @ of a password for the host, which is shown
            "the database URL has an @ that does not end the user and password",
            where="VTAX_STORE",
            hint=f"write it as %40; {_URLS}",
        )
    return url


def _problem(url: URL) -> str:
    """Return why a URL cannot be a store's; empty when it can."""
    if url.drivername not in _DRIVERS:
        return "vtax does not support this kind of database"
    if url.get_backend_name() != "sqlite":
        return ""
    if url.host or url.username or url.password or url.port:
        return "an SQLite store is a file: three slashes before a relative path, four before an absolute one"
    if url.query and not (url.database or "").startswith("file:"):
        return "the URL of an SQLite store has no parameters; write ? as %3F in the name of a file"
    return "the name of a file has no null byte" if "\0" in (url.database or "") else ""


def sqlite_file(url: URL) -> Path | None:
    """Return the file of a SQLite store; None for other databases and for one in memory."""
    if (
        url.get_backend_name() == "sqlite"
        and url.database
        and not url.database.startswith((":memory:", "file:"))
    ):
        return Path(url.database)
    return None


def refuse_writes(engine: Engine) -> None:
    """Let every connection that is taken from now on refuse to write; the ones that are open stay open."""
    is_sqlite = engine.dialect.name == "sqlite"

    def taken(connection: Any, _: object, __: object) -> None:
        if is_sqlite:
            connection.execute("PRAGMA query_only = ON").close()
        else:
            connection.read_only = True

    event.listen(engine, "checkout", taken)


def last_write(engine: Engine) -> Hashable:
    """Return what differs once a store was written to: times and sizes of SQLite's files, PostgreSQL's transactions.

    Raises StoreError.
    """
    file = sqlite_file(engine.url)
    if file is not None:
        return tuple(map(_file_state, (file, log_of(file))))
    with reading(engine) as connection:
        return str(connection.execute(select(cast(func.pg_current_snapshot(), Text))).scalar())


def _file_state(file: Path) -> tuple[int, int, int] | None:
    """Return the state of a file with content: a log without one comes and goes with readers."""
    try:
        state = file.stat()
    except OSError:  # it is not there, or not ours to see
        return None
    return (state.st_ino, state.st_size, state.st_mtime_ns) if state.st_size else None


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that sees one consistent state. Raises StoreError."""
    with translated_errors(engine.url), engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Yield a connection with one transaction: committed when the block ends, rolled back whole when it raises. Raises StoreError."""
    with (
        translated_errors(engine.url),
        engine.connect().execution_options(vtax_writes=True) as connection,
        connection.begin(),
    ):
        yield connection


def new_id(connection: Connection, table: Table, row: Mapping[str, Any]) -> int:
    """Insert a row into a table with an `id`; returns the id."""
    key = connection.execute(insert(table), dict(row)).inserted_primary_key
    assert key is not None
    return int(key[0])


def insert_new(connection: Connection, table: Table) -> Any:
    """Return a statement that inserts rows, but for those that are there already by a primary or unique key."""
    if connection.dialect.name == "postgresql":
        # takes a twentieth of what every command imports
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


@contextmanager
def translated_errors(url: URL) -> Iterator[None]:
    """Turn exceptions of the database or the file system into a StoreError with a hint."""
    try:
        yield
    except DBAPIError as error:
        raise _explained(error.orig or error, url) from error
    except _driver_errors() as error:  # of what SQLAlchemy does not carry out
        raise _explained(error, url) from error
    except UnicodeDecodeError as error:  # what SQLite says quotes a damaged page
        sentence, hint = _SQLITE_ERRORS["SQLITE_CORRUPT"]
        raise StoreError(sentence, where=store_name(url), hint=hint) from error
    except PermissionError as error:
        raise _not_readable(Path(error.filename or store_name(url))) from error
    except (SQLAlchemyError, OSError) as error:
        raise StoreError(f"the store failed: {error}", where=store_name(url)) from error


def _driver_errors() -> tuple[type[Exception], ...]:
    """Return what a driver that is in use raises."""
    psycopg = sys.modules.get("psycopg")
    return (sqlite3.Error, psycopg.Error) if psycopg else (sqlite3.Error,)


def store_name(url: URL) -> str:
    """Return the name of a store in messages: its file, or its URL without password and parameters."""
    return str(sqlite_file(url) or url.set(query={}).render_as_string(hide_password=True))


def _from_json(text: str) -> Any:
    """Return a value of a column; in place of one that is nested too deep, a text that says no more."""
    try:
        return parse_json(text)
    except NestedTooDeep:
        return REPLACEMENT


_ENCODER = json.JSONEncoder(allow_nan=False, default=str)  # which `dumps` makes for every value


def as_json(value: Any) -> str:
    """Return JSON that every database takes: a number that is not finite becomes null, an unknown object its text."""
    try:
        return _ENCODER.encode(value)
    except ValueError:
        value_without_nan = json.loads(
            json.dumps(value, default=str), parse_constant=lambda _: None
        )
        return json.dumps(value_without_nan)


def _explained(error: BaseException, url: URL) -> StoreError:
    place = store_name(url)
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_IOERR") and _disk_is_full(url):
        name = "SQLITE_FULL"
    for code, (sentence, hint) in _SQLITE_ERRORS.items():
        if name.startswith(code):
            if code == "SQLITE_BUSY":
                return StoreBusy(sentence + _lock_holder(url), where=place, hint=hint)
            return StoreError(sentence, where=place, hint=hint)
    if url.get_backend_name() == "postgresql":
        return _explained_of_server(error, place)
    return StoreError(f"the store failed: {_first_line(error)}", where=place)


def _explained_of_server(error: BaseException, place: str) -> StoreError:
    """Return what a PostgreSQL server or its driver says; StoreBusy for what may pass."""
    sqlstate = getattr(error, "sqlstate", None) or ""
    if sqlstate in _POSTGRESQL_ERRORS:
        kind, sentence, hint = _POSTGRESQL_ERRORS[sqlstate]
        return kind(sentence, where=place, hint=hint)
    text = _first_line(error)
    if sqlstate[:2] not in ("", "08", "28", "3D", "57"):
        return StoreError(f"the store failed: {text}", where=place)
    sentence = f"the store cannot be reached: {text}"
    # a connection that is refused has no sqlstate
    is_refused = _REFUSED in text or sqlstate[:2] in ("28", "3D")
    if is_refused and not any(reason in text for reason in _REFUSED_FOR_NOW):
        hint = "check user, password and database in VTAX_STORE"
        return StoreError(sentence, where=place, hint=hint)
    return StoreBusy(sentence, where=place, hint="try again when the server answers")


def _first_line(error: BaseException) -> str:
    """Return what a driver says, without the statement and the advice below it."""
    return one_line(str(error).strip().partition("\n")[0], 300)


def _lock_holder(url: URL) -> str:
    """Return the lock holder of a SQLite store, as an addition to a sentence; empty when unknown."""
    file = sqlite_file(url)
    if file is None:
        return ""
    holder = locker_of(index_of(file)) or locker_of(file)
    return f": {holder}" if holder else ""


def _disk_is_full(url: URL) -> bool:
    file = sqlite_file(url)
    if file is None:
        return False
    space = os.statvfs(file.parent)
    return space.f_bavail * space.f_frsize < _NEARLY_FULL_BYTES


def _open_read_only(
    dialect: object, record: Any, arguments: list[Any], options: dict[str, Any]
) -> None:
    """Open a file that this user may not write read-only. Raises StoreError."""
    if not arguments or str(arguments[0]).startswith((":memory:", "file:")):
        return
    file = Path(arguments[0])
    if not file.exists() or (file.is_file() and _may(file, os.W_OK) and _may(file.parent, os.W_OK)):
        close_index(file)
        return
    if not file.is_file():
        return
    log = log_of(file)
    has_log = log.exists()
    if not _may(file, os.R_OK):
        raise _not_readable(file)
    if has_log and not _may(log, os.R_OK):
        raise _not_readable(log)
    record.info["vtax_read_only"] = True
    if has_log:
        copy = record.info["vtax_snapshot"] = Snapshot(file)
        arguments[0] = str(copy.file)
        return
    arguments[0] = f"{file.absolute().as_uri()}?mode=ro&immutable=1"
    options["uri"] = True


def _not_readable(file: Path) -> StoreError:
    return StoreError(
        "the store may not be read by this user",
        where=str(file),
        hint="run with sudo, or name another store with VTAX_STORE",
    )


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _prepare_sqlite(connection: Any, record: Any) -> None:
    # transactions begin where _begin_sqlite says, not where pysqlite guesses
    connection.isolation_level = None
    try:
        for pragma in (
            f"busy_timeout = {BUSY_TIMEOUT_MS}",
            "query_only = ON" if record.info.get("vtax_read_only") else "journal_mode = WAL",
            f"synchronous = {SYNCHRONOUS}",
            "foreign_keys = ON",
            "cache_size = -32768",
        ):
            connection.execute(f"PRAGMA {pragma}").close()
    except BaseException:
        connection.close()
        raise


def _remove_snapshot(connection: object, record: Any) -> None:
    copy = record.info.pop("vtax_snapshot", None)
    if copy:
        copy.remove()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("vtax_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
