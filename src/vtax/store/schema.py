"""The tables. One row per thing of the vocabulary.

Times are seconds of the Unix epoch by the host's clock, durations seconds of its monotonic clock. JSON columns hold
what is only shown, never what is searched. Measurements and counters, the two tables that grow to millions, are
clustered by trial (their primary key is the trial), so that one run is one range of the file.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

VERSION = "0003"  # of the store that this vtax reads and writes
BUNDLE_VERSION = "0001"  # of the tables in a bundle, which has no parts

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)

run = Table(
    "run",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(80), nullable=False, unique=True),  # e.g. tour-3: what people type
    Column("study", String(80), nullable=False),
    Column("declared", JSON, nullable=False),  # the whole study, defaults included
    Column("seed", BigInteger, nullable=False),
    Column(
        "status", String(16), nullable=False
    ),  # running | interrupted | paused | finished | failed
    Column("vtax_version", String(32), nullable=False),
    Column("image_key", String(64), nullable=False),
    Column("host", JSON, nullable=False),  # what the host is: see counters.host
    Column(
        "untested", JSON, nullable=False, server_default="[]"
    ),  # points without a cell: UntestedRecord
    Column(
        "plugins", JSON, nullable=False, server_default="[]"
    ),  # those that vtax does not ship: PluginRecord
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    Column(
        "active_s", Float
    ),  # that it was carried out, pauses between interruption and resumption left out
    Column("stopped_because", Text, nullable=False, default=""),
    Column(
        "identity", String(32), nullable=False, unique=True
    ),  # the same in every store that has the run
    Column(
        "provenance", JSON, nullable=False, server_default="{}"
    ),  # where it is from: see store.provenance
    Column("tags", JSON, nullable=False, server_default="[]"),  # texts: see store.annotations
    Column("notes", JSON, nullable=False, server_default="[]"),  # texts
)

part = Table(  # of a run: whose guests, trials and warnings it has; see store.parts
    "part",
    metadata,
    Column("run_id", ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
    Column("place", Integer, primary_key=True),  # in the order of the sessions
    Column("member_id", ForeignKey("run.id"), nullable=False, index=True),
    # what is added to numbers of the member
    Column("session", Integer, nullable=False, default=0),
    Column("block", Integer, nullable=False, default=0),
    Column("number", Integer, nullable=False, default=0),  # of a trial before the first block
    Column("position", Integer, nullable=False, default=0),
    sqlite_with_rowid=False,
)

session = Table(
    "session",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),  # from 1, in the order they began
    Column(
        "boot_id", String(64), nullable=False
    ),  # of the host's kernel; empty when it is not known
    Column("host", JSON, nullable=False),  # what the host was when it began: see counters.host
    Column("started_at", Float, nullable=False),
    Index("ix_session_run_id_number", "run_id", "number", unique=True),
)

platform = Table(
    "platform",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),  # in the study's own order
    Column("name", String(80), nullable=False),
    Column("identity", JSON, nullable=False),  # driver and options
    Column("available", Boolean, nullable=False),
    Column("reason", Text, nullable=False, default=""),  # why it was not tested
    Column("hint", Text, nullable=False, default=""),
    Column("marks", JSON, nullable=False),  # emulated, nested, ...
    Column("version", Text, nullable=False, default=""),
    Column("is_baseline", Boolean, nullable=False, default=False),
    Index("ix_platform_run_id_name", "run_id", "name", unique=True),
)

cell = Table(
    "cell",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column(
        "platform_id", ForeignKey("platform.id", ondelete="CASCADE"), nullable=False, index=True
    ),
    Column("key", String(16), nullable=False),  # hash of everything that defines it
    Column(
        "point", String(16), nullable=False
    ),  # the same without the platform: cells of one point are compared
    Column("benchmark", String(80), nullable=False),
    Column("label", String(80), nullable=False),  # of the benchmark table of the study
    Column("tool_version", Text, nullable=False, default=""),
    Column("topology", String(40), nullable=False, default=""),
    Column("parameters", JSON, nullable=False),
    Column("link", JSON, nullable=False),
    Column("levels", JSON, nullable=False),  # only what varies: factor -> level
    Column(
        "tool", Text, nullable=False, default="", server_default=""
    ),  # the program that the benchmark runs
    Index("ix_cell_run_id_key", "run_id", "key", unique=True),
)

metric = Table(
    "metric",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("benchmark", String(80), nullable=False),
    Column("name", String(80), nullable=False),
    Column("title", Text, nullable=False, default=""),
    Column("unit", String(40), nullable=False),
    Column("better", String(8), nullable=False),  # higher | lower
    Column("role", String(8), nullable=False),  # speed | cost | size | count; see stats.terms
    Column("is_primary", Boolean, nullable=False, default=False),
    Column(
        "average", String(12), nullable=False, server_default="arithmetic"
    ),  # of a block's trials: stats.means
    Column(
        "fixed_work", String(80), nullable=False, server_default=""
    ),  # parameter that makes the average harmonic
    Index("ix_metric_run_id_benchmark_name", "run_id", "benchmark", "name", unique=True),
)

guest = Table(
    "guest",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ForeignKey("run.id", ondelete="CASCADE"), nullable=False, index=True),
    Column(
        "platform_id", ForeignKey("platform.id", ondelete="CASCADE"), nullable=False, index=True
    ),
    Column("block", Integer, nullable=False),
    Column("topology", String(40), nullable=False, default=""),
    Column("started_at", Float, nullable=False),
    Column("ready_s", Float),  # start to agent ready
    Column("clock_offset_s", Float),
    Column("facts", JSON, nullable=False),  # the equivalence audit
    Column("notes", JSON, nullable=False),  # limits it could not be given, ...
    Column("error", Text, nullable=False, default=""),
)

trial = Table(
    "trial",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("cell_id", ForeignKey("cell.id", ondelete="CASCADE"), nullable=False),
    Column(
        "guest_id", ForeignKey("guest.id", ondelete="CASCADE"), index=True
    ),  # none: its guest never started
    Column("block", Integer, nullable=False),
    Column("number", Integer, nullable=False),  # within cell and block; warm-up trials first
    Column(
        "position", Integer, nullable=False
    ),  # in the whole run: the order things really happened
    Column("is_warmup", Boolean, nullable=False, default=False),
    Column("status", String(8), nullable=False),  # ok | failed
    Column("started_at", Float, nullable=False),
    Column("outside_s", Float),  # of the tool, outside clock
    Column("inside_s", Float),  # of the tool, guest clock
    Column("effective", JSON, nullable=False),  # settings really in force
    Column("error", Text, nullable=False, default=""),
    Column(
        "session", Integer, nullable=False, server_default="1"
    ),  # its number: what boot, what hour of the host
    Index("ix_trial_run_id_position", "run_id", "position"),
    Index("ix_trial_cell_id_block_number", "cell_id", "block", "number", unique=True),
)

output = Table(
    "output",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trial_id", ForeignKey("trial.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("role", String(20), nullable=False),
    Column("argv", JSON, nullable=False),
    Column("status", Integer, nullable=False),
    Column("stdout", LargeBinary, nullable=False),  # zlib
    Column("stderr", LargeBinary, nullable=False),  # zlib
)

measurement = Table(
    "measurement",
    metadata,
    Column("trial_id", ForeignKey("trial.id", ondelete="CASCADE"), primary_key=True),
    Column("metric_id", ForeignKey("metric.id", ondelete="CASCADE"), primary_key=True),
    Column("value", Float, nullable=False),
    sqlite_with_rowid=False,
)

run_column = Table(  # of a run that is not under way, in pieces: see store.columns
    "run_column",
    metadata,
    Column("run_id", ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(20), primary_key=True),
    Column("place", Integer, primary_key=True),  # of the piece, from 0
    Column("kind", String(3), nullable=False),  # of its numbers, as numpy names it
    Column("content", LargeBinary, nullable=False),
)

counter = Table(
    "counter",
    metadata,
    Column("trial_id", ForeignKey("trial.id", ondelete="CASCADE"), primary_key=True),
    Column("place", String(20), primary_key=True),  # role of an end, or host, layer, link
    Column("name", String(80), primary_key=True),
    Column("value", Float, nullable=False),
    sqlite_with_rowid=False,
)

warning = Table(
    "warning",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ForeignKey("run.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("cell_id", ForeignKey("cell.id", ondelete="CASCADE"), index=True),
    Column("trial_id", ForeignKey("trial.id", ondelete="CASCADE"), index=True),
    Column("code", String(40), nullable=False),
    Column("data", JSON, nullable=False),  # of the sentence of the code, see vtax.messages
)

campaign = Table(
    "campaign",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(80), nullable=False, unique=True),
    Column(
        "merged_id", ForeignKey("run.id", ondelete="SET NULL"), index=True
    ),  # of its sessions, once reported
)

campaign_session = Table(
    "campaign_session",
    metadata,
    Column(
        "run_id", ForeignKey("run.id", ondelete="CASCADE"), primary_key=True
    ),  # whose rows are not copied
    Column(
        "campaign_id", ForeignKey("campaign.id", ondelete="CASCADE"), primary_key=True, index=True
    ),
    Column("host", String(255), primary_key=True),  # its name in the inventory
    Column("session", Integer, nullable=False),  # of that host, from 1
)

MEASUREMENTS_VIEW = """CREATE VIEW measurements AS
SELECT run.name AS run, run.study AS study, platform.name AS platform, cell.benchmark AS benchmark,
  cell.label AS label, cell.tool_version AS tool_version, cell.topology AS topology, cell.parameters AS parameters,
  cell.link AS link, cell.key AS cell, cell.point AS point, cell.levels AS levels,
  CASE WHEN trial.block < 0 THEN trial.block + 1 ELSE trial.block + part.block + 1 END AS block,
  trial.session + part.session AS session,
  CASE WHEN trial.block < 0 THEN trial.number + part.number ELSE trial.number END AS number,
  trial.position + part.position AS position, trial.is_warmup AS is_warmup, trial.status AS status,
  trial.error AS error, trial.started_at AS started_at, trial.outside_s AS outside_s, trial.inside_s AS inside_s,
  trial.effective AS effective, metric.name AS metric, measurement.value AS value, metric.unit AS unit,
  metric.better AS better
FROM part JOIN run ON run.id = part.run_id JOIN trial ON trial.run_id = part.member_id
  JOIN cell AS measured ON measured.id = trial.cell_id
  JOIN cell ON cell.run_id = run.id AND cell.key = measured.key
  JOIN platform ON platform.id = cell.platform_id LEFT JOIN measurement ON measurement.trial_id = trial.id
  LEFT JOIN metric ON metric.id = measurement.metric_id"""
"""The view `measurements`, which docs/data.md describes: a row per measurement, and one per trial without any."""
