"""Records that a run began with, read from the store and checked: platforms, cells, metrics, plug-ins, sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import Column, Connection, Select, select

from vtax.foreign_text import clean, one_line
from vtax.messages import restored
from vtax.store import schema
from vtax.store.records import (
    CellRecord,
    MetricRecord,
    PlatformRecord,
    PluginRecord,
    SessionRecord,
    UntestedRecord,
)
from vtax.store.rows import check_host, fetch

EMULATED_HOST = "emulated host"
"""The mark of platforms without another one on a host whose CPU is emulated: native and containers."""
_MAX_SOURCE_CHARS = 500  # of a URL


@dataclass(frozen=True)
class RunRows:
    """The rows of a run that it is opened with, checked one by one, in the order of its records."""

    run: Any
    sessions: Sequence[Any]
    platforms: Sequence[Any]
    cells: Sequence[Any]
    metrics: Sequence[Any]


def rows_of_runs(connection: Connection, run_ids: Sequence[int]) -> list[RunRows]:
    """Return the rows of runs, in the order of these ids; each table is read once. Raises ValueError, KeyError."""
    run, session, platform = schema.run, schema.session, schema.platform
    cell, metric = schema.cell, schema.metric
    cells = select(cell, platform.c.name.label("platform")).join_from(cell, platform)
    runs = fetch(connection, select(run).where(run.c.id.in_(run_ids)))
    run_by_id = {row.id: row for row in runs}
    rows = (
        _by_run(connection, select(session), session.c.run_id, session.c.number, run_ids),
        _by_run(connection, select(platform), platform.c.run_id, platform.c.position, run_ids),
        _by_run(connection, cells, cell.c.run_id, cell.c.id, run_ids),
        _by_run(connection, select(metric), metric.c.run_id, metric.c.id, run_ids),
    )
    return [
        RunRows(run_by_id[run_id], *(of_table[run_id] for of_table in rows)) for run_id in run_ids
    ]


def _by_run(
    connection: Connection,
    query: Select[Any],
    run: Column[Any],
    order: Column[Any],
    run_ids: Sequence[int],
) -> dict[int, list[Any]]:
    """Return the rows of each run. run, order: columns with its id, and of what they are ordered by."""
    rows: dict[int, list[Any]] = {run_id: [] for run_id in run_ids}
    for row in fetch(connection, query.where(run.in_(run_ids)).order_by(order)):
        rows[row.run_id].append(row)
    return rows


def read_plugins(values: Sequence[Any]) -> tuple[PluginRecord, ...]:
    """Make records of plain values. Raises ValueError for what is no plug-in."""
    field_names = {field.name for field in fields(PluginRecord)}
    records = []
    for value in values:
        if not isinstance(value, dict) or set(value) != field_names or not _are_texts(value):
            raise ValueError(f"a plug-in is {clean(repr(value), 60)}")
        texts = {name: one_line(text, _MAX_SOURCE_CHARS) for name, text in value.items()}
        records.append(PluginRecord(**texts))
    return tuple(records)


def _are_texts(values: Mapping[str, Any]) -> bool:
    return all(isinstance(value, str) for value in values.values())


def read_untested(values: Sequence[Any]) -> tuple[UntestedRecord, ...]:
    """Make records of plain values. Raises ValueError for what is no point that a platform cannot carry."""
    field_names = {field.name for field in fields(UntestedRecord)}
    records = []
    for value in values:
        texts = dict(value) if isinstance(value, dict) else {}
        levels = texts.pop("levels", None)
        is_record = isinstance(levels, dict) and {*texts, "levels"} == field_names
        if not is_record or not _are_texts(texts):
            raise ValueError(f"a point that was not tested is {clean(repr(value), 60)}")
        notes = {name: restored(text) for name, text in texts.items()}
        records.append(UntestedRecord(**notes, levels=levels))
    return tuple(records)


def read_platforms(
    rows: Sequence[Any],
) -> tuple[dict[str, int], tuple[PlatformRecord, ...]]:
    """Return (platform -> id of its row, the platforms in the study's order).

    Raises ValueError for names or baselines twice.
    """
    ids, records = {}, []
    for row in rows:
        ids[row.name] = row.id
        records.append(
            PlatformRecord(
                row.name,
                row.identity,
                row.available,
                restored(row.reason),
                restored(row.hint),
                tuple(row.marks),
                row.version,
                row.is_baseline,
            )
        )
    if sum(record.is_baseline for record in records) > 1 or len(ids) < len(records):
        raise ValueError("several platforms are the baseline, or have the same name")
    return ids, tuple(records)


def marked_by_host(
    platforms: Sequence[PlatformRecord], host: Mapping[str, Any]
) -> tuple[PlatformRecord, ...]:
    """Return platforms with the mark of a host whose CPU is emulated, where they have none.

    Native and containers are on it as well.
    """
    if not host.get("cpu_emulated"):
        return tuple(platforms)
    platforms_marked = []
    for platform in platforms:
        marks = platform.marks or (EMULATED_HOST,)
        platforms_marked.append(replace(platform, marks=marks))
    return tuple(platforms_marked)


def read_sessions(rows: Sequence[Any]) -> tuple[SessionRecord, ...]:
    """Return the sessions that were begun, in order. Raises ValueError when one is missing."""
    if [row.number for row in rows] != list(range(1, len(rows) + 1)) or not rows:
        raise ValueError("sessions are missing, or not numbered one after another")
    for row in rows:
        check_host(row.host)
    return tuple(SessionRecord(row.number, row.boot_id, row.host, row.started_at) for row in rows)


def read_cells(
    rows: Sequence[Any], platforms: Sequence[PlatformRecord]
) -> tuple[dict[str, int], tuple[CellRecord, ...]]:
    """Return (cell's key -> id of its row, the cells). Raises ValueError for one of a platform that was not tested."""
    available_names = {record.name for record in platforms if record.available}
    ids, records = {}, []
    for row in rows:
        if row.platform not in available_names:
            raise ValueError(f"a cell is of {row.platform}, which this run does not test")
        ids[row.key] = row.id
        records.append(
            CellRecord(
                row.key,
                row.point,
                row.platform,
                row.benchmark,
                row.label,
                row.tool_version,
                row.topology,
                row.parameters,
                row.link,
                row.levels,
                row.tool,
            )
        )
    return ids, tuple(records)


def read_metrics(
    rows: Sequence[Any],
) -> tuple[dict[tuple[str, str], int], tuple[MetricRecord, ...]]:
    """Return ((benchmark, metric) -> id of its row, the metrics). Raises ValueError for one that is better neither
    way."""
    ids, records = {}, []
    for row in rows:
        if row.better not in ("higher", "lower"):
            raise ValueError(f"better is {row.better!r} for {row.name}")
        ids[row.benchmark, row.name] = row.id
        records.append(
            MetricRecord(
                row.benchmark,
                row.name,
                row.title,
                row.unit,
                row.better,
                row.is_primary,
                row.average,
                row.fixed_work,
                row.role,
            )
        )
    return ids, tuple(records)
