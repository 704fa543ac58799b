"""Sessions of a run: the boot of the host, and the hour, that blocks share."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the column; a run stored before is one session, whose boot is not known."""
    session = op.create_table(
        "session",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("boot_id", sa.String(64), nullable=False),
        sa.Column("host", sa.JSON(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_session_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_session"),
    )
    op.create_index("ix_session_run_id_number", "session", ["run_id", "number"], unique=True)
    op.add_column("trial", sa.Column("session", sa.Integer(), nullable=False, server_default="1"))
    run = sa.table("run", sa.column("id", sa.Integer), sa.column("host", sa.JSON), sa.column("started_at", sa.Float))
    rows = sa.select(run.c.id, sa.literal(1), sa.literal(""), run.c.host, run.c.started_at)
    names = ["run_id", "number", "boot_id", "host", "started_at"]
    op.get_bind().execute(sa.insert(session).from_select(names, rows))
