"""How the trials of a block are averaged, for every metric."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; what was stored before was averaged arithmetically."""
    op.add_column("metric", sa.Column("average", sa.String(12), nullable=False, server_default="arithmetic"))
