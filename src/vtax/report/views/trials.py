"""Every trial of a run in the order they were made, warm-up trials and failed ones too."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from vtax.report.analysis.filters import narrowed
from vtax.report.analysis.source import Source
from vtax.report.document import (
    Column,
    Count,
    Document,
    Duration,
    Factor,
    Group,
    Inline,
    Nothing,
    Paragraph,
    Row,
    Table,
    joined,
    levels_of,
    msg,
    muted,
    styled,
)
from vtax.report.views.base import Options, View
from vtax.store.query import RunData
from vtax.store.records import CellRecord


@dataclass(frozen=True)
class Trial:
    """One trial. position: in the whole run, from 0, as in exported files. block: from 0, -1 before the first one.

    started_at: Unix time. duration_s: of the tool, by the controller's clock; None when it is not known.
    """

    position: int
    block: int
    number: int
    cell: CellRecord
    is_warmup: bool
    is_ok: bool
    error: str
    started_at: float
    duration_s: float | None


def started(trial: Trial, precision: str = "milliseconds") -> str:
    """`2024-03-01T11:30:05.250Z`: when a trial was started, as ISO 8601 in UTC."""
    moment = datetime.fromtimestamp(trial.started_at, UTC)
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def trials_of(data: RunData) -> list[Trial]:
    """All trials of a run's data, by their position."""
    errors = {(f.cell, f.block, f.number): f.error for f in data.failures}
    trials, found = data.trials, []
    for n in np.argsort(trials.position, kind="stable").tolist():
        cell, block, number = int(trials.cell[n]), int(trials.block[n]), int(trials.number[n])
        duration_s = float(trials.outside_s[n])
        found.append(
            Trial(
                int(trials.position[n]), block, number, data.run.cells[cell], bool(trials.is_warmup[n]),
                bool(trials.is_ok[n]), errors.get((cell, block, number), ""), float(trials.started_at[n]),
                None if np.isnan(duration_s) else duration_s,
            )
        )  # fmt: skip
    return found


def document(source: Source, _: Options) -> Document:
    """A row per trial."""
    trials = trials_of(narrowed(source.data, source.analysis.filter.selects))
    if not trials:
        return Document(VIEW.title, (Paragraph(msg("No trial was made.")),), data=[])
    columns = [
        Column("position", msg("trial"), is_number=True), Column("block", msg("block"), is_number=True),
        Column("platform", msg("platform")), Column("cell", msg("cell"), wraps=True),
        Column("outcome", msg("outcome"), wraps=True), Column("duration", msg("duration"), is_number=True),
        Column("started", msg("start time (UTC)")),
    ]  # fmt: skip
    table = Table(tuple(columns), (Group(tuple(map(_row, trials))),), key="trials", label=msg("Trials"))
    return Document(VIEW.title, (table,), data=list(map(plain, trials)))


def _row(trial: Trial) -> Row:
    block: Inline = Count(trial.block + 1) if trial.block >= 0 else muted(Nothing())
    duration: Inline = muted(Nothing()) if trial.duration_s is None else Duration(trial.duration_s)
    cell = joined([trial.cell.label, Factor(levels_of(trial.cell.levels)) if trial.cell.levels else ""])
    outcome: Inline = msg("ok") if trial.is_ok else styled(joined([msg("failed"), trial.error], ": "), "error")
    outcome = joined([muted(msg("warm-up")) if trial.is_warmup else "", outcome])
    return Row((str(trial.position), block, trial.cell.platform, cell, outcome, duration, started(trial, "seconds")))


def plain(trial: Trial) -> dict[str, object]:
    """A trial for programs. block: from 1; 0 for those before the first block."""
    return {
        "position": trial.position,
        "block": trial.block + 1,
        "number": trial.number,
        "platform": trial.cell.platform,
        "label": trial.cell.label,
        "benchmark": trial.cell.benchmark,
        "levels": dict(trial.cell.levels),
        "cell": trial.cell.key,
        "is_warmup": trial.is_warmup,
        "status": "ok" if trial.is_ok else "failed",
        "error": trial.error,
        "started": started(trial),
        "duration_s": trial.duration_s,
    }


VIEW = View(
    "trials", msg("Trials"), msg("Every trial: block, order, platform, outcome, duration, start time."), document
)
