"""How Alembic runs our migrations: on the connection, and inside the transaction, that `migrate.py` hands it."""

from __future__ import annotations

from alembic import context

from vtax.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
context.run_migrations()
