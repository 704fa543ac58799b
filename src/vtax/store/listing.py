"""Runs page by page, for those who look at a store of thousands: what is counted is of the runs on the page alone.

What trials add up to is kept by the run and its last trial, so that a large run is counted once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, String, case, cast, func, or_, select

from vtax.errors import NotFound
from vtax.store import schema
from vtax.store.annotations import Annotations
from vtax.store.counts import Counts, counts_of, last_position
from vtax.store.records import RunSummary
from vtax.store.rows import fetch, reading_rows
from vtax.store.store import Store
from vtax.store.summaries import SUMMARY, summaries

_MOST_KEPT = 20_000


@dataclass(frozen=True)
class RunFilter:
    """Which runs: of this study, platform, status, tag, and with this text in the name or a note; all where empty."""

    study: str = ""
    platform: str = ""
    status: str = ""
    tag: str = ""
    text: str = ""


@dataclass(frozen=True)
class Page:
    """Runs, the newest first. total: of all that are wanted. names: key of RunFilter -> what it may be."""

    runs: tuple[RunSummary, ...]
    total: int
    names: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class StudyRow:
    """A study with runs. title, question: of its newest run."""

    name: str
    title: str
    question: str
    runs: int
    finished: int
    started_at: float


@dataclass
class Listing:
    """Reads pages. It may be used for as long as the store is the same one."""

    _counts: dict[tuple[int, str, int, str], Counts] = field(default_factory=dict)

    def page(self, store: Store, run_filter: RunFilter, number: int, size: int) -> Page:
        """Return the page of this number, from 1, with so many runs. Raises StoreError."""
        run, platform = schema.run, schema.platform
        newest = (run.c.started_at.desc(), run.c.id.desc())
        query = _narrowed(select(*SUMMARY), run_filter).order_by(*newest)
        query = query.limit(size).offset((number - 1) * size)
        with reading_rows(store.engine) as connection:
            total = connection.execute(
                _narrowed(select(func.count(run.c.id)), run_filter)
            ).scalar_one()
            runs = self._summaries(store, connection, fetch(connection, query))
            names = {
                "study": _distinct(connection, run.c.study),
                "platform": _distinct(connection, platform.c.name, platform.c.available),
                "status": _distinct(connection, run.c.status),
                "tag": _tags(connection),
            }
        return Page(runs, int(total), names)

    def one(self, store: Store, name: str) -> RunSummary:
        """Return the run of this name. Raises NotFound for an unknown one, StoreError."""
        query = select(*SUMMARY).where(schema.run.c.name == name)
        with reading_rows(store.engine) as connection:
            runs = self._summaries(store, connection, fetch(connection, query))
        if not runs:
            raise _unknown_run(name)
        return runs[0]

    def count_ahead(self, store: Store, is_wanted: Callable[[], bool]) -> None:
        """Count the trials of the newest runs, so that no page of them waits for it; until it is not wanted any more.

        Raises StoreError.
        """
        run = schema.run
        columns = (run.c.id, run.c.identity, run.c.started_at, run.c.status)
        query = select(*columns).order_by(run.c.started_at.desc()).limit(_MOST_KEPT)
        with reading_rows(store.engine) as connection:
            for row in fetch(connection, query):
                if not is_wanted():
                    return
                self._counted(connection, row)

    def _summaries(
        self, store: Store, connection: Connection, rows: Sequence[Any]
    ) -> tuple[RunSummary, ...]:
        counts = {row.id: self._counted(connection, row) for row in rows}
        ids = [row.id for row in rows]
        return tuple(summaries(connection, rows, counts, store.status_for_reader, ids))

    def _counted(self, connection: Connection, run: Any) -> Counts:
        """Return the counts of a run. SQLite gives the id of a removed run to the next one; its identity is its own."""
        key = (run.id, run.identity, last_position(connection, run.id), run.status)
        if key not in self._counts:
            if len(self._counts) > _MOST_KEPT:
                self._counts.clear()
            self._counts[key] = counts_of(connection, run.id)
        return self._counts[key]


def studies(store: Store) -> tuple[StudyRow, ...]:
    """Return the studies of the runs, that with the newest run first. Raises StoreError."""
    run = schema.run
    by_study = (
        select(
            run.c.study,
            func.count(run.c.id),
            func.sum(case((run.c.status == "finished", 1), else_=0)),
            func.max(run.c.started_at),
        )
        .group_by(run.c.study)
        .order_by(func.max(run.c.started_at).desc())
    )
    rows = []
    with reading_rows(store.engine) as connection:
        for study, runs, finished, started_at in connection.execute(by_study):
            title, question = _declared(connection, study, started_at)
            rows.append(StudyRow(study, title, question, int(runs), int(finished), started_at))
    return tuple(rows)


def questions_of(store: Store, names: Sequence[str]) -> dict[str, str]:
    """Return what the study of each of these runs asks, or its title. Raises StoreError."""
    run = schema.run
    question, title = (run.c.declared[key].as_string() for key in ("question", "title"))
    query = select(run.c.name, question.label("question"), title.label("title"))
    with reading_rows(store.engine) as connection:
        rows = fetch(connection, query.where(run.c.name.in_(names)))
    return {row.name: row.question or row.title or "" for row in rows}


def state_of(store: Store, name: str) -> str:
    """Return what differs when anything of a run does: its status, and a hash. Raises NotFound for an unknown run."""
    run, warning = schema.run, schema.warning
    with reading_rows(store.engine) as connection:
        row = connection.execute(select(run).where(run.c.name == name)).first()
        if row is None:
            raise _unknown_run(name)
        position = last_position(connection, row.id)
        query = select(func.count(), func.max(warning.c.id)).where(warning.c.run_id == row.id)
        warnings = connection.execute(query).one()
    status, _ = store.status_for_reader(row.status, "")
    return f"{status} {_hash((tuple(row), position, tuple(warnings)))}"


def _hash(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _unknown_run(name: str) -> NotFound:
    hint = "the page of runs lists those that are stored"
    return NotFound(f"there is no run {name!r}", hint=hint)


def state_of_study(store: Store, study: str) -> str:
    """Return what differs when a run of a study is added, removed, replaced, or ends. Raises StoreError."""
    run = schema.run
    columns = (run.c.id, run.c.name, run.c.identity, run.c.status, run.c.started_at, run.c.ended_at)
    query = select(*columns).where(run.c.study == study).order_by(run.c.id)
    with reading_rows(store.engine) as connection:
        return _hash([tuple(row) for row in connection.execute(query)])


def _narrowed(query: Select[Any], run_filter: RunFilter) -> Select[Any]:
    run, platform = schema.run, schema.platform
    if run_filter.study:
        query = query.where(run.c.study == run_filter.study)
    if run_filter.status:
        query = query.where(run.c.status == run_filter.status)
    if run_filter.tag:
        query = query.where(_holds(run.c.tags, run_filter.tag, is_whole=True))
    if run_filter.text:
        has_name = run.c.name.contains(run_filter.text, autoescape=True)
        query = query.where(or_(has_name, _holds(run.c.notes, run_filter.text, is_whole=False)))
    if run_filter.platform:
        with_platform = select(platform.c.run_id).where(
            platform.c.name == run_filter.platform, platform.c.available
        )
        query = query.where(run.c.id.in_(with_platform))
    return query


def _distinct(
    connection: Connection, column: Any, condition: ColumnElement[bool] | None = None
) -> list[str]:
    query = select(column).distinct().order_by(column)
    if condition is not None:
        query = query.where(condition)
    return [row[0] for row in fetch(connection, query)]


def _holds(column: ColumnElement[Any], text: str, *, is_whole: bool) -> ColumnElement[bool]:
    """Return whether a column of JSON has a text in its list, or in one of the list where it need not be whole."""
    conditions = []
    for is_ascii in (True, False):
        form = json.dumps(text, ensure_ascii=is_ascii)
        part = form if is_whole else form[1:-1]
        conditions.append(cast(column, String).contains(part, autoescape=True))
    return or_(*conditions)


def _tags(connection: Connection) -> list[str]:
    """Return the tags of all runs."""
    column = schema.run.c.tags
    tags: set[str] = set()
    for row in fetch(connection, select(column).where(cast(column, String) != "[]")):
        tags.update(Annotations.read(row.tags, ()).tags)
    return sorted(tags)


def _declared(connection: Connection, study: str, started_at: float) -> tuple[str, str]:
    """Return (title, question) of a run of a study that began then."""
    run = schema.run
    query = select(run.c.declared).where(run.c.study == study, run.c.started_at == started_at)
    (row,) = fetch(connection, query.limit(1))
    return str(row.declared.get("title") or ""), str(row.declared.get("question") or "")
