"""Which program a benchmark runs, beside the version of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_TOOLS = {
    "iperf2": "iperf",
    "stream": "vtax-stream",
    "sysbench-cpu": "sysbench",
}  # else it is called as its benchmark


def upgrade() -> None:
    """Add the column; of runs stored before, the tools of the benchmarks that vtax shipped are known."""
    op.add_column("cell", sa.Column("tool", sa.Text(), nullable=False, server_default=""))
    cell = sa.table("cell", sa.column("benchmark", sa.Text), sa.column("tool", sa.Text))
    for benchmark, tool in _TOOLS.items():
        op.get_bind().execute(sa.update(cell).where(cell.c.benchmark == benchmark).values(tool=tool))
