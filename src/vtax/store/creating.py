"""Makes the tables of this version in an empty database, and costs one query where they are; roles of PostgreSQL.

Who loads campaigns into a PostgreSQL store needs no right to change tables, and who reads none to write.

Until 0.1.0 there is one schema, and stores of others are refused: see docs/decisions. The number of a store stands
where Alembic keeps it, which takes over when migrations begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from sqlalchemy import (
    Column,
    Connection,
    Dialect,
    Engine,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from vtax.errors import StoreError
from vtax.foreign_text import one_line
from vtax.store.database import reading, store_name, writing
from vtax.store.schema import MEASUREMENTS_VIEW, VERSION, metadata

READER, WRITER = "vtax_reader", "vtax_writer"
_MAKE_ROLE = (
    "DO $$ BEGIN CREATE ROLE {} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
)
_CREATING = 0x76746178
"""Number of the lock of PostgreSQL that is held while tables are made."""
_version = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32)),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def ensure_schema(engine: Engine) -> None:
    """Create the tables where there are none.

    Raises StoreError for another schema than `schema.VERSION`, for a database that belongs to something else, and for
    one that cannot be read or written.
    """
    with reading(engine) as connection:
        version = _version_of(connection)
    if version == VERSION:
        return
    with writing(engine) as connection:
        if connection.dialect.name == "postgresql":  # which has no write lock
            connection.execute(select(func.pg_advisory_xact_lock(_CREATING)))
        # again under the lock: another process may have been first
        version = _version_of(connection)
        if version is None:
            create(connection)
        elif version != VERSION:
            raise StoreError(
                f"the store is of schema {one_line(version, 20)}, which this vtax does not know; it reads {VERSION}",
                where=store_name(engine.url),
                hint="use the vtax that wrote it, or name another store with VTAX_STORE",
            )


def create(connection: Connection) -> None:
    """Make every table, and the view, in an empty database."""
    for statement in _statements(connection.dialect):
        connection.exec_driver_sql(statement)
    connection.execute(insert(_version).values(version_num=VERSION))


@lru_cache(maxsize=2)  # since every bundle that is imported gets a database of its own
def _statements(dialect: Dialect) -> tuple[str, ...]:
    """Return the SQL that makes them."""
    statements: list[ExecutableDDLElement] = []
    for table in (*metadata.sorted_tables, _version):
        statements.append(CreateTable(table))
        statements += map(CreateIndex, sorted(table.indexes, key=lambda index: str(index.name)))
    texts = [str(statement.compile(dialect=dialect)) for statement in statements]
    return (*texts, MEASUREMENTS_VIEW)


def _version_of(connection: Connection) -> str | None:
    tables = inspect(connection).get_table_names()
    if _version.name in tables:
        version = connection.execute(select(_version.c.version_num)).scalar()
        return None if version is None else str(version)
    if tables:
        raise StoreError(
            "this database belongs to another application",
            where=f"{store_name(connection.engine.url)}: table {tables[0]}",
            hint="name a separate database with VTAX_STORE",
        )
    return None


def role_statements() -> Iterator[str]:
    """Yield the SQL that makes both roles, without a login, in a database that has the tables; it may be repeated.

    A writer adds, changes and removes runs; a reader looks at them, through the views too.
    """
    names, sequences = [], []
    for table in metadata.sorted_tables:
        names.append(table.name)
        if "id" in table.c:
            sequences.append(f"{table.name}_id_seq")
    readable = ", ".join((*names, _version.name, "measurements"))
    for role in (READER, WRITER):
        yield _MAKE_ROLE.format(role)
    yield f"GRANT SELECT ON {readable} TO {READER}, {WRITER};"
    yield f"GRANT INSERT, UPDATE, DELETE ON {', '.join(names)} TO {WRITER};"
    yield f"GRANT USAGE, UPDATE ON SEQUENCE {', '.join(sequences)} TO {WRITER};"
