"""Keys of studies that had another name before: the old one is understood for one release, with a warning.

The new name is put in its place as soon as a file is read, so that plans, stores and tables know it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

LINK_SETTINGS = {"cards": "interfaces"}
"""Former name -> name, below `link` and `link_factors` of `[[benchmark]]`."""

FORMER_FACTS, FACTS = "card.", "interface."
"""How facts of network interfaces began and begin, in `must_match`."""


def with_current_names(data: Mapping[str, Any], warn: Callable[[str], object]) -> dict[str, Any]:
    """A study's plain values with every key under its current name; warn is given a sentence for each former one.

    What is not as a study must be stays as it is: validation names it. So does a former name beside the current one.
    """
    fields = data.get("must_match")
    if isinstance(fields, list):
        data = {**data, "must_match": [_fact(field, warn) for field in fields]}
    tables = data.get("benchmark")
    if not isinstance(tables, list):
        return dict(data)
    return {**data, "benchmark": [_table(table, number, warn) for number, table in enumerate(tables, 1)]}


def _fact(field: Any, warn: Callable[[str], object]) -> Any:
    if not isinstance(field, str) or not field.startswith(FORMER_FACTS):
        return field
    current = FACTS + field.removeprefix(FORMER_FACTS)
    warn(f"key must_match: {field} is deprecated; it is called {current} now")
    return current


def _table(table: Any, number: int, warn: Callable[[str], object]) -> Any:
    if not isinstance(table, Mapping):
        return table
    found = dict(table)
    for key in ("link", "link_factors"):
        settings = table.get(key)
        if isinstance(settings, Mapping):
            found[key] = {}
            for name, value in settings.items():
                current = LINK_SETTINGS.get(name, name)
                if current in settings:
                    current = name
                if current != name:
                    warn(f"[[benchmark]] number {number}, key {key}.{name} is deprecated; it is called {current} now")
                found[key][current] = value
    return found
