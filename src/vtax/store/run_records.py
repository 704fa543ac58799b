"""Records that a run began with, read from the store and checked: platforms, cells, metrics, plug-ins, sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import Connection, select

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
    connection: Connection, run_id: int
) -> tuple[dict[str, int], tuple[PlatformRecord, ...]]:
    """Return (platform -> its row, the platforms in the study's order).

    Raises ValueError for names or baselines twice.
    """
    table = schema.platform
    query = select(table).where(table.c.run_id == run_id).order_by(table.c.position)
    ids, records = {}, []
    for row in fetch(connection, query):
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


def read_sessions(connection: Connection, run_id: int) -> tuple[SessionRecord, ...]:
    """Return the sessions that were begun, in order. Raises ValueError when one is missing."""
    table = schema.session
    rows = fetch(connection, select(table).where(table.c.run_id == run_id).order_by(table.c.number))
    if [row.number for row in rows] != list(range(1, len(rows) + 1)) or not rows:
        raise ValueError("sessions are missing, or not numbered one after another")
    for row in rows:
        check_host(row.host)
    return tuple(SessionRecord(row.number, row.boot_id, row.host, row.started_at) for row in rows)


def read_cells(
    connection: Connection, run_id: int, platforms: Sequence[PlatformRecord]
) -> tuple[dict[str, int], tuple[CellRecord, ...]]:
    """Return (cell's key -> its row, the cells). Raises ValueError for one of a platform that was not tested."""
    table, platform = schema.cell, schema.platform
    query = select(table, platform.c.name.label("platform")).join_from(table, platform)
    query = query.where(table.c.run_id == run_id).order_by(table.c.id)
    available_names = {record.name for record in platforms if record.available}
    ids, records = {}, []
    for row in fetch(connection, query):
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
    connection: Connection, run_id: int
) -> tuple[dict[tuple[str, str], int], tuple[MetricRecord, ...]]:
    """Return ((benchmark, metric) -> its row, the metrics). Raises ValueError for one that is better neither way."""
    table = schema.metric
    query = select(table).where(table.c.run_id == run_id).order_by(table.c.id)
    ids, records = {}, []
    for row in fetch(connection, query):
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
