"""A document as LaTeX, and one table of it for a paper: tables in the style of booktabs. Figures are left out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from vtax.report import document as doc
from vtax.report.renderers.columns import aligned
from vtax.report.renderers.format import PARTS, Formatter
from vtax.report.renderers.language import ENGLISH, Language
from vtax.report.renderers.walk import TextPage, grid_of, one_line, titles_of, warning_lines

_HEAD = r"""\documentclass{article}
\usepackage[margin=18mm]{geometry}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{amssymb,array,booktabs,graphicx,longtable,textcomp}
\title{%s}
\date{}
\begin{document}
\maketitle
"""
_PACKAGES = r"% \usepackage{amssymb,array,booktabs,graphicx,textcomp}"
_CHARACTERS: Mapping[str, str] = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "[": "{[}", "*": "{*}",  # which would be an argument of the line's end before them, or its starred form
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "·": r"$\cdot$",
    "µ": r"\textmu{}", "∞": r"$\infty$", "–": r"\textendash{}", "…": r"\dots{}", "▼": r"$\blacktriangledown$",
    "π": r"$\pi$", "’": "'", "▽": r"$\triangledown$", "△": r"$\vartriangle$",
    "▲": r"$\blacktriangle$", "◆": r"$\blacklozenge$", "≤": r"$\leq$", "≥": r"$\geq$",
    "\N{NO-BREAK SPACE}": "~", "\N{NARROW NO-BREAK SPACE}": r"\,",
}  # fmt: skip
_LIGATURE = re.compile("-(?=-)")
_TABLE = str.maketrans(dict(_CHARACTERS))
_LONG, _LONG_END = (
    r"{\footnotesize\setlength{\tabcolsep}{3pt}\begin{longtable}[l]{%s}",
    r"\end{longtable}}",
)
_SHRUNK = (
    r"{\par\footnotesize\setlength{\tabcolsep}{3pt}"
    r"\noindent\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{\begin{tabular}{%s}"
)
_SHRUNK_END = r"\end{tabular}}\par}"
_ROOM, _ROOM_OF_OTHERS, _LEAST_ROOM = (
    0.92,
    0.12,
    0.3,
)  # of a line: for columns that wrap, less that of each other
_ROOM_OF_NAMES = 0.26  # of a line, in a table on one line's width
_MOST_ROWS = 14  # of such a table, so that it fits a page; more are several tables
_HEADINGS = ("section", "subsection", "subsubsection", "paragraph")


def latex(
    document: doc.Document, language: Language = ENGLISH, chapters: Sequence[doc.Document] = ()
) -> str:
    """Return a document as a LaTeX file that needs common packages alone. chapters: documents below it, a part
    each."""
    page = _Page(Formatter(language))
    parts = [
        block
        for chapter in chapters
        for block in (rf"\clearpage\part*{{{page.text(chapter.title)}}}", *page.blocks(chapter))
    ]
    return "\n".join(
        [_HEAD % page.text(document.title), *page.blocks(document), *parts, r"\end{document}", ""]
    )


def latex_table(document: doc.Document, table: doc.Table, language: Language = ENGLISH) -> str:
    """Return one table of a document for \\input, no wider than a line. Above it, as comments, stand the packages that
    it needs, the title of the document, and the paragraphs of the section that has the table."""
    page = _Page(Formatter(language))
    section = next(
        part for part in document.parts if isinstance(part, doc.Titled) and table in part.parts
    )
    texts = [document.title, *(p.text for p in section.parts if isinstance(p, doc.Paragraph))]
    comments = [f"% {one_line(page.formatter.text(text))}" for text in texts]
    return "\n".join([_PACKAGES, *comments, page.table(table), ""])


class _Page(TextPage):
    def heading(self, section: doc.Titled, level: int) -> Iterator[str]:
        yield rf"\{_HEADINGS[min(level, 3)]}*{{{self.text(section.title)}}}"
        if section.subtitle != "":
            yield rf"\emph{{{self.text(section.subtitle)}}}\par"

    def paragraph(self, text: doc.Inline) -> str:
        return self.text(text) + r"\par"

    def code(self, code: doc.Code) -> str:
        title = [self.text(code.title) + r"\par"] if code.title != "" else []
        lines = [
            rf"\texttt{{{escaped(line)}}}\\" for line in code.text.splitlines() if line.strip()
        ]
        return "\n".join([*title, r"\begin{flushleft}\small", *lines, r"\end{flushleft}"])

    def items(self, items: Iterable[str]) -> str:
        return "\n".join(
            [r"\begin{itemize}", *(rf"\item {{}}{item}" for item in items), r"\end{itemize}"]
        )

    def warning(self, warning: doc.Warning, shows_code: bool) -> str:
        sentence, places = warning_lines(warning, self.formatter)
        code = rf"\texttt{{{escaped(warning.code)}}}: " if shows_code else ""
        return f"{code}{escaped(sentence)}" + (f" ({escaped(places)})" if places else "")

    def text(self, inline: doc.Inline) -> str:
        return "".join(
            rf"\texttt{{{escaped(run.text)}}}" if run.role == "code" else escaped(run.text)
            for run in self.formatter.runs(inline)
        )

    def table(self, table: doc.Table) -> str:
        """Return a table over as many pages as it needs; one that repeats others on one line's width, however
        small."""
        table = aligned(table)
        grid = grid_of(table, self.formatter)
        width, wrapped = len(grid.titles), sum(grid.wraps)
        room = max(_ROOM - _ROOM_OF_OTHERS * (width - wrapped), _LEAST_ROOM) / max(wrapped, 1)
        if table.repeats:
            room = _ROOM_OF_NAMES
        kinds = []
        for is_number, is_wrapped in zip(grid.is_number, grid.wraps, strict=True):
            if is_wrapped:
                kinds.append(rf">{{\raggedright\arraybackslash}}p{{{room:.2f}\linewidth}}")
            else:
                kinds.append("r" if is_number else "l")
        head = [r"\toprule", _row(map(self._title, titles_of(table), grid.is_number)), r"\midrule"]
        if table.repeats:
            rows = [_row(map(self._stacked, row.cells)) for g in table.groups for row in g.rows]
            tables = []
            for part in _evenly(rows):
                body = "\n\\addlinespace\n".join(part)
                begin = _SHRUNK % " ".join(kinds)
                tables.append("\n".join([begin, *head, body, r"\bottomrule", _SHRUNK_END]))
            return "\n\n".join(tables)
        lines = []
        for title, cells in grid.lines:
            heading = rf"\multicolumn{{{width}}}{{l}}{{\emph{{{escaped(title)}}}}}"
            lines.append(_row([heading] if title else map(escaped, cells)))
        head.append(r"\endhead")
        return "\n".join([_LONG % " ".join(kinds), *head, *lines, r"\bottomrule", _LONG_END])

    def _stacked(self, cell: doc.Inline) -> str:
        """Return a figure that is judged, its interval and its word below each other."""
        if not isinstance(cell, doc.Relative) or cell.verdict is None:
            return self.text(cell)
        figure, interval = (replace(cell, verdict=None, shows=share) for share in PARTS)
        lines = [self.formatter.text(part) for part in (figure, interval)]
        told = self.formatter.text(replace(cell, shows="estimate"))  # the figure, then its word
        word = told.removeprefix(lines[0]).strip()
        return _stack([*map(escaped, lines), *([escaped(word)] if word else [])], "t", "r")

    def _title(self, title: doc.Inline, is_number: bool) -> str:
        """Return a heading of a column, on as many lines as it has."""
        lines = [escaped(line) for line in self.formatter.text(title).splitlines()]
        if isinstance(title, doc.PlatformCell):
            lines = [
                escaped(title.name),
                *(escaped(f"({mark})") for mark in self.formatter.marks(title)),
            ]
        return _stack(lines, "b", "r" if is_number else "l") if len(lines) > 1 else lines[0]


def _evenly(rows: Sequence[str]) -> list[Sequence[str]]:
    """Return rows in as few parts of about one size as fit a page each."""
    count = max(math.ceil(len(rows) / _MOST_ROWS), 1)
    size = max(math.ceil(len(rows) / count), 1)
    return [rows[start : start + size] for start in range(0, max(len(rows), 1), size)]


def _row(cells: Iterable[str]) -> str:
    """Return a row of a table."""
    return " & ".join(cells) + r" \\"


def _stack(lines: list[str], stands: str, side: str) -> str:
    """Return lines below each other in one cell. stands: b or t, on its last or first line. side: r or l, where they
    are flush."""
    rows = r" \\ ".join(lines)
    return rf"\begin{{tabular}}[{stands}]{{@{{}}{side}@{{}}}}{rows}\end{{tabular}}"


def escaped(text: str) -> str:
    """Return text that LaTeX sets as it is; what its usual fonts lack becomes a symbol, or a question mark."""
    text_escaped = _LIGATURE.sub("-{}", one_line(text).translate(_TABLE))
    return "".join(character if ord(character) < 0x250 else "?" for character in text_escaped)
