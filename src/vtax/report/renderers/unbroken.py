"""Text for a terminal in which no number, time or size breaks across lines.

Rich takes every white space for a place where a line may end, the narrow no-break space within `15 200` too. So
whatever must stay whole is laid out with stand-ins for its spaces, one cell wide each, and put right as it is drawn.
Everything that is drawn passes here, so text of others is made harmless here too, and cut when it would fill screens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from vtax.foreign_text import MAX_TEXT_CHARS, left_out, printable

_SPACES = " \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_STAND_INS = "\ue000\ue001\ue002"  # of the private use area: nothing that vtax tells holds them
_SET = str.maketrans(_SPACES, _STAND_INS)
_SET_UNBREAKABLE = str.maketrans(_SPACES[1:], _STAND_INS[1:])
_UNSET = str.maketrans(_STAND_INS, _SPACES)
_QUANTITIES = re.compile(r"\d h \d\d min\b|\d min \d\d s\b|\d (?:ms|s|min|h|B|[KMGT]iB)\b")


def bind_spaces(text: str) -> str:
    """Return text no line of which ends at any of its spaces."""
    return text.translate(_SET)


def prepared(text: str) -> str:
    """Return text fit for a terminal, with its no-break spaces kept together, and quantities with their units."""
    return _prepared(shortened(text))


def _prepared(text: str) -> str:
    return _QUANTITIES.sub(lambda match: bind_spaces(match[0]), printable(text)).translate(
        _SET_UNBREAKABLE
    )


def release_spaces(text: str) -> str:
    """Return text as it is drawn: what `bind_spaces` and `prepared` set is undone."""
    return text.translate(_UNSET)


def prepared_text(text: Text) -> Text:
    """Return `prepared` for a styled text: a copy."""
    copy = text.copy() if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS]
    copy.plain = _prepared(
        copy.plain
    )  # as long as it was, so that its styles stand where they stood
    return copy.append(_left_out(len(text)))


def shortened(text: str) -> str:
    """Return text of at most MAX_TEXT_CHARS characters, and how many there are more."""
    return text[:MAX_TEXT_CHARS] + _left_out(len(text))


def _left_out(length: int) -> str:
    return left_out(length - MAX_TEXT_CHARS, ": --json has them") if length > MAX_TEXT_CHARS else ""


class Unbroken:
    """Parts drawn one below the other with every number whole."""

    def __init__(self, parts: Sequence[RenderableType]) -> None:
        self.parts = tuple(parts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(Group(*map(_prepared_part, self.parts)), options):
            yield Segment(release_spaces(segment.text), segment.style, segment.control)


def _prepared_part(part: RenderableType) -> RenderableType:
    """Return a copy of what is made of texts; anything else, which keeps its own numbers whole, as it is."""
    if isinstance(part, str):
        return prepared(part)
    if isinstance(part, Text):
        return prepared_text(part)
    if isinstance(part, Group):
        return Group(*map(_prepared_part, part.renderables))
    return part
