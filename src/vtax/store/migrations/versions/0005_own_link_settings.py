"""Link settings of one topology alone are stored with cells of that topology alone, `cards` under its present name.

What is not JSON of the expected shape stays as it is: whoever reads it says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_OWNERS = {"cards": "multi-nic", "pairs": "vlan-pairs"}
_cell = sa.table("cell", sa.column("id"), sa.column("topology"), sa.column("link", sa.JSON))
_levels = sa.table("cell", sa.column("id"), sa.column("levels", sa.JSON))
_run = sa.table("run", sa.column("id"), sa.column("declared", sa.JSON))


def upgrade() -> None:
    """Rewrite cells and declared studies; keys of cells stay."""
    connection = op.get_bind()
    topologies = dict(connection.execute(sa.select(_cell.c.id, _cell.c.topology)).all())
    _rewrite(connection, _cell, "link", lambda row, link: _of_topology(topologies.get(row), link))
    _rewrite(connection, _levels, "levels", lambda row, levels: _renamed(levels, "link.cards", "link.interfaces"))
    _rewrite(connection, _run, "declared", lambda row, declared: _study(declared))


def _rewrite(
    connection: sa.Connection, table: sa.TableClause, name: str, change: Callable[[int, dict[str, Any]], Any]
) -> None:
    column = table.c[name]
    for row, text in connection.execute(sa.select(table.c.id, sa.cast(column, sa.Text))).all():
        try:
            before = json.loads(text)
            after = change(row, before) if isinstance(before, dict) else before
        except (TypeError, ValueError, AttributeError):
            continue
        if after != before:
            connection.execute(sa.update(table).where(table.c.id == row).values({name: after}))


def _of_topology(topology: str | None, link: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in link.items() if name not in _OWNERS or _OWNERS[name] == topology}
    return _renamed(kept, "cards", "interfaces")


def _renamed(values: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: value for name, value in values.items()}


def _study(declared: dict[str, Any]) -> dict[str, Any]:
    tables = declared.get("benchmark")
    if not isinstance(tables, list):
        return declared
    return {**declared, "benchmark": [_benchmark(table) if isinstance(table, dict) else table for table in tables]}


def _benchmark(table: dict[str, Any]) -> dict[str, Any]:
    links = {key: table[key] for key in ("link", "link_factors") if isinstance(table.get(key), dict)}
    return {**table, **{key: _renamed(link, "cards", "interfaces") for key, link in links.items()}}
