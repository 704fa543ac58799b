"""The language of a reader: the catalogue of texts, and how numbers and dates are written.

English needs nothing but what is in the code. Any other language is one file, `languages/CODE.po`, as translators
know it; its decimal sign and its dates are those of the CLDR, by Babel.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path

from vtax.errors import BadInput

LANGUAGES = Path(__file__).parent.parent / "languages"


@dataclass(frozen=True)
class Language:
    """code: as in BCP 47. catalogue: English templates to those of the language. decimal: sign of fractions."""

    code: str = "en"
    catalogue: NullTranslations = NullTranslations()  # noqa: RUF009, it has no state
    decimal: str = "."

    def translated(self, template: str, many: str = "", count: int = 1) -> str:
        """The template in this language; English where the catalogue lacks it."""
        if many:
            return self.catalogue.ngettext(template, many, count)
        return self.catalogue.gettext(template) if template else ""

    def number(self, text: str) -> str:
        """A number as English writes it, with this language's decimal sign."""
        return text if self.decimal == "." else text.replace(".", self.decimal)

    def moment(self, seconds: float) -> str:
        """A Unix time as local date and time of day."""
        if self.code == "en":
            return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
        from datetime import datetime

        from babel.dates import format_datetime

        when = datetime.fromtimestamp(seconds).astimezone()
        return str(format_datetime(when, "short", locale=self.code.replace("-", "_")))


ENGLISH = Language()


@cache
def language(code: str) -> Language:
    """The language of a code such as `pt-BR`. Raises BadInput when there is no file for it."""
    if code == "en":
        return ENGLISH
    path = LANGUAGES / f"{code}.po"
    if not path.is_file():
        there = ", ".join(["en", *sorted(each.stem for each in LANGUAGES.glob("*.po"))])
        raise BadInput(f"there is no catalogue of the language {code!r}", cure=f"languages: {there}")
    return read(code, path)


def read(code: str, path: Path) -> Language:
    """The language that a catalogue file holds."""
    from babel import Locale
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    compiled = BytesIO()
    with path.open("rb") as file:
        write_mo(compiled, read_po(file))
    compiled.seek(0)
    symbols = Locale.parse(code, sep="-").number_symbols.get("latn", {})
    return Language(code, GNUTranslations(compiled), str(symbols.get("decimal", ".")))
