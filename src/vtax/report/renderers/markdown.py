"""A document as Markdown: headings, lists and pipe tables, as code hosts and wikis show them, without figures."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vtax.report.document import Bullets, Code, Document, Figure, Inline, Paragraph, Part, Section, Table, Warnings
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.language import ENGLISH, Language
from vtax.report.renderers.pages import grid_of, one_line, warning_lines

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
_LINE_START = re.compile(r"^([-+>]|\d+[.)])(?=\s)", re.MULTILINE)


def markdown(document: Document, language: Language = ENGLISH) -> str:
    """A document as the text of a Markdown file."""
    page = _Page(Formatter(language))
    blocks = [f"# {page.text(document.title)}", *(page.text(line) for line in document.lead)]
    blocks += [block for part in document.parts for block in page.part(part, 2)]
    return "\n\n".join(filter(None, blocks)) + "\n"


class _Page:
    def __init__(self, formatter: Formatter) -> None:
        self.formatter = formatter

    def part(self, part: Part, level: int) -> Iterator[str]:
        """The blocks of a part, which empty lines set apart."""
        if isinstance(part, Section):
            yield f"{'#' * min(level, 6)} {self.text(part.title)}"
            if part.subtitle != "":
                yield f"*{self.text(part.subtitle)}*"
            for each in part.parts:
                yield from self.part(each, level + 1)
        elif isinstance(part, Table):
            yield self.table(part)
        elif isinstance(part, Bullets):
            yield "\n".join(f"- {self.text(item)}" for item in part.items)
        elif isinstance(part, Warnings):
            yield "\n".join(self._warning(part))
        elif isinstance(part, Code):
            yield self._code(part)
        elif isinstance(part, Paragraph):
            yield self.text(part.text)
        elif not isinstance(part, Figure):
            raise TypeError(f"{type(part).__name__} is no part of a document")

    def text(self, inline: Inline) -> str:
        """A text on one line, whose characters mean nothing to Markdown."""
        made = "".join(
            f"`{run.text}`" if run.role == "code" else _escaped(run.text) for run in self.formatter.runs(inline)
        )
        return _LINE_START.sub(r"\\\1", one_line(made))

    def table(self, table: Table) -> str:
        """A pipe table; the title of a group stands in a line of its own."""
        grid = grid_of(table, self.formatter)
        width = len(grid.titles)
        rows = [
            [f"**{_escaped(title)}**", *[""] * (width - 1)] if title else [_escaped(cell) for cell in cells]
            for title, cells in grid.lines
        ]
        rule = ["---:" if is_number else "---" for is_number in grid.is_number]
        return "\n".join(f"| {' | '.join(row)} |" for row in [list(map(_escaped, grid.titles)), rule, *rows])

    def _warning(self, part: Warnings) -> Iterator[str]:
        for warning in part.warnings:
            sentence, places = warning_lines(warning, self.formatter)
            code = f"`{warning.code}`: " if part.shows_code else ""
            yield f"- {code}{_escaped(one_line(sentence))}" + (f" ({_escaped(places)})" if places else "")

    def _code(self, code: Code) -> str:
        longest = max([2, *(len(found) for found in re.findall(r"`+", code.text))])
        fence = "`" * (longest + 1)
        title = f"{self.text(code.title)}\n\n" if code.title != "" else ""
        return f"{title}{fence}\n{code.text.rstrip()}\n{fence}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
