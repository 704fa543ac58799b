"""Columns, audit facts and counters under the names that the field uses.

`platform.cure` is `hint`, `trial.used` is `effective`, the facts `card.*` are `interface.*`, the counter
`lost.packets` is `drops.packets`, settings of trials are renamed as `_SETTINGS` says.
A value that is not JSON of the expected shape stays unchanged; its readers report it.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_SETTINGS = {
    "cards": "interfaces",
    "interval_least_mbit_s": "interval_min_mbit_s",
    "interval_most_mbit_s": "interval_max_mbit_s",
}
_guest = sa.table("guest", sa.column("id"), sa.column("facts", sa.JSON))
_counter = sa.table("counter", sa.column("name", sa.Text))
_trial = sa.table("trial", sa.column("id"), sa.column("effective", sa.JSON))
_run = sa.table("run", sa.column("id"), sa.column("declared", sa.JSON))


def upgrade() -> None:
    """Rename two columns, then rewrite facts, counters and declared studies."""
    op.execute("ALTER TABLE platform RENAME COLUMN cure TO hint")
    op.execute("ALTER TABLE trial RENAME COLUMN used TO effective")
    connection = op.get_bind()
    connection.execute(sa.update(_counter).where(_counter.c.name == "lost.packets").values(name="drops.packets"))
    _rewrite(connection, _guest, "facts", lambda facts: {_fact(name): value for name, value in facts.items()})
    _rewrite(connection, _run, "declared", _study)
    for name in ("cards", "interval_least_mbit_s"):
        _rewrite(connection, _trial, "effective", _settings, containing=f'"{name}"')


def _fact(name: str) -> str:
    return f"interface.{name.removeprefix('card.')}" if name.startswith("card.") else name


def _study(declared: dict[str, Any]) -> dict[str, Any]:
    fields = declared.get("must_match")
    if not isinstance(fields, list):
        return declared
    return {**declared, "must_match": [_fact(field) if isinstance(field, str) else field for field in fields]}


def _settings(effective: dict[str, Any]) -> dict[str, Any]:
    link = effective.get("link")
    found = {**effective, "link": _renamed(link)} if isinstance(link, dict) else effective
    return _renamed(found)


def _renamed(values: dict[str, Any]) -> dict[str, Any]:
    return {_SETTINGS.get(name, name): value for name, value in values.items()}


def _rewrite(connection: sa.Connection, table: sa.TableClause, name: str, change: Any, containing: str = "") -> None:
    text_of = sa.cast(table.c[name], sa.Text)
    for row, text in connection.execute(sa.select(table.c.id, text_of).where(text_of.contains(containing))).all():
        try:
            before = json.loads(text)
            after = change(before) if isinstance(before, dict) else before
        except (TypeError, ValueError, AttributeError):
            continue
        if after != before:
            connection.execute(sa.update(table).where(table.c.id == row).values({name: after}))
