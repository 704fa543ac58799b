"""Which parameter makes a metric a rate over fixed work, for every metric."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of what was stored before, only sysbench-cpu's rate has such a parameter."""
    op.add_column("metric", sa.Column("fixed_work", sa.String(80), nullable=False, server_default=""))
    op.execute("UPDATE metric SET fixed_work = 'events' WHERE benchmark = 'sysbench-cpu' AND name = 'events_per_s'")
