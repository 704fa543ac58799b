"""The schema of the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table and the view. Long by nature: one statement per table and index."""
    op.create_table(
        "run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("study", sa.String(length=80), nullable=False),
        sa.Column("declared", sa.JSON(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("vtax_version", sa.String(length=32), nullable=False),
        sa.Column("image_key", sa.String(length=64), nullable=False),
        sa.Column("host", sa.JSON(), nullable=False),
        sa.Column("untested", sa.JSON(), nullable=False, server_default="[]"),
        sa.Column("plugins", sa.JSON(), nullable=False, server_default="[]"),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("active_s", sa.Float(), nullable=True),
        sa.Column("stopped_because", sa.Text(), nullable=False),
        sa.Column("identity", sa.String(length=32), nullable=False, server_default=""),
        sa.Column("provenance", sa.JSON(), nullable=False, server_default="{}"),
        sa.Column("tags", sa.JSON(), nullable=False, server_default="[]"),
        sa.Column("notes", sa.JSON(), nullable=False, server_default="[]"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
        sa.UniqueConstraint("name", name=op.f("uq_run_name")),
    )
    op.create_table(
        "session",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("host", sa.JSON(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_session_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_session")),
    )
    op.create_index("ix_session_run_id_number", "session", ["run_id", "number"], unique=True)
    op.create_table(
        "metric",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("benchmark", sa.String(length=80), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("unit", sa.String(length=40), nullable=False),
        sa.Column("better", sa.String(length=8), nullable=False),
        sa.Column("is_primary", sa.Boolean(), nullable=False),
        sa.Column("average", sa.String(length=12), nullable=False, server_default="arithmetic"),
        sa.Column("fixed_work", sa.String(length=80), nullable=False, server_default=""),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_metric_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metric")),
    )
    op.create_index("ix_metric_run_id_benchmark_name", "metric", ["run_id", "benchmark", "name"], unique=True)
    op.create_table(
        "platform",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("identity", sa.JSON(), nullable=False),
        sa.Column("available", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("marks", sa.JSON(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("is_baseline", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_platform_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_platform")),
    )
    op.create_index("ix_platform_run_id_name", "platform", ["run_id", "name"], unique=True)
    op.create_table(
        "cell",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("platform_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=16), nullable=False),
        sa.Column("point", sa.String(length=16), nullable=False),
        sa.Column("benchmark", sa.String(length=80), nullable=False),
        sa.Column("label", sa.String(length=80), nullable=False),
        sa.Column("tool_version", sa.Text(), nullable=False),
        sa.Column("topology", sa.String(length=40), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("link", sa.JSON(), nullable=False),
        sa.Column("levels", sa.JSON(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False, server_default=""),
        sa.ForeignKeyConstraint(
            ["platform_id"], ["platform.id"], name=op.f("fk_cell_platform_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_cell_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cell")),
    )
    op.create_index(op.f("ix_cell_platform_id"), "cell", ["platform_id"], unique=False)
    op.create_index("ix_cell_run_id_key", "cell", ["run_id", "key"], unique=True)
    op.create_table(
        "guest",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("platform_id", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("topology", sa.String(length=40), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("ready_s", sa.Float(), nullable=True),
        sa.Column("clock_offset_s", sa.Float(), nullable=True),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("notes", sa.JSON(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["platform_id"], ["platform.id"], name=op.f("fk_guest_platform_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_guest_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_guest")),
    )
    op.create_index(op.f("ix_guest_platform_id"), "guest", ["platform_id"], unique=False)
    op.create_index(op.f("ix_guest_run_id"), "guest", ["run_id"], unique=False)
    op.create_table(
        "trial",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("guest_id", sa.Integer(), nullable=True),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("is_warmup", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(length=8), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("outside_s", sa.Float(), nullable=True),
        sa.Column("inside_s", sa.Float(), nullable=True),
        sa.Column("effective", sa.JSON(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("session", sa.Integer(), nullable=False, server_default="1"),
        sa.ForeignKeyConstraint(["cell_id"], ["cell.id"], name=op.f("fk_trial_cell_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["guest_id"], ["guest.id"], name=op.f("fk_trial_guest_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_trial_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trial")),
    )
    op.create_index("ix_trial_cell_id_block_number", "trial", ["cell_id", "block", "number"], unique=True)
    op.create_index(op.f("ix_trial_guest_id"), "trial", ["guest_id"], unique=False)
    op.create_index("ix_trial_run_id_position", "trial", ["run_id", "position"], unique=False)
    op.create_table(
        "counter",
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("place", sa.String(length=20), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trial.id"], name=op.f("fk_counter_trial_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("trial_id", "place", "name", name=op.f("pk_counter")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "measurement",
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("metric_id", sa.Integer(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["metric_id"], ["metric.id"], name=op.f("fk_measurement_metric_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["trial_id"], ["trial.id"], name=op.f("fk_measurement_trial_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("trial_id", "metric_id", name=op.f("pk_measurement")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "output",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("argv", sa.JSON(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("stdout", sa.LargeBinary(), nullable=False),
        sa.Column("stderr", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trial.id"], name=op.f("fk_output_trial_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_output")),
    )
    op.create_index(op.f("ix_output_trial_id"), "output", ["trial_id"], unique=False)
    op.create_table(
        "warning",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("cell_id", sa.Integer(), nullable=True),
        sa.Column("trial_id", sa.Integer(), nullable=True),
        sa.Column("code", sa.String(length=40), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["cell_id"], ["cell.id"], name=op.f("fk_warning_cell_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_warning_run_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["trial_id"], ["trial.id"], name=op.f("fk_warning_trial_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_warning")),
    )
    op.create_index(op.f("ix_warning_cell_id"), "warning", ["cell_id"], unique=False)
    op.create_index(op.f("ix_warning_run_id"), "warning", ["run_id"], unique=False)
    op.create_index(op.f("ix_warning_trial_id"), "warning", ["trial_id"], unique=False)
    op.execute(
        """CREATE VIEW measurements AS
SELECT run.name AS run, run.study AS study, platform.name AS platform, cell.benchmark AS benchmark,
  cell.label AS label, cell.tool_version AS tool_version, cell.topology AS topology, cell.parameters AS parameters,
  cell.link AS link, cell.key AS cell, cell.point AS point, cell.levels AS levels, trial.block + 1 AS block,
  trial.session AS session, trial.number AS number, trial.position AS position, trial.is_warmup AS is_warmup,
  trial.status AS status,
  trial.error AS error, trial.started_at AS started_at, trial.outside_s AS outside_s, trial.inside_s AS inside_s,
  trial.effective AS effective, metric.name AS metric, measurement.value AS value, metric.unit AS unit,
  metric.better AS better
FROM trial JOIN run ON run.id = trial.run_id JOIN cell ON cell.id = trial.cell_id
  JOIN platform ON platform.id = cell.platform_id LEFT JOIN measurement ON measurement.trial_id = trial.id
  LEFT JOIN metric ON metric.id = measurement.metric_id"""
    )
