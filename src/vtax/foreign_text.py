"""Text and values that others wrote - guests, tools, files, stores of long ago - made fit to be shown and stored.

Whatever comes from outside passes `clean` where it enters, so that nothing behind it has to care: no escape sequence
reaches a terminal, no direction mark reorders a line, no lone surrogate breaks an encoder, no text fills a screen.
What a program printed is stored raw, and shown through `escaped`.
"""

from __future__ import annotations

import math
import re
from typing import Any

LONGEST_TEXT = 4000  # characters: an error with its diagnosis, a warning
LONGEST_NAME = 200  # a version, a name, a field
DEEPEST = 16  # levels of lists and objects in one value
MAX_ITEMS = 10_000  # of one value, all levels together
LARGEST_INTEGER = 1 << 63
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNFIT = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline
    "\ud800-\udfff"  # lone surrogates
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, embeddings, overrides, isolates
    "\u2028\u2029\ufff9-\ufffb\ufffe\uffff"  # separators of lines, annotations, no characters
)
_ANY = re.compile(f"[{_UNFIT}]")
_SPACES = re.compile(r"\s+")


def clean(text: str, longest: int = LONGEST_TEXT) -> str:
    """Text in which tab and newline are the only control characters, of at most `longest` characters.

    Each character that is unfit becomes a replacement character; what is cut off is replaced by an ellipsis, and
    counted where there is room to say so.
    """
    cut = text
    if len(text) > longest:
        kept = longest - (len(_more(len(text))) if longest >= LONGEST_TEXT else 1)
        cut = text[:kept] + (_more(len(text) - kept) if longest >= LONGEST_TEXT else "…")
    return _ANY.sub(REPLACEMENT, cut.replace("\r\n", "\n"))


def _more(count: int) -> str:
    return f"… ({count} characters more)"


def printable(text: str) -> str:
    """Text of the same length, each unfit character replaced: for what is laid out or styled already."""
    return _ANY.sub(REPLACEMENT, text)


def one_line(text: str, longest: int = LONGEST_NAME) -> str:
    """Cleaned text on one line, each run of white space being one space: a version, a name, a field."""
    return clean(_SPACES.sub(" ", text[: 8 * longest]).strip(), longest)


def escaped(text: str) -> str:
    """All of a text, each unfit character as its escape (`\\x1b`, `\\u202e`): how raw output is shown."""
    return _ANY.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def json_escaped(text: str) -> str:
    """A JSON document with each unfit character as JSON's own escape; it means the same."""
    return _ANY.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def cleaned(value: Any) -> Any:
    """A plain value (as JSON has them) with all its texts cleaned, whatever it is.

    What lies deeper than DEEPEST, or behind MOST_ITEMS others, is left out; a number that is not finite, and an
    integer that no column holds, become text.
    """
    return _cleaned(value, DEEPEST, [MAX_ITEMS])


def _cleaned(value: Any, levels: int, room: list[int]) -> Any:
    room[0] -= 1
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        return value if abs(value) < LARGEST_INTEGER else f"{'-' if value < 0 else ''}{REPLACEMENT}"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if not levels or not isinstance(value, dict | list | tuple):
        return REPLACEMENT
    if isinstance(value, dict):
        return {
            clean(str(name), LONGEST_NAME): _cleaned(item, levels - 1, room)
            for name, item in value.items()
            if room[0] > 0
        }
    return [_cleaned(item, levels - 1, room) for item in value if room[0] > 0]
