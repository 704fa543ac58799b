"""The way through a document of renderers that write text: the blocks of every part, in order, without figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from vtax.report.document import Bullets, Chart, Code, Document, Figure, Inline, Part, Section, Table, Warnings
from vtax.report.document.warnings import Warning
from vtax.report.renderers.format import Formatter


class TextPage(ABC):
    """What a renderer makes of each kind of part. level: of a heading, from 0."""

    def __init__(self, formatter: Formatter) -> None:
        self.formatter = formatter

    def blocks(self, document: Document) -> Iterator[str]:
        """Yield all blocks of a document below its title."""
        yield from map(self.paragraph, document.lead)
        for part in document.parts:
            yield from self._part(part, 0)

    def _part(self, part: Part, level: int) -> Iterator[str]:
        if isinstance(part, Section):
            yield from self.heading(part, level)
            for each in part.parts:
                yield from self._part(each, level + 1)
        elif isinstance(part, Table):
            yield self.table(part)
        elif isinstance(part, Bullets):
            yield self.items(map(self.text, part.items))
        elif isinstance(part, Warnings):
            yield self.items(self.warning(each, part.shows_code) for each in part.warnings)
        elif isinstance(part, Code):
            yield self.code(part)
        elif not isinstance(part, Figure | Chart):
            yield self.paragraph(part.text)

    @abstractmethod
    def heading(self, section: Section, level: int) -> Iterator[str]:
        """Return the title of a section, and the line below it."""

    @abstractmethod
    def paragraph(self, text: Inline) -> str:
        """Take running text."""

    @abstractmethod
    def text(self, inline: Inline) -> str:
        """Return a text on one line, whose characters mean nothing to the format."""

    @abstractmethod
    def items(self, items: Iterable[str]) -> str:
        """Return a list of texts."""

    @abstractmethod
    def table(self, table: Table) -> str:
        """Return a table; the title of a group stands in a line of its own."""

    @abstractmethod
    def warning(self, warning: Warning, shows_code: bool) -> str:
        """Return a warning on one line."""

    @abstractmethod
    def code(self, code: Code) -> str:
        """Return lines that are typed."""
