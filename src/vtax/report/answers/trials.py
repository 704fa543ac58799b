"""Every trial of a run in the order they were made, warm-up trials and failed ones too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import numpy as np

from vtax.counters.table import HOST_DISK_RATIO
from vtax.described import BESIDE, Means
from vtax.foreign_data import parse_json
from vtax.report import document as doc
from vtax.report.analysis.source import Source
from vtax.report.document import factors, joined, msg, muted, styled
from vtax.report.views.base import Options, View, register_view
from vtax.store.query import RunData
from vtax.store.records import CellRecord


@dataclass(frozen=True)
class Trial:
    """One trial. position: in the whole run, from 0, as in exported files. block: from 0, -1 before the first one.

    started_at: Unix time. duration_s: of the tool, by the controller's clock; None when it is not known. effective:
    the settings that were really in force, by name.
    """

    position: Annotated[int, Means("place of the trial in the order of the run, from 0")]
    block: int
    number: Annotated[int, Means("trial of the cell within the block, from 0, warm-up included")]
    cell: Annotated[CellRecord, BESIDE]
    is_warmup: Annotated[bool, Means("whether it is a warm-up trial, which no figure uses")]
    is_ok: bool
    error: Annotated[str, Means("why a trial failed; empty for one that did not")]
    started_at: Annotated[float, Means("start of the trial", name="started", is_time=True)]
    duration_s: Annotated[float | None, Means("how long it lasted; null when not known", unit="s")]
    effective: Annotated[Mapping[str, Any], Means("settings that were really in force")] = field(
        default_factory=dict
    )

    @property
    def block_number(
        self,
    ) -> Annotated[int, Means("block, from 1; 0 for those before the first", name="block")]:
        """As people count it."""
        return self.block + 1

    @property
    def status(self) -> Annotated[str, Means("`ok` or `failed`")]:
        """How it ended."""
        return "ok" if self.is_ok else "failed"

    @property
    def host_disk_ratio(self) -> float | None:
        """See HOST_DISK_RATIO; None of a trial without one."""
        ratio = self.effective.get(HOST_DISK_RATIO)
        return float(ratio) if isinstance(ratio, int | float) else None


def started(trial: Trial, precision: str = "milliseconds") -> str:
    """`2024-03-01T11:30:05.250Z`: when a trial was started, as ISO 8601 in UTC."""
    moment = datetime.fromtimestamp(trial.started_at, UTC)
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def trials_of(data: RunData, in_force: Mapping[int, str] | None = None) -> list[Trial]:
    """Return all trials of a run's data, by their position. in_force: see store.query.effective."""
    errors = {(f.cell, f.block, f.number): f.error for f in data.failures}
    trials, result = data.trials, []
    for n in np.argsort(trials.position, kind="stable").tolist():
        cell, block, number = int(trials.cell[n]), int(trials.block[n]), int(trials.number[n])
        duration_s = float(trials.outside_s[n])
        result.append(
            Trial(
                int(trials.position[n]),
                block,
                number,
                data.run.cells[cell],
                bool(trials.is_warmup[n]),
                bool(trials.is_ok[n]),
                errors.get((cell, block, number), ""),
                float(trials.started_at[n]),
                None if np.isnan(duration_s) else duration_s,
                parse_json((in_force or {}).get(int(trials.id[n]), "{}")),
            )
        )
    return result


def document(source: Source, _: Options) -> doc.Document:
    """Return a row per trial."""
    trials = trials_of(source.data.narrowed(source.analysis.filter), source.effective)
    if not trials:
        return doc.Document(VIEW.title, (doc.Paragraph(msg("No trial was made.")),), data=[])
    columns = [
        doc.Column("position", msg("trial"), is_number=True),
        doc.Column("block", msg("block"), is_number=True),
        doc.Column("platform", msg("platform")),
        doc.Column("cell", msg("cell"), wraps=True),
        doc.Column("outcome", msg("outcome"), wraps=True),
        doc.Column("duration", msg("duration"), is_number=True),
        doc.Column("started", msg("start time (UTC)")),
    ]
    has_disks = any(trial.host_disk_ratio is not None for trial in trials)
    if has_disks:
        columns.append(doc.Column(HOST_DISK_RATIO, msg("host disk\nratio"), is_number=True))
    rows = [
        _row(trial, source.analysis.platform_of(trial.cell.platform), has_disks=has_disks)
        for trial in trials
    ]
    table = doc.table_of(columns, rows, key="trials", label=msg("Trials"))
    return doc.Document(VIEW.title, (table,), data=trials)


def _row(trial: Trial, platform: doc.Inline, *, has_disks: bool) -> doc.TableRow:
    block: doc.Inline = doc.Count(trial.block + 1) if trial.block >= 0 else muted(doc.Nothing())
    duration: doc.Inline = (
        muted(doc.Nothing()) if trial.duration_s is None else doc.Duration(trial.duration_s)
    )
    cell = joined([trial.cell.label, factors(trial.cell.levels)])
    outcome: doc.Inline = (
        msg("ok") if trial.is_ok else styled(joined([msg("failed"), trial.error], ": "), "error")
    )
    outcome = joined([muted(msg("warm-up")) if trial.is_warmup else "", outcome])
    cells = (
        str(trial.position),
        block,
        platform,
        cell,
        outcome,
        duration,
        started(trial, "seconds"),
    )
    if not has_disks:
        return doc.TableRow(cells)
    ratio = trial.host_disk_ratio
    return doc.TableRow((*cells, muted(doc.Nothing()) if ratio is None else doc.Number(ratio, 3)))


VIEW = register_view(
    View(
        "trials",
        msg("Trials"),
        msg("Every trial: block, order, platform, outcome, duration, start time."),
        document,
    )
)
