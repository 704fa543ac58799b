"""One HTML file that holds everything of a document and needs nothing else to be read, ten years from now too.

Figures are drawn twice from one specification: as SVG, which prints and needs no JavaScript, and interactively by
Vega, whose code is inside the file. Several documents share one file, its styles and its scripts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from vtax import __version__
from vtax.report import document as doc
from vtax.report.document import msg
from vtax.report.renderers import vega
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.html_parts import COLOUR, HtmlParts, element, joined
from vtax.report.renderers.language import ENGLISH, Language
from vtax.report.renderers.marks import OKABE_ITO, colour_of


def html(
    document: doc.Document, language: Language = ENGLISH, chapters: Sequence[doc.Document] = ()
) -> str:
    """Return a document as one self-contained HTML page. chapters: documents below it, which it links as `run-1`,
    ..."""
    environment = Environment(
        loader=PackageLoader("vtax.report.renderers"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    formatter = Formatter(language)
    bodies = [_drawn("", document, formatter)]
    bodies += [
        _drawn(chapter_key(number), chapter, formatter) for number, chapter in enumerate(chapters)
    ]
    specs = [spec for chapter in bodies for spec in chapter["specs"]]
    return environment.get_template("report.html.j2").render(
        language=language.code,
        version=__version__,
        first=bodies[0],
        chapters=bodies[1:],
        contents=formatter.text(msg("Contents")),
        running=Markup(_css_text(bodies[0]["title"])),
        footer=formatter.text(
            msg(
                "Made by vtax {version} on {moment}. This file is complete: it loads nothing from anywhere.",
                version=__version__,
                moment=doc.Moment(time.time()),
            )
        ),
        specs=specs,
        placeholders=joined((name[1:] for name in vega.PLACEHOLDERS), "|"),
        javascript=Markup(vega.javascript()) if specs else "",
    )


def chapter_key(number: int) -> str:
    """Return what a document above others links one of these by. number: from 0."""
    return f"run-{number + 1}"


def _drawn(key: str, document: doc.Document, formatter: Formatter) -> dict[str, Any]:
    """Return a document as the template shows it. key: of a chapter, the beginning of all its ids."""
    page = HtmlParts(formatter, document, f"{key}-" if key else "")
    return {
        "key": key,
        "title": formatter.text(document.title),
        "lead": [page.inline(line) for line in document.lead],
        "contents": page.contents(),
        "body": joined(map(page.top, document.parts), "\n"),
        "specs": page.specs,
    }


def _css_text(text: str) -> str:
    """Return a text as a string of a style sheet inside HTML: every character that means something there escaped."""
    return '"' + re.sub(r"[^\w .,:;()-]", lambda match: f"\\{ord(match[0]):x} ", text) + '"'


def colour_styles() -> list[str]:
    """Return every text of an attribute `style` that parts can have: the colours of platforms."""
    return sorted({COLOUR.format(colour_of(number)) for number in range(len(OKABE_ITO) + 1)})


class Fragments:
    """Documents and texts as pieces of a page that has a head of its own. Figures are pictures, without scripts."""

    def __init__(
        self, language: Language = ENGLISH, colours: Mapping[str, int] | None = None
    ) -> None:
        """colours: of the document; see there."""
        self._page = HtmlParts(Formatter(language), doc.Document("", (), colours=colours or {}))

    def inline(self, text: doc.Inline) -> Markup:
        """Return a text with its roles and values as elements."""
        return self._page.inline(text)

    def lead(self, document: doc.Document) -> Markup:
        """Return the lines under the title of a document."""
        lines = (element('<p class="meta">{}</p>', self.inline(line)) for line in document.lead)
        return joined(lines, "\n")

    def body(self, document: doc.Document) -> Markup:
        """Return the parts of a document."""
        return joined(map(self._page.top, document.parts), "\n")
