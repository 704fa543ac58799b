"""How long every run was carried out, without the pauses before it was resumed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of what was stored before, only start and end are known."""
    op.add_column("run", sa.Column("active_s", sa.Float(), nullable=True))
