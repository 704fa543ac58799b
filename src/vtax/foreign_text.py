"""Sanitizes text and values of guests, tools, files and stores, before they are stored or printed.

External text passes `clean` at the boundary: it removes escape sequences, direction marks and lone surrogates, and
limits the length. Output of programs is stored raw and printed through `escaped`.
"""

from __future__ import annotations

import math
import re
from typing import Any

from vtax.limits import VALUE

MAX_TEXT_CHARS = 4000  # characters of an error or a warning
MAX_NAME_CHARS = 200  # characters of a version, a name, a field
MAX_INTEGER = 1 << 63
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNSAFE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline
    "\ud800-\udfff"  # lone surrogates
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, embeddings, overrides, isolates
    "\u2028\u2029\ufff9-\ufffb\ufffe\uffff"  # separators of lines, annotations, no characters
)
_ANY = re.compile(f"[{_UNSAFE}]")
_SPACES = re.compile(r"\s+")


def clean(text: str, longest: int = MAX_TEXT_CHARS) -> str:
    """Return text in which tab and newline are the only control characters, of at most `longest` characters.

    Each unsafe character becomes a replacement character. Truncated text ends in an ellipsis, with the number of
    omitted characters where it fits.
    """
    if len(text) <= longest and text.isascii() and text.isprintable():  # which takes a fifth
        return text
    if len(text) > longest >= MAX_TEXT_CHARS:
        kept = longest - len(left_out(len(text)))
        text = text[:kept] + left_out(len(text) - kept)
    elif len(text) > longest:
        text = f"{text[: longest - 1]}…"
    return _ANY.sub(REPLACEMENT, text.replace("\r\n", "\n"))


def left_out(count: int, where: str = "") -> str:
    """Return what stands in place of so many characters. where: behind that, how one gets them."""
    return f"… ({count} character{'' if count == 1 else 's'} more{where})"


def printable(text: str) -> str:
    """Return text of the same length with unsafe characters replaced: for text that is laid out or styled already."""
    return _ANY.sub(REPLACEMENT, text)


def one_line(text: str, longest: int = MAX_NAME_CHARS) -> str:
    """Return cleaned text on one line with single spaces: a version, a name, a field."""
    return clean(_SPACES.sub(" ", text[: 8 * longest]).strip(), longest)


def escaped(text: str) -> str:
    """Return the whole text with unsafe characters as escapes (`\\x1b`, `\\u202e`), to print raw output."""
    text = text.replace("\r\n", "\n")
    return _ANY.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def json_escaped(text: str) -> str:
    """Return an equivalent JSON document with unsafe characters as JSON escapes."""
    return _ANY.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def cleaned(value: Any, most: int = VALUE.count) -> Any:
    """Return a JSON value with all texts cleaned.

    Values deeper than VALUE.depth or after `most` items are omitted. Infinite numbers and integers beyond 64 bits
    become text.
    """
    return _cleaned(value, VALUE.depth, [most])


def _cleaned(value: Any, levels: int, room: list[int]) -> Any:
    room[0] -= 1
    if isinstance(value, str):
        return clean(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < MAX_INTEGER else f"{'-' if value < 0 else ''}{REPLACEMENT}"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict) and levels:
        items = {}
        for name, item in value.items():
            if room[0] > 0:
                items[clean(str(name), MAX_NAME_CHARS)] = _cleaned(item, levels - 1, room)
        return items
    if isinstance(value, list | tuple) and levels:
        return [_cleaned(item, levels - 1, room) for item in value if room[0] > 0]
    return REPLACEMENT
