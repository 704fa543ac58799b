"""What `vtax reparse` reads of stored trials and writes back: figures and outcomes, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select, update

from vtax.messages import Note, columns_of, note_in, packed, restored
from vtax.messages.tools import SENTENCES
from vtax.store import schema
from vtax.store.database import writing
from vtax.store.rows import fetch, reading_rows
from vtax.store.run import RunHandle

_HOST = "host"  # the place of counters of the host


@dataclass(frozen=True)
class StoredTrial:
    """A trial as it is stored. cell: its key. outside_s, inside_s: None where not known. values: by metric name.

    is_counted: counters around its program were read to the end. is_truncated: not all that it printed was kept.
    effective: settings in force and samples. warnings: of its tool. host: what was counted of the host around it.
    """

    id: int
    position: int
    cell: str
    block: int
    is_ok: bool
    error: str
    outside_s: float | None
    inside_s: float | None
    values: Mapping[str, float]
    is_counted: bool
    is_truncated: bool
    effective: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[Note, ...] = ()
    host: Mapping[tuple[str, str], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Revision:
    """What a trial is to be from now on.

    values: all its figures. error: why it failed, empty when it did not. effective: settings in force and samples,
    warnings: of its tool; None where they stay.
    """

    trial: int
    benchmark: str
    values: Mapping[str, float]
    error: str
    effective: Mapping[str, Any] | None = None
    warnings: tuple[Note, ...] | None = None


def stored_trials(engine: Engine, run: RunHandle) -> list[StoredTrial]:
    """The trials of a run in the order they happened. Raises StoreError."""
    trial, cell, metric, measurement = schema.trial, schema.cell, schema.metric, schema.measurement
    of_run = trial.c.run_id == run.id
    query = (
        select(trial.c.id, trial.c.position, cell.c.key, trial.c.block, trial.c.status, trial.c.error,
               trial.c.outside_s, trial.c.inside_s, trial.c.effective)
        .join_from(trial, cell).where(of_run).order_by(trial.c.position)
    )  # fmt: skip
    figures = select(measurement.c.trial_id, metric.c.name, measurement.c.value).join_from(measurement, metric)
    counted = select(schema.counter.c.trial_id).join_from(schema.counter, trial).where(of_run).distinct()
    cut = select(schema.warning.c.trial_id).where(
        schema.warning.c.run_id == run.id,
        schema.warning.c.code == "truncated",
        schema.warning.c.trial_id.is_not(None),
    )
    of_tool = (
        select(schema.warning.c.trial_id, schema.warning.c.code, schema.warning.c.data)
        .where(schema.warning.c.run_id == run.id, schema.warning.c.code.in_(SENTENCES))
        .order_by(schema.warning.c.id)
    )
    of_host = (
        select(schema.counter.c.trial_id, schema.counter.c.name, schema.counter.c.value)
        .join_from(schema.counter, trial).where(of_run, schema.counter.c.place == _HOST)
    )  # fmt: skip
    host: dict[int, dict[tuple[str, str], float]] = {}
    values: dict[int, dict[str, float]] = {}
    warnings: dict[int, list[Note]] = {}
    with reading_rows(engine) as connection:
        for row in fetch(connection, figures.where(metric.c.run_id == run.id)):
            values.setdefault(row.trial_id, {})[row.name] = row.value
        for row in fetch(connection, of_tool):
            warnings.setdefault(row.trial_id, []).append(note_in(row.code, row.data))
        for row in fetch(connection, of_host):
            host.setdefault(row.trial_id, {})[_HOST, row.name] = row.value
        are_counted = {row.trial_id for row in fetch(connection, counted)}
        are_truncated = {row.trial_id for row in fetch(connection, cut)}
        return [
            StoredTrial(r.id, r.position, r.key, r.block, r.status == "ok", restored(r.error), r.outside_s,
                        r.inside_s, values.get(r.id, {}), r.id in are_counted, r.id in are_truncated, r.effective,
                        tuple(warnings.get(r.id, ())), host.get(r.id, {}))
            for r in fetch(connection, query)
        ]  # fmt: skip


def write(engine: Engine, run: RunHandle, revisions: Sequence[Revision], note: Note) -> None:
    """Write revisions and a note about them, all of it or nothing. Raises StoreError."""
    trial, measurement, metric = schema.trial, schema.measurement, schema.metric
    with writing(engine) as connection:
        rows = connection.execute(
            select(metric.c.benchmark, metric.c.name, metric.c.id).where(metric.c.run_id == run.id)
        )
        ids = {(row.benchmark, row.name): row.id for row in rows}
        for each in revisions:
            connection.execute(delete(measurement).where(measurement.c.trial_id == each.trial))
            status = "failed" if each.error else "ok"
            connection.execute(
                update(trial).where(trial.c.id == each.trial).values(status=status, error=packed(each.error))
            )
            if each.effective is not None:
                connection.execute(update(trial).where(trial.c.id == each.trial).values(effective=each.effective))
            if each.warnings is not None:
                _replace_warnings(connection, run, each.trial, each.warnings)
            if figures := [
                {"trial_id": each.trial, "metric_id": ids[each.benchmark, name], "value": value}
                for name, value in each.values.items()
            ]:
                connection.execute(insert(measurement), figures)
        warning = {"run_id": run.id, "cell_id": None, "trial_id": None, **columns_of(note)}
        connection.execute(insert(schema.warning), warning)


def _replace_warnings(connection: Connection, run: RunHandle, trial: int, notes: Sequence[Note]) -> None:
    """Put these warnings of its tool in the place of those that a trial has."""
    table = schema.warning
    cell = connection.execute(select(schema.trial.c.cell_id).where(schema.trial.c.id == trial)).scalar_one()
    connection.execute(delete(table).where(table.c.trial_id == trial, table.c.code.in_(SENTENCES)))
    rows = [{"run_id": run.id, "cell_id": cell, "trial_id": trial, **columns_of(note)} for note in notes]
    if rows:
        connection.execute(insert(table), rows)
