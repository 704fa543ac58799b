"""Identity and provenance of a run: what makes it the same run in every store, and where it is from."""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both columns. The identity of a run stored before follows from what it began with, in every copy of it."""
    op.add_column("run", sa.Column("identity", sa.String(32), nullable=False, server_default=""))
    op.add_column("run", sa.Column("provenance", sa.JSON(), nullable=False, server_default="{}"))
    run = sa.table(
        "run", sa.column("id", sa.Integer), sa.column("identity", sa.String), sa.column("study", sa.String),
        sa.column("seed", sa.BigInteger), sa.column("started_at", sa.Float),
    )  # fmt: skip
    connection = op.get_bind()
    for row in connection.execute(sa.select(run.c.id, run.c.study, run.c.seed, run.c.started_at)).all():
        identity = hashlib.sha256(json.dumps([row.study, row.seed, row.started_at]).encode()).hexdigest()[:32]
        connection.execute(sa.update(run).where(run.c.id == row.id).values(identity=identity))
