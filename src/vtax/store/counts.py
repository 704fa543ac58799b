"""Sums over the trials of a run, counted alike for every list and every page."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, case, distinct, func, select

from vtax.store import schema
from vtax.store.parts import numbered, of_run


class Counts(NamedTuple):
    """Sums over the trials of a run.

    blocks: that have a trial.
    trials: measured ones, without warm-up.
    failed: those of them that failed.
    """

    blocks: int = 0
    trials: int = 0
    failed: int = 0


def counts_of(connection: Connection, run_id: int) -> Counts:
    """Return the counts of a run; reads all its trials."""
    query = select(*_columns()).where(of_run(schema.trial, run_id))
    row = connection.execute(query).one()
    return _counts(*row)


def counts_of_all(connection: Connection) -> dict[int, Counts]:
    """Return the counts of all runs that have a trial, by their ids; reads all trials of the store."""
    part = schema.part
    query = select(part.c.run_id, *_columns()).where(part.c.member_id == schema.trial.c.run_id)
    rows = connection.execute(query.group_by(part.c.run_id))
    return {row[0]: _counts(*row[1:]) for row in rows}


def last_position(connection: Connection, run_id: int) -> int:
    """Return the position of the last trial of a run, -1 without one: what changes first when trials come."""
    trial = schema.trial
    query = select(func.max(trial.c.position)).where(trial.c.run_id == run_id)
    position = connection.execute(query).scalar()
    return -1 if position is None else int(position)


def _columns() -> tuple[ColumnElement[Any], ...]:
    trial = schema.trial
    is_measured = ~trial.c.is_warmup
    return (
        func.count(distinct(case((trial.c.block >= 0, numbered(trial.c.block))))),
        func.sum(case((is_measured, 1), else_=0)),
        func.sum(case((is_measured & (trial.c.status != "ok"), 1), else_=0)),
    )


def _counts(blocks: int | None, trials: int | None, failed: int | None) -> Counts:
    return Counts(int(blocks or 0), int(trials or 0), int(failed or 0))
