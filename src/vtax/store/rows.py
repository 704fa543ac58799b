"""Rows as they come out of the store, checked: a file can be damaged or another's, and guests claim what they like.

A value of the wrong type, a reference to nothing and a time outside every calendar are one StoreError here, so that
nothing behind the store meets them. Text is cleaned again; what a guest said of itself (facts, notes, settings in
force) is made to fit rather than refused, so that one guest cannot keep a run from being read.
"""

from __future__ import annotations

import json
import math
from collections import namedtuple
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Connection,
    Engine,
    Float,
    Integer,
    LargeBinary,
    Select,
    String,
)
from sqlalchemy.exc import SQLAlchemyError

from vtax.errors import DamagedRows, VtaxError
from vtax.foreign_data import parse_json
from vtax.foreign_text import REPLACEMENT, clean, cleaned
from vtax.store.database import reading, store_name

MAX_BLOCKS = 10_000_000
MAX_INTEGER = 1 << 63
"""The first whole number beyond the 64 bits of a column."""
_MAX_OF_RUNS = 1_000_000  # values about the runs that one is merged of, 8 and its platforms of each
_BOUNDS = {
    "started_at": (0.0, 1e11),
    "ended_at": (0.0, 1e11),
    "active_s": (0.0, 1e11),
    "ready_s": (0.0, 1e11),
    "outside_s": (0.0, 1e15),
    "inside_s": (0.0, 1e15),
    "clock_offset_s": (-1e13, 1e13),
    "block": (-100.0, 100.0 * MAX_BLOCKS),  # of many sessions
    "session": (1.0, 1e6),
    "number": (0.0, 2.0**31 - 1),
    "position": (0.0, 2.0**53),
}
_LISTS = ("marks", "notes", "tags", "argv", "plugins", "untested")
_CLAIMED = ("facts", "notes", "effective")  # by guests
_DECLARED_NUMBERS = (
    "blocks",
    "min_blocks",
    "max_blocks",
    "precision",
    "margin",
    "confidence",
    "budget",
    "sessions",
)


@contextmanager
def reading_rows(engine: Engine) -> Iterator[Connection]:
    """Yield a connection to read rows; whatever stumbles over what is stored becomes a StoreError."""
    with reading(engine) as connection:
        try:
            yield connection
        except (VtaxError, SQLAlchemyError, OSError):
            raise
        except Exception as error:
            raise DamagedRows(
                clean(f"{type(error).__name__}: {error}", 200),
                where=store_name(engine.url),
                hint="vtax remove RUN deletes a run that cannot be read; the other runs are kept",
            ) from error


def fetch(connection: Connection, query: Select[Any]) -> list[Any]:
    """Return the rows of a query as named tuples, every value checked against its column. Raises ValueError."""
    columns = list(query.selected_columns)
    row_type = _row_type(tuple(str(column.key) for column in columns))
    rows = connection.execute(query).all()
    if not rows:
        return []
    values = map(checked_values, columns, zip(*rows, strict=True))
    return list(map(row_type, *values))


@cache
def _row_type(names: tuple[str, ...]) -> Any:
    """Return the type of rows with these columns. It is made once for all queries that have the same columns."""
    return namedtuple("Row", names, rename=True)


def checked(column: Any, value: Any) -> Any:
    """Return a value of a column, cleaned. Raises ValueError for one that the column cannot hold."""
    name, kind = str(column.key), column.type
    if value is None and name not in _CLAIMED:
        if not getattr(getattr(column, "element", column), "nullable", True):
            raise ValueError(f"{name} is missing")
        return None
    if isinstance(kind, JSON):
        return _plain(name, value)
    for column_type, value_type in _TYPES:
        if isinstance(kind, column_type) and not isinstance(value, value_type):
            raise ValueError(f"{name} is {clean(repr(value), 60)}")
    if isinstance(kind, String):
        return clean(value)
    if isinstance(kind, Float | Integer) and not isinstance(kind, Boolean):
        low, high = _bounds_of(column)
        if isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"{name} is {clean(repr(value), 60)}")
    return value


