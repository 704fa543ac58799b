"""Brings a database to the schema of this version, and costs one query when it is there already.

An empty database gets the tables at once; the migrations make the same ones, which a test proves. Alembic is
imported only for a database of another schema: reading its scripts takes longer than all else that opening a store
does.
"""

from __future__ import annotations

from importlib.resources import files

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    insert,
    inspect,
    select,
    text,
)  # fmt: skip

from vtax.errors import StoreError
from vtax.foreign_text import one_line
from vtax.store.database import reading, shown, writing
from vtax.store.schema import MEASUREMENTS_VIEW, VERSION, metadata

# Alembic's own table, of which it makes the same one.
_version = Table(
    "alembic_version", MetaData(),
    Column("version_num", String(32)),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)  # fmt: skip


def ensure_schema(engine: Engine) -> None:
    """Create or migrate the tables when they are not of `schema.VERSION`.

    Raises StoreError for an unknown schema, for a database that belongs to something else, and for one that cannot be
    read or written. A failed migration leaves the database as it was.
    """
    with reading(engine) as connection:
        version = _version_of(connection)
    if version == VERSION:
        return
    with writing(engine) as connection:  # again under the write lock: another process may have been first
        version = _version_of(connection)
        if version is None:
            create(connection)
        elif version != VERSION:
            upgrade(connection)


def create(connection: Connection) -> None:
    """Make every table, and the view, in an empty database."""
    metadata.create_all(connection)
    connection.execute(text(MEASUREMENTS_VIEW))
    _version.create(connection)
    connection.execute(insert(_version).values(version_num=VERSION))


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations that the database has not had yet, up to a revision.

    Raises StoreError when the database is of a schema that this vtax does not know.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(files("vtax.store").joinpath("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()}
    version = _version_of(connection)
    if version is not None and version not in known:
        raise StoreError(
            f"the store is of schema {one_line(version, 20)}, which this vtax does not know; it reads {VERSION}",
            where=shown(connection.engine.url),
            hint="use the vtax that wrote it, or name another store with VTAX_STORE",
        )
    command.upgrade(config, revision)


def _version_of(connection: Connection) -> str | None:
    tables = inspect(connection).get_table_names()
    if _version.name in tables:
        version = connection.execute(select(_version.c.version_num)).scalar()
        return None if version is None else str(version)
    if tables:
        raise StoreError(
            "this database belongs to another application",
            where=f"{shown(connection.engine.url)}: table {tables[0]}",
            hint="name a separate database with VTAX_STORE",
        )
    return None
