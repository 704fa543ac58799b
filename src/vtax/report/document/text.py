"""Text that no view formats: sentences as templates of one catalogue, with the values they hold left as values.

A view writes `msg("{blocks} of {total} are made", ...)`. The template is the key of the catalogue; the renderer
translates it and formats every value in the reader's language. A plain `str` is data (a platform's name, a guest's
words) and is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["", "strong", "muted", "caution", "error", "code", "italic"]


@dataclass(frozen=True)
class Message:
    """A sentence, or a part of one. template: English, with `{names}` of data. many: the template for other counts
    than one, of which `count` decides."""

    template: str
    data: Mapping[str, Inline] = field(default_factory=dict)
    many: str = ""
    count: int = 1


@dataclass(frozen=True)
class Joined:
    """Several texts as one. separator: between them, data. is_list: the last is joined by the language's "and"."""

    parts: tuple[Inline, ...]
    separator: str = ", "
    is_list: bool = False


@dataclass(frozen=True)
class Styled:
    """Text with a role, which a renderer shows as it can."""

    text: Inline
    role: Role


@dataclass(frozen=True)
class Link:
    """Text that leads to the section of a key, where a renderer has links."""

    text: Inline
    key: str


@dataclass(frozen=True)
class Translated:
    """A text of a study in English, and in other languages: code of the language -> text."""

    text: str
    others: Mapping[str, str] = field(default_factory=dict)


class Value:
    """Value of a cell or a sentence that a renderer formats: a number with its kind, see `cells`."""


Inline = str | Message | Joined | Styled | Link | Translated | Value


def msg(template: str, /, **data: Inline) -> Message:
    """Return a message of the catalogue."""
    return Message(template, data)


def plural(one: str, many: str, count: int, /, **data: Inline) -> Message:
    """Return a message whose form depends on a count, which both templates may name as `{count}`."""
    from vtax.report.document.cells import Count

    return Message(one, {"count": Count(count), **data}, many, count)


def joined(parts: Iterable[Inline], separator: str = ", ") -> Inline:
    """Texts as one, empty ones left out; a single text as it is."""
    filled_parts = tuple(part for part in parts if part != "")
    return (
        filled_parts[0]
        if len(filled_parts) == 1
        else Joined(filled_parts, separator)
        if filled_parts
        else ""
    )


def in_brackets(inside: Inline) -> Inline:
    """Return `(inside)`; nothing stays nothing."""
    return Joined(("(", inside, ")"), "") if inside != "" else ""


def listed(parts: Iterable[Inline]) -> Inline:
    """Return `a, b and c`."""
    items = tuple(parts)
    return items[0] if len(items) == 1 else Joined(items, ", ", is_list=True)


def styled(text: Inline, role: Role) -> Inline:
    """Return a text with a role; nothing stays nothing."""
    return Styled(text, role) if text != "" else ""


def term(text: str) -> Inline:
    """Return data that may have an entry of its own in the catalogue: a title, a unit, what a study says of itself.

    A note stays as it is, since it has its own entry; nothing stays nothing.
    """
    return Message(text) if text and type(text) is str else text


def muted(text: Inline) -> Inline:
    """Return text of less weight."""
    return styled(text, "muted")
