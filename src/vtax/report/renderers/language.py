"""The language of a reader: the catalogue of texts, and how numbers and dates are written.

English needs nothing but what is in the code. Any other language is one file, `languages/CODE.po`, as translators
know it; its decimal sign and its dates are those of the CLDR, by Babel.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path

from vtax.errors import BadInput
from vtax.extras import is_installed

LANGUAGES = Path(__file__).parent.parent / "languages"
_OF_MESSAGES = ("LC_ALL", "LC_MESSAGES", "LANG")


@dataclass(frozen=True)
class Language:
    """A language and how it writes.

    code: as in BCP 47. catalogue: English templates to those of the language. decimal: sign of fractions.
    """

    code: str = "en"
    catalogue: NullTranslations = NullTranslations()  # noqa: RUF009, it has no state
    decimal: str = "."

    def translated(self, template: str, many: str = "", count: int = 1) -> str:
        """Return the template in this language; English where the catalogue lacks it."""
        if many:
            return self.catalogue.ngettext(template, many, count)
        return self.catalogue.gettext(template) if template else ""

    @property
    def separator(self) -> str:
        """The text between two numbers: a semicolon where a comma is the decimal sign."""
        return ", " if self.decimal == "." else "; "

    def number(self, text: str) -> str:
        """Return a number or an interval as English writes it, with this language's decimal sign: `[0,98; 1,02]`."""
        return (
            text
            if self.decimal == "."
            else text.replace(", ", self.separator).replace(".", self.decimal)
        )

    def date(self, seconds: float) -> str:
        """Return a Unix time as local date."""
        return self.moment(seconds).partition(" ")[0].rstrip(",")

    def moment(self, seconds: float) -> str:
        """Return a Unix time as local date and time of day."""
        if self.code == "en":
            return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
        from datetime import datetime

        from babel.dates import format_datetime

        local_time = datetime.fromtimestamp(seconds).astimezone()
        return str(format_datetime(local_time, "short", locale=self.code.replace("-", "_")))


ENGLISH = Language()


def codes() -> list[str]:
    """Return the languages there are, English first; the others need babel."""
    return [
        "en",
        *(sorted(path.stem for path in LANGUAGES.glob("*.po")) if is_installed("babel") else ()),
    ]


def of_locale(environment: Mapping[str, str]) -> str:
    """Return the code of the language that a locale asks for messages in: `pt-BR` of `pt_BR.UTF-8`.

    English for the locale C, for none, and for a language without a catalogue. The first of LC_ALL, LC_MESSAGES and
    LANG that is not empty counts (POSIX.1-2024, Base Definitions, 8.2).
    """
    locale = next((value for name in _OF_MESSAGES if (value := environment.get(name, ""))), "")
    code = re.split(r"[.@]", locale)[0].replace("_", "-").casefold()
    return next((candidate for candidate in codes() if candidate.casefold() == code), "en")


def of_reader() -> Language:
    """Return the language of whoever runs this process: that of the locale."""
    return language(of_locale(os.environ))


@cache
def language(code: str) -> Language:
    """Return the language of a code such as `pt-BR`. Raises BadInput when there is no file for it."""
    if code == "en":
        return ENGLISH
    if code not in (languages := codes()):
        raise BadInput(f"there is no language {code!r}", hint=f"known: {', '.join(languages)}")
    return read(code, LANGUAGES / f"{code}.po")


def read(code: str, path: Path) -> Language:
    """Return the language that a catalogue file holds."""
    from babel import Locale
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    compiled = BytesIO()
    with path.open("rb") as file:
        write_mo(compiled, read_po(file))
    compiled.seek(0)
    symbols = Locale.parse(code, sep="-").number_symbols.get("latn", {})
    return Language(code, GNUTranslations(compiled), str(symbols.get("decimal", ".")))
