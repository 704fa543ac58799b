"""Which plug-ins that vtax does not ship gave a run its platforms, benchmarks, topologies and views."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of runs stored before, no plug-ins are known."""
    op.add_column("run", sa.Column("plugins", sa.JSON(), nullable=False, server_default="[]"))
