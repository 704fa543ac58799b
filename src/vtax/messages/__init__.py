"""All that vtax says of a run, as code and data: one catalogue of sentences, from which every language is made.

A `Note` is its English sentence, so that it can be printed and compared like any text. Who shows it to people takes
its code and data instead, and makes the sentence of the reader's language.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from vtax.messages import runs, statistics

Severity = Literal["note", "warning", "error"]
SENTENCES: Mapping[str, str | tuple[str, str]] = {**statistics.SENTENCES, **runs.SENTENCES}
"""Code -> its sentence in English, or (sentence, sentence for other counts than one, which `count` decides)."""
UNITS: Mapping[str, str] = {
    "share": "fraction", "change": "fraction", "low": "fraction", "high": "fraction", "offset": "s", "p": "p-value",
}  # fmt: skip
"""Units of data that are not plain numbers or texts, by name."""
_ERRORS = frozenset({"failed-trial", "failed-warmup", "failed-without-message", "lost-guest"})
_NOTES = frozenset({"tuned", "warmup", "trials", "resumed", "boots"})


class Note(str):
    """A sentence of SENTENCES with the data it holds: numbers, and texts such as those of statistics.TERMS."""

    __slots__ = ("code", "data")

    code: str
    data: Mapping[str, Any]

    def __new__(cls, code: str, /, **data: Any) -> Note:
        """Raises KeyError for a code without a sentence."""
        one, many = forms_of(code)
        template = many if many and data.get("count") != 1 else one
        made = super().__new__(cls, template.format_map({name: _spelled(name, data[name]) for name in data}))
        made.code, made.data = code, data
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        """Copies and pickles are made from code and data."""
        return (self.code,), dict(self.data)


def forms_of(code: str) -> tuple[str, str]:
    """(sentence, sentence for other counts than one; empty where there is one form). Raises KeyError."""
    found = SENTENCES[code]
    return (found, "") if isinstance(found, str) else found


def severity_of(code: str) -> Severity:
    """How severe a warning of a code is; one that is not known is a warning."""
    return "error" if code in _ERRORS else "note" if code in _NOTES else "warning"


def _spelled(name: str, value: Any) -> Any:
    """A value of data as English writes it."""
    if UNITS.get(name) == "fraction":
        return f"{value * 100:{'.0f' if name == 'share' else '+.0f'}} %"
    return value
