"""Levels among the `factors` of a `[[benchmark]]` that another key holds: guests, neighbour, tuning, scratch, a link's.

A factor is a factor to whoever writes a study. Plain values have one form after this: that of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vtax.levels import LINK

_COLOCATED = ("guests", "neighbour")
_LINK_TABLE = "link"
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
    parameters = _parameters_of_programs(data.get("program"))
    data["benchmark"] = [_place_factors(table, parameters) for table in tables]
    for key in _OVER_EVERYTHING:
        data = _move_to_top(data, key, parameters)
    return data


def _parameters_of_programs(programs: Any) -> dict[str, Any]:
    """Return the parameters of every program by its name."""
    parameters = {}
    for table in programs if isinstance(programs, list) else ():
        if isinstance(table, dict):
            parameters[str(table.get("name"))] = table.get("parameters", {})
    return parameters


def _movable_factors(table: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the factors of a table that are no parameters of its own program."""
    factors = table.get("factors") if isinstance(table, dict) else None
    if not isinstance(factors, dict):
        return {}
    own_parameters = parameters.get(str(table.get("name")), ())
    return {key: levels for key, levels in factors.items() if key not in own_parameters}


def _place_factors(table: Any, parameters: Mapping[str, Any]) -> Any:
    """Return the table of a benchmark with colocated guests and settings of its links in keys of their own."""
    factors = _movable_factors(table, parameters)
    if not factors:
        return table
    colocated = {}
    for name in _COLOCATED:
        if name in factors and name not in table:
            colocated[name] = factors[name]
    settings = _link_settings(factors)
    known_settings = table.get("link_factors", {})
    if not isinstance(known_settings, dict) or known_settings.keys() & settings.keys():
        settings = {}
    rest = {}
    for name, levels in table["factors"].items():
        is_of_link = name in factors and (name == _LINK_TABLE or name.startswith(LINK))
        if name not in colocated and not (settings and is_of_link):
            rest[name] = levels
    if len(rest) == len(table["factors"]):
        return table
    placed_table = {**table, **colocated, "factors": rest}
    if settings:
        placed_table["link_factors"] = {**known_settings, **settings}
    return placed_table


def _link_settings(factors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the levels of a link's settings, from `link = { mtu = [...] }` and from `"link.mtu" = [...]`."""
    link_table = factors.get(_LINK_TABLE)
    settings = dict(link_table) if isinstance(link_table, dict) else {}
    for name, levels in factors.items():
        if name.startswith(LINK):
            settings[name.removeprefix(LINK)] = levels
    return settings


def _move_to_top(data: dict[str, Any], key: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Move the levels of a factor over everything to the top, where every benchmark has the same."""
    tables = data["benchmark"]
    levels = [_movable_factors(table, parameters).get(key) for table in tables]
    if key in data or not levels or levels[0] is None or levels != [levels[0]] * len(levels):
        return data
    rest = []
    for table in tables:
        factors = {name: value for name, value in table["factors"].items() if name != key}
        rest.append({**table, "factors": factors})
    return {**data, key: levels[0], "benchmark": rest}
