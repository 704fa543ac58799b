"""One line of a list for each of some runs: what it was, and what its rows add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, Table, func, select

from vtax.foreign_text import one_line
from vtax.messages import restored
from vtax.store import schema
from vtax.store.annotations import Annotations
from vtax.store.counts import Counts
from vtax.store.provenance import origin_of
from vtax.store.records import RunSummary
from vtax.store.rows import fetch
from vtax.store.run import duration_s

SUMMARY = (
    schema.run.c.id,
    schema.run.c.identity,
    schema.run.c.name,
    schema.run.c.study,
    schema.run.c.status,
    schema.run.c.started_at,
    schema.run.c.ended_at,
    schema.run.c.active_s,
    schema.run.c.stopped_because,
    schema.run.c.provenance,
    schema.run.c.tags,
    schema.run.c.notes,
)
"""Columns of the rows of `summaries`."""


def summaries(
    connection: Connection,
    rows: Sequence[Any],
    counts: Mapping[int, Counts],
    status_for_reader: Callable[[str, str], tuple[str, str]],
    ids: Sequence[int] | None = None,
) -> list[RunSummary]:
    """Return a summary of each row.

    counts: by run.
    status_for_reader: of the store.
    ids: of the rows; None for all runs.
    """

    def of_runs(table: Table, query: Select[Any]) -> Select[Any]:
        return query if ids is None else query.where(table.c.run_id.in_(ids))

    def count_by_run(table: Table) -> dict[int, int]:
        query = of_runs(table, select(table.c.run_id, func.count())).group_by(table.c.run_id)
        return {row[0]: int(row[1]) for row in connection.execute(query)}

    platform, session = schema.platform, schema.session
    platforms: dict[int, list[str]] = {}
    platforms_query = of_runs(platform, select(platform.c.run_id, platform.c.name))
    platforms_query = platforms_query.where(platform.c.available).order_by(platform.c.position)
    for run_id, name in fetch(connection, platforms_query):
        platforms.setdefault(run_id, []).append(name)
    hosts: dict[int, dict[str, None]] = {}
    machine = session.c.host["machine_id"].as_string()
    machines = of_runs(session, select(session.c.run_id, machine)).order_by(session.c.id)
    for run_id, host in connection.execute(machines):
        if host is not None:
            hosts.setdefault(run_id, {})[one_line(str(host), 80)] = None
    cells, sessions = count_by_run(schema.cell), count_by_run(session)
    lines = []
    for row in rows:
        status, because = status_for_reader(row.status, restored(row.stopped_because))
        summary = RunSummary(
            row.name,
            row.study,
            status,
            row.started_at,
            row.ended_at,
            duration_s(row),
            because,
            tuple(platforms.get(row.id, ())),
            cells.get(row.id, 0),
            *counts.get(row.id, Counts()),
            sessions=sessions.get(row.id, 1),
            origin=origin_of(row.provenance),
            hosts=tuple(hosts.get(row.id, ())),
            **vars(Annotations.read(row.tags, row.notes)),
        )
        lines.append(summary)
    return lines
