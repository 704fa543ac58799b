"""Notes as texts of a document: their numbers as typed values, their words as words of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vtax.messages import EXACT, SENTENCES, TERMS, Note, forms_of
from vtax.report.document.cells import Count, Number, Share
from vtax.report.document.text import Inline, Message, joined

TEXT = "text"
_TYPED: Mapping[str, Callable[[Any], Inline]] = {
    "share": lambda value: Share(value, "whole"),
    "change": lambda value: Share(value, "change"),
}


def data_of(note: Note) -> dict[str, Inline]:
    """Return the data of a note's template."""
    return {name: _typed(name, value) for name, value in note.data.items()}


def _typed(name: str, value: Any) -> Inline:
    if isinstance(value, list | tuple):
        return joined([_typed(name, item) for item in value], "; " if name == "texts" else ", ")
    if isinstance(value, str):
        return Message(value) if value in TERMS else value
    if typed := _TYPED.get(name):
        return typed(value)
    if isinstance(value, float):
        return Number(value, _digits(value) if name in EXACT else 2)
    return Count(int(value))


def _digits(value: float) -> int:
    """Digits of a number as people write it, at most four."""
    return len(f"{value:.4g}".partition("e")[0].replace(".", "").strip("-0")) or 1


def sentence_of(code: str, data: Mapping[str, Inline]) -> Message:
    """Return the sentence of a code with the data it holds; the text alone of a code without a sentence."""
    one, many = forms_of(code) if code in SENTENCES and TEXT not in data else ("{text}", "")
    count = data.get("count")
    is_one = isinstance(count, Count) and count.value == 1
    return Message(one, data, many, 1 if is_one or count is None else 2)
