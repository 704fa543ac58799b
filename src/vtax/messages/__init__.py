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
        data = {name: _kept(value) for name, value in data.items()}
        one, many = forms_of(code)
        template = many if many and data.get("count") != 1 else one
        made = super().__new__(
            cls, template.format_map({name: _spelled(name, data[name]) for name in data})
        )
        made.code, made.data = code, data
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        """Make copies and pickles from code and data."""
        return (self.code,), dict(self.data)


def forms_of(code: str) -> tuple[str, str]:
    """(sentence, sentence for other counts than one; empty where there is one form). Raises KeyError."""
    found = SENTENCES[code]
    return (found, "") if isinstance(found, str) else found


def severity_of(code: str) -> Severity:
    """How severe a warning of a code is; one that is not known is a warning."""
    return "error" if code in _ERRORS else "note" if code in _NOTES else "warning"


def quoted(text: str) -> Note:
    """Return a note as it is; any other text as a note of QUOTED."""
    return text if isinstance(text, Note) else Note(QUOTED, text=clean(text))


def data_as_json(note: Note) -> dict[str, Any]:
    """Return the data of a note as JSON values, cleaned; a note in it is an object of code and data."""
    found: dict[str, Any] = cleaned({name: _plain(value) for name, value in note.data.items()})
    return found


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
    inner = (part_of(each, code) for each in text.data.values() if isinstance(each, Note))
    return next(filter(None, inner), None)


def together(texts: Sequence[str]) -> str:
    """Several texts as one; a single one as it is, nothing for none."""
    return Note("together", texts=tuple(texts)) if len(texts) > 1 else next(iter(texts), "")


def columns_of(note: Note) -> dict[str, Any]:
    """Return a note as two columns of a table: its code, and its data as a JSON object."""
    return {"code": note.code, "data": data_as_json(note)}


def note_in(code: str, data: Mapping[str, Any]) -> Note:
    """Return the note of two columns, cleaned; of what is none, its code as QUOTED."""
    try:
        return Note(code, **{name: _value(value) for name, value in cleaned(data).items()})
    except _NO_NOTE:
        return Note(QUOTED, text=clean(code))


def packed(text: str) -> str:
    """Return a text as it is kept: of a note its code and data, as JSON; any other cleaned, and never read as a
    note."""
    if isinstance(text, Note):
        kept = json.dumps({"code": text.code, "data": data_as_json(text)}, ensure_ascii=False)
        if len(kept) <= MAX_TEXT_CHARS:
            return kept
    return clean(f" {text}" if text.startswith(_PACKED) else text)


def restored(kept: str) -> str:
    """Return the inverse of `packed`, of whatever is kept."""
    if kept.startswith(_PACKED):
        try:
            found = parse_json(kept)
            return Note(
                found["code"],
                **{name: _value(value) for name, value in cleaned(found["data"]).items()},
            )
        except _NO_NOTE:
            pass
    return clean(kept)


def _kept(value: Any) -> Any:
    """Return a value as a note keeps it: what is no number, text or list of them becomes a text."""
    if isinstance(value, list | tuple):
        return tuple(_kept(each) for each in value)
    return value if isinstance(value, str | int | float) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Note):
        return {
            "code": value.code,
            "data": {name: _plain(each) for name, each in value.data.items()},
        }
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return Note(value["code"], **{name: _value(each) for name, each in value["data"].items()})
    if isinstance(value, list):
        return tuple(_value(each) for each in value)
    if not isinstance(value, str | int | float):
        raise TypeError("no value of a sentence")
    return value


def _spelled(name: str, value: Any) -> Any:
    """Return a value of data as English writes it."""
    if isinstance(value, list | tuple):
        return ("; " if name == "texts" else ", ").join(map(str, value))
    if not isinstance(value, int | float):
        return value
    if UNITS.get(name) == "fraction":
        return f"{value * 100:{'.0f' if name == 'share' else '+.0f'}} %"
    return f"{value:.4g}" if name in EXACT and isinstance(value, float) else value
