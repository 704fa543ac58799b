"""A glance at the names in a store, for the completion of a command line: at once, without a lock, without an error.

An SQLite file is read as it lies there. What is still in its write-ahead log, such as a run that has just begun, is
not seen; nor are stores of database servers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

_SQLITE = "sqlite:///"
_RUNS = "SELECT name, status FROM run ORDER BY started_at DESC, id DESC"
_STUDIES = "SELECT DISTINCT study FROM run ORDER BY study"
_TAGS = "SELECT DISTINCT value FROM run, json_each(run.tags) WHERE typeof(value) = 'text' ORDER BY value"
_LEVELS = (
    "SELECT DISTINCT each.key FROM cell JOIN run ON run.id = cell.run_id, json_each(cell.levels) AS each "
    "WHERE run.name = ?"
)
_SETTINGS = (
    "SELECT DISTINCT each.key FROM cell JOIN run ON run.id = cell.run_id, json_each(cell.parameters) AS each "
    "WHERE run.name = ?1 AND each.type != 'null' UNION SELECT DISTINCT 'link.' || each.key FROM cell "
    "JOIN run ON run.id = cell.run_id, json_each(cell.link) AS each WHERE run.name = ?1 AND each.type != 'null'"
)
_METRICS = (
    "SELECT DISTINCT metric.name FROM metric JOIN run ON run.id = metric.run_id WHERE run.name = ? "
    "ORDER BY metric.is_primary DESC, metric.id"
)
_PLATFORMS = "SELECT p.name FROM platform p JOIN run ON run.id = p.run_id WHERE run.name = ? ORDER BY p.position"


def run_names(place: str | Path, statuses: Sequence[str] = ()) -> list[str]:
    """Return names of the runs, the newest first; of given statuses, where there are any."""
    return [str(name) for name, status in _rows(place, _RUNS) if not statuses or status in statuses]


def studies(place: str | Path) -> list[str]:
    """Return names of the studies of the runs, in order."""
    return [str(name) for (name,) in _rows(place, _STUDIES)]


def tags(place: str | Path) -> list[str]:
    """Return the tags of all runs, in order."""
    return [str(tag) for (tag,) in _rows(place, _TAGS)]


def factors(place: str | Path, run_name: str) -> list[str]:
    """Return the factors whose levels vary in a run, then its settings."""
    found = [str(name) for query in (_LEVELS, _SETTINGS) for (name,) in _rows(place, query, run_name)]
    return list(dict.fromkeys(found))


def metrics(place: str | Path, run_name: str) -> list[str]:
    """Return names of the metrics of a run, primary ones first."""
    return [str(name) for (name,) in _rows(place, _METRICS, run_name)]


def platform_names(place: str | Path, run_name: str) -> list[str]:
    """Return names of the platforms of a run, in its own order."""
    return [str(name) for (name,) in _rows(place, _PLATFORMS, run_name)]


def _rows(place: str | Path, query: str, *values: str) -> list[tuple[object, ...]]:
    text = str(place)
    if "://" in text and not text.startswith(_SQLITE):
        return []
    file = quote(str(Path(text.removeprefix(_SQLITE)).absolute()))
    try:
        # immutable: no lock is asked for, and none of SQLite's own files is made (SQLite, "URI Filenames")
        with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as connection:
            return connection.execute(query, values).fetchall()
    except sqlite3.Error:
        return []
