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

from vtax.levels import LINK

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
    f"WHERE run.name = ?1 AND each.type != 'null' UNION SELECT DISTINCT '{LINK}' || each.key FROM cell "
    "JOIN run ON run.id = cell.run_id, json_each(cell.link) AS each WHERE run.name = ?1 AND each.type != 'null'"
)
_METRICS = (
    "SELECT DISTINCT metric.name FROM metric JOIN run ON run.id = metric.run_id WHERE run.name = ? "
    "ORDER BY metric.is_primary DESC, metric.id"
)
_PLATFORMS = "SELECT p.name FROM platform p JOIN run ON run.id = p.run_id WHERE run.name = ? ORDER BY p.position"


class Glance:
    """Names in the store of a SQLAlchemy URL or an SQLite file."""

    def __init__(self, place: str | Path) -> None:
        self._place = str(place)

    def run_names(self, statuses: Sequence[str] = ()) -> list[str]:
        """Return names of the runs, the newest first; of given statuses, where there are any."""
        names = []
        for name, status in self._rows(_RUNS):
            if not statuses or status in statuses:
                names.append(str(name))
        return names

    def studies(self) -> list[str]:
        """Return names of the studies of the runs, in order."""
        return self._names(_STUDIES)

    def tags(self) -> list[str]:
        """Return the tags of all runs, in order."""
        return self._names(_TAGS)

    def factors(self, run_name: str) -> list[str]:
        """Return the factors whose levels vary in a run, then its settings."""
        names = self._names(_LEVELS, run_name) + self._names(_SETTINGS, run_name)
        return list(dict.fromkeys(names))

    def metrics(self, run_name: str) -> list[str]:
        """Return names of the metrics of a run, primary ones first."""
        return self._names(_METRICS, run_name)

    def platform_names(self, run_name: str) -> list[str]:
        """Return names of the platforms of a run, in its own order."""
        return self._names(_PLATFORMS, run_name)

    def _names(self, query: str, *values: str) -> list[str]:
        """Return the first column of a query."""
        return [str(row[0]) for row in self._rows(query, *values)]

    def _rows(self, query: str, *values: str) -> list[tuple[object, ...]]:
        text = self._place
        if "://" in text and not text.startswith(_SQLITE):
            return []
        file = quote(str(Path(text.removeprefix(_SQLITE)).absolute()))
        try:
            # immutable: no lock is asked for, and none of SQLite's own files is made (SQLite, "URI Filenames")
            with closing(
                sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
            ) as connection:
                return connection.execute(query, values).fetchall()
        except sqlite3.Error:
            return []
