"""Roles of a PostgreSQL store: who loads campaigns needs no right to change tables, who reads none to write."""

from __future__ import annotations

from collections.abc import Iterator

from vtax.store import schema

READER, WRITER = "vtax_reader", "vtax_writer"
_MAKE = "DO $$ BEGIN CREATE ROLE {} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"


def statements() -> Iterator[str]:
    """Yield the SQL that makes both, without a login, in a database that has the tables; it may be repeated.

    A writer adds, changes and removes runs; a reader looks at them, through the views too.
    """
    tables = [table.name for table in schema.metadata.sorted_tables]
    sequences = [
        f"{table.name}_id_seq" for table in schema.metadata.sorted_tables if "id" in table.c
    ]
    looked_at = ", ".join((*tables, "alembic_version", "measurements"))
    yield from (_MAKE.format(role) for role in (READER, WRITER))
    yield f"GRANT SELECT ON {looked_at} TO {READER}, {WRITER};"
    yield f"GRANT INSERT, UPDATE, DELETE ON {', '.join(tables)} TO {WRITER};"
    yield f"GRANT USAGE, UPDATE ON SEQUENCE {', '.join(sequences)} TO {WRITER};"
