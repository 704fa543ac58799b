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
    known = {field.name for field in fields(PluginRecord)}
    for value in values:
        if (
            not isinstance(value, dict)
            or set(value) != known
            or not all(isinstance(v, str) for v in value.values())
        ):
            raise ValueError(f"a plug-in is {clean(repr(value), 60)}")
    texts = (
        {name: one_line(text, _MAX_SOURCE_CHARS) for name, text in value.items()}
        for value in values
    )
    return tuple(PluginRecord(**each) for each in texts)


def read_untested(values: Sequence[Any]) -> tuple[UntestedRecord, ...]:
    """Make records of plain values. Raises ValueError for what is no point that a platform cannot carry."""
    known = {field.name for field in fields(UntestedRecord)}
    found = []
    for value in values:
        texts = (
            {name: text for name, text in value.items() if name != "levels"}
            if isinstance(value, dict)
            else {}
        )
        levels = value.get("levels") if isinstance(value, dict) else None
        if (
            not isinstance(levels, dict)
            or {*texts, "levels"} != known
            or not all(isinstance(text, str) for text in texts.values())
        ):
            raise ValueError(f"a point that was not tested is {clean(repr(value), 60)}")
        found.append(
            UntestedRecord(**{name: restored(text) for name, text in texts.items()}, levels=levels)
        )
    return tuple(found)


def read_platforms(
    connection: Connection, run_id: int
) -> tuple[dict[str, int], tuple[PlatformRecord, ...]]:
    """(platform -> its row, the platforms in the study's order). Raises ValueError for names or baselines twice."""
    table = schema.platform
    rows = fetch(
        connection, select(table).where(table.c.run_id == run_id).order_by(table.c.position)
    )
    records = tuple(
        PlatformRecord(
            r.name,
            r.identity,
            r.available,
            restored(r.reason),
            restored(r.hint),
            tuple(r.marks),
            r.version,
            r.is_baseline,
        )
        for r in rows
    )
    if sum(record.is_baseline for record in records) > 1 or len(
        {record.name for record in records}
    ) < len(records):
        raise ValueError("several platforms are the baseline, or have the same name")
    return {r.name: r.id for r in rows}, records


def marked_by_host(
    platforms: Sequence[PlatformRecord], host: Mapping[str, Any]
) -> tuple[PlatformRecord, ...]:
    """On a host whose CPU is emulated no platform is without a mark: native and containers are on it as well."""
    if not host.get("cpu_emulated"):
        return tuple(platforms)
    return tuple(
        each if each.marks else replace(each, marks=(EMULATED_HOST,)) for each in platforms
    )


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
    """(cell's key -> its row, the cells). Raises ValueError for one of a platform that was not tested."""
    table, platform = schema.cell, schema.platform
    query = select(table, platform.c.name.label("platform")).join_from(table, platform)
    rows = fetch(connection, query.where(table.c.run_id == run_id).order_by(table.c.id))
    if lost := {row.platform for row in rows} - {each.name for each in platforms if each.available}:
        raise ValueError(f"a cell is of {lost.pop()}, which this run does not test")
    records = tuple(
        CellRecord(
            r.key,
            r.point,
            r.platform,
            r.benchmark,
            r.label,
            r.tool_version,
            r.topology,
            r.parameters,
            r.link,
            r.levels,
            r.tool,
        )
        for r in rows
    )
    return {r.key: r.id for r in rows}, records


def read_metrics(
    connection: Connection, run_id: int
) -> tuple[dict[tuple[str, str], int], tuple[MetricRecord, ...]]:
    """((benchmark, metric) -> its row, the metrics). Raises ValueError for one that is better neither way."""
    table = schema.metric
    rows = fetch(connection, select(table).where(table.c.run_id == run_id).order_by(table.c.id))
    if odd := next((row for row in rows if row.better not in ("higher", "lower")), None):
        raise ValueError(f"better is {odd.better!r} for {odd.name}")
    records = tuple(
        MetricRecord(
            r.benchmark, r.name, r.title, r.unit, r.better, r.is_primary, r.average, r.fixed_work
        )
        for r in rows
    )
    return {(r.benchmark, r.name): r.id for r in rows}, records