def checked_values(
    column: Any, values: Sequence[Any], check: Callable[[Any, Any], Any] = checked
) -> Sequence[Any]:
    """Return values of a column, cleaned: each by itself, or all at once where they are plain.

    check: of one value.

    Raises ValueError for one that the column cannot hold.
    """
    kinds, of_column = set(map(type, values)), column.type
    if kinds == {bool} and isinstance(of_column, Boolean):
        return values
    if kinds == {str} and isinstance(of_column, String):  # most come again and again
        known = {value: check(column, value) for value in set(values)}
        return [known[value] for value in values]
    low, high = _bounds_of(column)
    if kinds == {int} and isinstance(of_column, Integer):
        low, high = max(low, -MAX_INTEGER), min(high, MAX_INTEGER - 1)
        if low <= min(values) and max(values) <= high:
            return values
    if kinds == {float} and isinstance(of_column, Float):
        has_numbers = not math.isnan(sum(values))
        if has_numbers and low <= min(values) and max(values) <= high:
            return values
    return [check(column, value) for value in values]


def _bounds_of(column: Any) -> tuple[float, float]:
    """Return the least and the largest number that a column may hold."""
    return _BOUNDS.get(str(column.key), (-1.7e308, 1.7e308))


_TYPES: tuple[tuple[type, Any], ...] = (
    (String, str),
    (Boolean, bool),
    (Integer, int),
    (Float, (int, float)),
    (LargeBinary, bytes),
)


def _plain(name: str, value: Any) -> Any:
    """Return a JSON column: a list or an object, its texts cleaned."""
    container: type = list if name in _LISTS else dict
    if not isinstance(value, container):
        if name not in _CLAIMED:
            raise ValueError(f"{name} is {clean(repr(value), 60)}")
        return container()
    if name == "facts":
        return flat(value)
    content = cleaned(value, _MAX_OF_RUNS) if name == "provenance" else cleaned(value)
    if name not in _LISTS or name in ("plugins", "untested"):
        return content
    return [item if isinstance(item, str) else REPLACEMENT for item in content]


def flat(facts: Any) -> dict[str, Any]:
    """Return facts in which a value is text, a number, or a list of these; anything else becomes text."""
    values = {}
    for name, value in cleaned(facts).items():
        values[name] = [*map(_scalar, value)] if isinstance(value, list) else _scalar(value)
    return values


def _scalar(value: Any) -> Any:
    if isinstance(value, dict | list):
        return clean(json.dumps(value, ensure_ascii=False), 500)
    return value


def check_declared(declared: Mapping[str, Any]) -> None:
    """Raise ValueError unless a study's plain values are of the types that reports rely on."""
    design, benchmarks = declared.get("design", {}), declared.get("benchmark", [])
    if not isinstance(design, dict) or not isinstance(benchmarks, list):
        raise ValueError("the declared study has no design or no benchmarks")
    for name in _DECLARED_NUMBERS:
        value = design.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"the declared {name} is {clean(repr(value), 60)}")
    for table in benchmarks:
        if not isinstance(table, dict) or not isinstance(table.get("topology"), str | None):
            raise ValueError("a declared benchmark is no table")


def check_host(host: Mapping[str, Any]) -> None:
    """Raise ValueError unless the counts and sizes that describe a host are numbers."""
    for name in ("cpus", "memory_bytes"):
        value = host.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
            raise ValueError(f"the host's {name} is {clean(repr(value), 60)}")


def plain_settings(text: str, *, without: Collection[str]) -> str:
    """Return a JSON object as it was stored, cleaned, without some of its keys; an empty one where it is none."""
    try:
        value = parse_json(text)
    except ValueError:
        return "{}"
    if not isinstance(value, dict):
        return "{}"
    is_small = len(text) < 4000 and text.count("[") + text.count("{") < 10
    if is_small and value.keys().isdisjoint(without) and "\\u" not in text:
        return text
    settings = {key: setting for key, setting in value.items() if key not in without}
    return json.dumps(cleaned(settings), ensure_ascii=False)


def finite_lists(value: Any) -> dict[str, list[float]]:
    """Keep of metric name -> values those that are lists of finite numbers."""
    if not isinstance(value, dict):
        return {}
    lists = {}
    for name, items in value.items():
        if isinstance(items, list) and all(map(_is_finite, items)):
            lists[clean(name)] = list(map(float, items))
    return lists


def _is_finite(item: Any) -> bool:
    return type(item) in (int, float) and abs(item) < 1e308 and math.isfinite(item)
