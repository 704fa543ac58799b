"""Reads JSON and TOML of guests, tools, files and other hosts: the one place where vtax does.

Python reads both by functions that call themselves for each level, and so does much that uses the values. So what is
nested deeper than `limits.DOCUMENT.depth` is refused here, as ValueError, like everything else that is no JSON.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from vtax.limits import DOCUMENT, STUDY

# tomllib needs time that grows with the square of the parts of a key: a.a.a.a...
_LONG_KEY = re.compile(
    rf"""(?<![\w."'-])(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{2 * STUDY.depth}}}"""
)


_CONTAINERS = dict, list  # a union of types takes several times as long to compare with


class NestedTooDeep(ValueError):
    """Lists and objects, or tables, lie in each other on more levels than are allowed."""

    def __init__(self, levels: int) -> None:
        super().__init__(f"it is nested more than {levels} deep")


class LongKey(NestedTooDeep):
    """A dotted key of TOML has more parts than any document needs: tomllib needs their square in time."""


def parse_json(
    text: str | bytes,
    *,
    levels: int = DOCUMENT.depth,
    parse_constant: Callable[[str], Any] | None = None,
    parse_float: Callable[[str], Any] | None = None,
) -> Any:
    """Return a value of JSON.

    levels: of lists and objects in it.
    parse_constant: of NaN and infinities (json.loads).
    parse_float: of other numbers with a point or an exponent (json.loads).
    Raises JSONDecodeError, UnicodeDecodeError or NestedTooDeep, all ValueError; TypeError for what is neither.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    if not isinstance(text, str):  # SQLite reads some JSON as a number, which SQLAlchemy then keeps
        raise TypeError(f"not text: {type(text).__name__}")
    if text.startswith("\ufeff"):
        raise json.JSONDecodeError("it begins with a byte order mark", text, 0)
    try:
        value = _decoder(parse_constant, parse_float).decode(text)
    except RecursionError:
        raise NestedTooDeep(levels) from None
    if text.count("[") + text.count("{") > levels:
        _check_depth(value, levels)
    return value


@lru_cache(maxsize=16)
def _decoder(
    parse_constant: Callable[[str], Any] | None, parse_float: Callable[[str], Any] | None
) -> json.JSONDecoder:
    """Return a decoder, which `json.loads` makes for every text."""
    return json.JSONDecoder(parse_constant=parse_constant, parse_float=parse_float)


def parse_toml(text: str, *, levels: int = DOCUMENT.depth) -> dict[str, Any]:
    """Return a document of TOML.

    levels: of lists and tables in it.
    Raises TOMLDecodeError, LongKey or NestedTooDeep, all ValueError.
    """
    if _LONG_KEY.search(text):
        raise LongKey(2 * STUDY.depth)
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise NestedTooDeep(levels) from None
    _check_depth(value, levels)
    return value


def _check_depth(value: Any, levels: int) -> None:
    """Raise NestedTooDeep for lists and objects that lie in each other on more than so many levels."""
    level = [value]
    for _ in range(levels + 1):
        containers = [item for item in level if isinstance(item, _CONTAINERS)]
        if not containers:
            return
        level = []
        for container in containers:
            level += container.values() if isinstance(container, dict) else container
    raise NestedTooDeep(levels)
