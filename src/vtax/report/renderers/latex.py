"""A document as LaTeX: tables in the style of booktabs, ready for a paper. Figures are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vtax.report.document import Bullets, Code, Document, Figure, Inline, Paragraph, Part, Section, Table, Warnings
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.language import ENGLISH, Language
from vtax.report.renderers.pages import grid_of, one_line, warning_lines

_HEAD = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{amssymb,booktabs,longtable,textcomp}
\title{%s}
\date{}
\begin{document}
\maketitle
"""
_CHARACTERS: Mapping[str, str] = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "·": r"$\cdot$",
    "µ": r"\textmu{}", "∞": r"$\infty$", "–": "--", "…": r"\dots{}", "▼": r"$\blacktriangledown$",
    "▲": r"$\blacktriangle$", "◆": r"$\blacklozenge$", "≤": r"$\leq$", "≥": r"$\geq$",
    "\N{NO-BREAK SPACE}": "~", "\N{NARROW NO-BREAK SPACE}": r"\,",
}  # fmt: skip
_TABLE = str.maketrans(dict(_CHARACTERS))
_HEADINGS = ("section", "subsection", "subsubsection", "paragraph")


def latex(document: Document, language: Language = ENGLISH) -> str:
    """A document as a LaTeX file that needs nothing but common packages."""
    page = _Page(Formatter(language))
    lead = [page.text(line) + r"\par" for line in document.lead]
    blocks = [block for part in document.parts for block in page.part(part, 0)]
    return "\n".join([_HEAD % page.text(document.title), *lead, *blocks, r"\end{document}", ""])


class _Page:
    def __init__(self, formatter: Formatter) -> None:
        self.formatter = formatter

    def part(self, part: Part, level: int) -> Iterator[str]:
        """The blocks of a part."""
        if isinstance(part, Section):
            yield rf"\{_HEADINGS[min(level, 3)]}*{{{self.text(part.title)}}}"
            if part.subtitle != "":
                yield rf"\emph{{{self.text(part.subtitle)}}}\par"
            for each in part.parts:
                yield from self.part(each, level + 1)
        elif isinstance(part, Table):
            yield self.table(part)
        elif isinstance(part, Bullets):
            yield self._items([self.text(item) for item in part.items])
        elif isinstance(part, Warnings):
            yield self._items(list(self._warnings(part)))
        elif isinstance(part, Code):
            title = [self.text(part.title) + r"\par"] if part.title != "" else []
            lines = [rf"\texttt{{{escaped(line)}}}\\" for line in part.text.splitlines() if line.strip()]
            yield "\n".join([*title, r"\begin{flushleft}\small", *lines, r"\end{flushleft}"])
        elif isinstance(part, Paragraph):
            yield self.text(part.text) + r"\par"
        elif not isinstance(part, Figure):
            raise TypeError(f"{type(part).__name__} is no part of a document")

    def text(self, inline: Inline) -> str:
        """A text on one line, whose characters mean nothing to LaTeX."""
        return "".join(
            rf"\texttt{{{escaped(run.text)}}}" if run.role == "code" else escaped(run.text)
            for run in self.formatter.runs(inline)
        )

    def table(self, table: Table) -> str:
        """A table that may run over pages; the title of a group stands in a line of its own."""
        grid = grid_of(table, self.formatter)
        width = len(grid.titles)
        lines = [
            rf"\multicolumn{{{width}}}{{l}}{{\emph{{{escaped(title)}}}}} \\"
            if title
            else " & ".join(map(escaped, cells)) + r" \\"
            for title, cells in grid.lines
        ]
        return "\n".join([
            r"\begin{longtable}{" + "".join("r" if is_number else "l" for is_number in grid.is_number) + "}",
            r"\toprule", " & ".join(map(escaped, grid.titles)) + r" \\", r"\midrule", r"\endhead", *lines,
            r"\bottomrule", r"\end{longtable}",
        ])  # fmt: skip

    def _items(self, items: list[str]) -> str:
        return "\n".join([r"\begin{itemize}", *(rf"\item {{}}{item}" for item in items), r"\end{itemize}"])

    def _warnings(self, part: Warnings) -> Iterator[str]:
        for warning in part.warnings:
            sentence, places = warning_lines(warning, self.formatter)
            code = rf"\texttt{{{escaped(warning.code)}}}: " if part.shows_code else ""
            yield f"{code}{escaped(sentence)}" + (f" ({escaped(places)})" if places else "")


def escaped(text: str) -> str:
    """Text that LaTeX sets as it is; what its usual fonts lack becomes a symbol, or a question mark."""
    known = one_line(text).translate(_TABLE)
    return "".join(character if ord(character) < 0x250 else "?" for character in known)
