"""All that vtax says of a run, as code and data: one catalogue of sentences, from which every language is made.

A `Note` is its English sentence, so that it can be printed and compared like any text. Who shows it to people takes
its code and data instead, and makes the sentence of the reader's language. Who stores it keeps `packed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from vtax.foreign_data import parse_json
from vtax.foreign_text import MAX_TEXT_CHARS, clean, cleaned
from vtax.messages import doctor, hosts, platforms, runs, statistics, studies, tools

Severity = Literal["note", "warning", "error"]
SENTENCES: Mapping[str, str | tuple[str, str]] = {
    **statistics.SENTENCES,
    **runs.SENTENCES,
    **tools.SENTENCES,
    **platforms.SENTENCES,
    **hosts.SENTENCES,
    **doctor.SENTENCES,
    **studies.SENTENCES,
}
"""Code -> its sentence in English, or (sentence, sentence for other counts than one, which `count` decides)."""
TERMS = frozenset((*statistics.TERMS, *runs.TERMS, *tools.TERMS))
"""Words of the catalogue that data may be."""
QUOTED = "tool-said"
"""The code of words that are not vtax's own: of tools, guests, the kernel and plug-ins."""
UNITS: Mapping[str, str] = {
    "share": "fraction",
    "change": "fraction",
    "low": "fraction",
    "high": "fraction",
    "offset": "s",
    "p": "p-value",
}
"""Units of data that are not plain numbers or texts, by name."""
EXACT = ("requested", "found", "limit", "rate", "error", "margin", "inside", "outside")
"""Numbers that are shown with up to four digits, by name."""
_ERRORS = frozenset({"failed-trial", "failed-warmup", "failed-without-message", "lost-guest"})
_NOTES = frozenset(
    {
        "tuned",
        "warmup",
        "trials",
        "resumed",
        "resumed-parted",
        "boots",
        "throttled",
        "lock-needs-root",
    }
)
_PACKED = '{"code": '
_NO_NOTE = (KeyError, ValueError, TypeError, AttributeError, IndexError)


class Note(str):
    """A sentence of SENTENCES with the data it holds: numbers, texts, other notes, and lists of these."""

    __slots__ = ("code", "data")

    code: str
    data: Mapping[str, Any]

    def __new__(cls, code: str, /, **data: Any) -> Note:
        """Raise KeyError for a code without a sentence, and for data that it lacks."""
        data = {name: _storable(value) for name, value in data.items()}
        one, many = forms_of(code)
        template = many if many and data.get("count") != 1 else one
        words = {name: _in_english(name, value) for name, value in data.items()}
        note = super().__new__(cls, template.format_map(words))
        note.code, note.data = code, data
        return note

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        """Make copies and pickles from code and data."""
        return (self.code,), dict(self.data)


def forms_of(code: str) -> tuple[str, str]:
    """Return (sentence, sentence for other counts than one; empty where there is one form). Raises KeyError."""
    forms = SENTENCES[code]
    return (forms, "") if isinstance(forms, str) else forms


def severity_of(code: str) -> Severity:
    """Return how severe a warning of a code is; one that is not known is a warning."""
    if code in _ERRORS:
        return "error"
    return "note" if code in _NOTES else "warning"


def quoted(text: str) -> Note:
    """Return a note as it is; any other text as a note of QUOTED."""
    return text if isinstance(text, Note) else Note(QUOTED, text=clean(text))


def data_as_json(note: Note) -> dict[str, Any]:
    """Return the data of a note as JSON values, cleaned; a note in it is an object of code and data."""
    data: dict[str, Any] = cleaned(_as_json(note)["data"])
    return data


def at(what: str, where: str, hint: str = "") -> str:
    """Return what failed, where, and a hint, each of which may be a note; a text where none is."""
    if where:
        what = Note("at", what=what, where=where)
    return Note("with-hint", what=what, hint=hint) if hint else what


def part_of(text: str, code: str) -> Note | None:
    """Return the note of a code that a text is or holds, in whatever notes; None where there is none."""
    if not isinstance(text, Note):
        return None
    if text.code == code:
        return text
    for value in text.data.values():
        if isinstance(value, Note):
            part = part_of(value, code)
            if part:
                return part
    return None


def together(texts: Sequence[str]) -> str:
    """Return several texts as one; a single one as it is, nothing for none."""
    if len(texts) > 1:
        return Note("together", texts=tuple(texts))
    return texts[0] if texts else ""


def columns_of(note: Note) -> dict[str, Any]:
    """Return a note as two columns of a table: its code, and its data as a JSON object."""
    return {"code": note.code, "data": data_as_json(note)}


def note_in(code: str, data: Mapping[str, Any]) -> Note:
    """Return the note of two columns, cleaned; of what is none, its code as QUOTED."""
    try:
        return _note_of(code, cleaned(data))
    except _NO_NOTE:
        return Note(QUOTED, text=clean(code))


def packed(text: str) -> str:
    """Return a text as it is kept: of a note its code and data, as JSON.

    Any other is cleaned, and never read as a note.
    """
    if isinstance(text, Note):
        document = json.dumps(columns_of(text), ensure_ascii=False)
        if len(document) <= MAX_TEXT_CHARS:
            return document
    return clean(f" {text}" if text.startswith(_PACKED) else text)


def restored(stored: str) -> str:
    """Return the inverse of `packed`, of whatever is stored."""
    if stored.startswith(_PACKED):
        try:
            columns = parse_json(stored)
            return _note_of(columns["code"], cleaned(columns["data"]))
        except _NO_NOTE:
            pass
    return clean(stored)


def _storable(value: Any) -> Any:
    """Return a value as a note keeps it: what is no number, text or list of them becomes a text."""
    if isinstance(value, list | tuple):
        return tuple(map(_storable, value))
    return value if isinstance(value, str | int | float) else str(value)


def _as_json(value: Any) -> Any:
    if isinstance(value, Note):
        data = {name: _as_json(item) for name, item in value.data.items()}
        return {"code": value.code, "data": data}
    return list(map(_as_json, value)) if isinstance(value, list | tuple) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        return _note_of(value["code"], value["data"])
    if isinstance(value, list):
        return tuple(map(_from_json, value))
    if not isinstance(value, str | int | float):
        raise TypeError("no value of a sentence")
    return value


def _note_of(code: str, data: Mapping[str, Any]) -> Note:
    """Return the note of a code and of data as JSON values. Raises one of _NO_NOTE for what is none."""
    return Note(code, **{name: _from_json(value) for name, value in data.items()})


def _in_english(name: str, value: Any) -> Any:
    """Return a value of data as English writes it."""
    if isinstance(value, list | tuple):
        return ("; " if name == "texts" else ", ").join(map(str, value))
    if not isinstance(value, int | float):
        return value
    if UNITS.get(name) == "fraction":
        return f"{value * 100:.0f} %" if name == "share" else f"{value * 100:+.0f} %"
    return f"{value:.4g}" if name in EXACT and isinstance(value, float) else value
