"""A view of all measurements with what they are of, for programs that read SQL."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the view `measurements`."""
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
