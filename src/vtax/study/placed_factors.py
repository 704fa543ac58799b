"""Levels among the `factors` of a `[[benchmark]]` that another key holds: guests, neighbour, tuning, scratch, a link's.

A factor is a factor to whoever writes a study. Plain values have one form after this: that of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BESIDE = ("guests", "neighbour")
_LINK = "link"
_OVER_EVERYTHING = ("tuning", "scratch")


def with_placed_factors(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study's plain values with every factor where the model has it.

    What is a parameter of an own program stays, and so does what is written in both places, for the model to refuse;
    tuning and scratch, which hold for everything, are moved where every benchmark has them alike. One place of
    /scratch is a list of one.
    """
    data = dict(data)
    if isinstance(data.get("scratch"), str):
        data["scratch"] = [data["scratch"]]
    tables = data.get("benchmark")
    if not isinstance(tables, list):
        return data
    own = _parameters_of_programs(data.get("program"))
    placed: dict[str, Any] = {**data, "benchmark": [_placed(each, own) for each in tables]}
    for key in _OVER_EVERYTHING:
        placed = _moved_to_top(placed, key, own)
    return placed


def _parameters_of_programs(programs: Any) -> dict[str, Any]:
    """Name of a program -> its parameters."""
    tables = (
        [each for each in programs if isinstance(each, dict)] if isinstance(programs, list) else []
    )
    return {str(each.get("name")): each.get("parameters", {}) for each in tables}


def _factors(table: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the factors of a table that are no parameters of its own program."""
    factors = table.get("factors") if isinstance(table, dict) else None
    if not isinstance(factors, dict):
        return {}
    parameters = own.get(str(table.get("name")), ())
    return {key: value for key, value in factors.items() if key not in parameters}


def _placed(table: Any, own: Mapping[str, Any]) -> Any:
    factors = _factors(table, own)
    below = factors.get(_LINK)
    of_links = (
        {f"{_LINK}.{name}": each for name, each in below.items()} if isinstance(below, dict) else {}
    )
    of_links |= {name: each for name, each in factors.items() if name.startswith(f"{_LINK}.")}
    links = {name.removeprefix(f"{_LINK}."): each for name, each in of_links.items()}
    known = table.get("link_factors", {}) if isinstance(table, dict) else {}
    if not isinstance(known, dict) or known.keys() & links.keys():
        links, of_links = {}, {}
    beside = {name: factors[name] for name in _BESIDE if name in factors and name not in table}
    gone = {*beside, *of_links, *([_LINK] if links else [])}
    if not gone:
        return table
    placed = {
        **table,
        **beside,
        "factors": {key: each for key, each in table["factors"].items() if key not in gone},
    }
    return {**placed, "link_factors": {**known, **links}} if links else placed


def _moved_to_top(data: dict[str, Any], key: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Move the levels of a factor over everything to the top, where every benchmark has the same."""
    tables = data["benchmark"]
    given = [_factors(table, own).get(key) for table in tables]
    if key in data or not given or given[0] is None or any(each != given[0] for each in given):
        return data
    rest = [
        {**each, "factors": {k: v for k, v in each["factors"].items() if k != key}}
        for each in tables
    ]
    return {**data, key: given[0], "benchmark": rest}
