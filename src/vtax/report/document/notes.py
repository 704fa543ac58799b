"""Notes of the statistics as texts of a document: their numbers as counts, their words as words of the catalogue."""

from __future__ import annotations

from vtax.report.document.cells import Count, Number
from vtax.report.document.text import Inline, Message
from vtax.stats.notes import TERMS, Note


def data_of(note: Note) -> dict[str, Inline]:
    """What the template of a note holds."""
    found: dict[str, Inline] = {}
    for name, value in note.data.items():
        if isinstance(value, str):
            found[name] = Message(value) if value in TERMS else value
        else:
            found[name] = Number(value, 2) if isinstance(value, float) else Count(int(value))
    return found
