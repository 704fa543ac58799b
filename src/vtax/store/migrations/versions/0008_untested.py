"""Which points of a run had no cell on a platform, since it cannot carry them, and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; runs stored before tested every point on every platform that ran."""
    op.add_column("run", sa.Column("untested", sa.JSON(), nullable=False, server_default="[]"))
