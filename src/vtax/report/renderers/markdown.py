"""A document as Markdown: headings, lists and pipe tables, as code hosts and wikis show them, without figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from vtax.report import document as doc
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.language import ENGLISH, Language
from vtax.report.renderers.walk import TextPage, grid_of, one_line, warning_lines

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
_LINE_START = re.compile(r"^([-+>]|\d+[.)])(?=\s)", re.MULTILINE)


def markdown(
    document: doc.Document, language: Language = ENGLISH, chapters: Sequence[doc.Document] = ()
) -> str:
    """Return a document as the text of a Markdown file. chapters: documents below it, each with a title of its
    own."""
    page = _MarkdownPage(Formatter(language))
    blocks = [
        block
        for part in (document, *chapters)
        for block in (f"# {page.text(part.title)}", *page.blocks(part))
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


class _MarkdownPage(TextPage):
    def heading(self, section: doc.Titled, level: int) -> Iterator[str]:
        yield f"{'#' * min(level + 2, 6)} {self.text(section.title)}"
        if section.subtitle != "":
            yield f"*{self.text(section.subtitle)}*"

    def paragraph(self, text: doc.Inline) -> str:
        return self.text(text)

    def items(self, items: Iterable[str]) -> str:
        return "\n".join(f"- {item}" for item in items)

    def text(self, inline: doc.Inline) -> str:
        line = "".join(
            f"`{run.text}`" if run.role == "code" else _escaped(run.text)
            for run in self.formatter.runs(inline)
        )
        return _LINE_START.sub(r"\\\1", one_line(line))

    def table(self, table: doc.Table) -> str:
        grid = grid_of(table, self.formatter)
        width = len(grid.titles)
        lines = [list(map(_escaped, grid.titles))]
        lines.append(["---:" if is_number else "---" for is_number in grid.is_number])
        for title, cells in grid.lines:
            if title:
                lines.append([f"**{_escaped(title)}**", *[""] * (width - 1)])
            else:
                lines.append(list(map(_escaped, cells)))
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def warning(self, warning: doc.Warning, shows_code: bool) -> str:
        sentence, places = warning_lines(warning, self.formatter)
        code = f"`{warning.code}`: " if shows_code else ""
        return f"{code}{_escaped(one_line(sentence))}" + (
            f" ({_escaped(places)})" if places else ""
        )

    def code(self, code: doc.Code) -> str:
        longest = max([2, *(len(backticks) for backticks in re.findall(r"`+", code.text))])
        fence = "`" * (longest + 1)
        title = f"{self.text(code.title)}\n\n" if code.title != "" else ""
        return f"{title}{fence}\n{code.text.rstrip()}\n{fence}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
