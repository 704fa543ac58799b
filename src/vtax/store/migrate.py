"""Brings a database to the schema of this version, and costs one query when it is there already.

Alembic is imported only when there is something to do: reading its scripts takes longer than everything else that
opening a store does.
"""

from __future__ import annotations

from importlib.resources import files

from sqlalchemy import Connection, Engine, inspect, text

from vtax.errors import StoreError
from vtax.store.database import reading, shown, writing
from vtax.store.schema import VERSION

_VERSION_TABLE = "alembic_version"


def ensure_schema(engine: Engine) -> None:
    """Create or migrate the tables when they are not of `schema.VERSION`.

    Raises StoreError for a newer schema, for a database that belongs to something else, and for one that cannot be
    read or written. A failed migration leaves the database as it was.
    """
    with reading(engine) as connection:
        version = _version_of(connection, engine)
    if version != VERSION:
        with writing(engine) as connection:  # again under the write lock: another process may have been first
            version = _version_of(connection, engine)
            if version != VERSION:
                _upgrade(connection, engine, version)


def _version_of(connection: Connection, engine: Engine) -> str | None:
    tables = inspect(connection).get_table_names()
    if _VERSION_TABLE in tables:
        version = connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar()
        return None if version is None else str(version)
    if tables:
        raise StoreError(
            "this database belongs to something else",
            where=f"{shown(engine.url)}: table {tables[0]}",
            cure="give vtax a database of its own with VTAX_STORE",
        )
    return None


def _upgrade(connection: Connection, engine: Engine, version: str | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(files("vtax.store").joinpath("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()}
    if version is not None and version not in known:
        raise StoreError(
            f"the store is of schema {version}, newer than this vtax knows ({VERSION})",
            where=shown(engine.url),
            cure="use the newer vtax that wrote it, or name another store with VTAX_STORE",
        )
    command.upgrade(config, "head")
