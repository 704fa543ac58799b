"""Tags and notes of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both columns; the runs stored before have none."""
    op.add_column("run", sa.Column("tags", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("run", sa.Column("notes", sa.JSON(), nullable=False, server_default="[]"))
