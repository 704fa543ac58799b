"""A document in a terminal: tables that fit its width, verdicts as words in colour, the answer where the eye ends.

Nothing is left out but what needs a page: figures, and tables that repeat others in colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from vtax.messages import Severity
from vtax.report import document as doc
from vtax.report.document.text import Role
from vtax.report.renderers.columns import aligned
from vtax.report.renderers.format import Formatter, Run
from vtax.report.renderers.grid import TextGrid
from vtax.report.renderers.language import ENGLISH, Language
from vtax.report.renderers.unbroken import Unbroken, bind_spaces, prepared_text, release_spaces

STYLES: Mapping[str, str] = {
    "slower": "bold red",
    "faster": "bold green",
    "equivalent": "bold cyan",
    "at-most": "cyan",
    "undecided": "dim",
}
ROLES: Mapping[Role, str] = {
    "": "",
    "strong": "bold",
    "muted": "dim",
    "caution": "yellow",
    "error": "red",
    "code": "",
    "italic": "italic",
}
SEVERITIES: Mapping[Severity, str] = {"error": "red", "warning": "yellow", "note": "dim"}
_WIDE = 132


def render(document: doc.Document, console: Console, language: Language = ENGLISH) -> None:
    """Print a document. Its title is printed where it has lines below it, which say what it is about."""
    terminal = _Terminal(Formatter(language), console)
    parts = list(terminal.parts(_reading_order(document.parts), is_top=True))
    if document.lead:
        title = terminal.text(document.title)
        title.stylize("bold")
        parts = [title, *(terminal.text(line, "dim") for line in document.lead), Text(), *parts]
    put(parts, console)


def drawn(document: doc.Document, console: Console, language: Language = ENGLISH) -> RenderableType:
    """Return a document with its title as something that rich draws, and draws again."""
    terminal = _Terminal(Formatter(language), console)
    title = terminal.text(document.title)
    title.stylize("bold")
    return Unbroken([title, *terminal.parts(document.parts)])


def put(parts: Sequence[RenderableType], console: Console) -> None:
    """Print the parts; in what is no terminal, without the spaces that pad tables to their width."""
    if console.is_terminal:
        console.print(Unbroken(parts))
        return
    with console.capture() as captured:
        console.print(Unbroken(parts))
    console.out("\n".join(line.rstrip() for line in captured.get().splitlines()), highlight=False)


def is_wide(console: Console) -> bool:
    """Return whether tables have room for every column."""
    return console.width >= _WIDE


def _reading_order(parts: Sequence[doc.Part]) -> list[doc.Part]:
    """Return the answer last, where the eye is when all is printed."""
    return sorted(parts, key=lambda part: isinstance(part, doc.Titled) and part.role == "summary")


class _Terminal:
    def __init__(self, formatter: Formatter, console: Console) -> None:
        self.formatter = formatter
        self.width = console.width
        self.is_wide = is_wide(console)

    def parts(self, parts: Sequence[doc.Part], *, is_top: bool = False) -> Iterator[RenderableType]:
        """Drawn one below the other; sections end with an empty line, and tables stand apart."""
        for number, part in enumerate(parts):
            lines = list(self._part(part))
            if not lines:
                continue
            if number and isinstance(part, doc.Table):
                yield Text()
            yield from lines
            if is_top and not isinstance(part, doc.Titled):
                yield Text()

    def _part(self, part: doc.Part) -> Iterator[RenderableType]:
        if isinstance(part, doc.Titled):
            inner = list(self.parts(part.parts))
            if inner:
                title = self.text(part.title)
                title.stylize("bold")
                if part.subtitle != "":
                    title.append("  ").append_text(self.text(part.subtitle, "dim"))
                yield from (title, *inner, Text())
        elif isinstance(part, doc.Table):
            if not part.repeats:
                yield self._table(part)
        elif isinstance(part, doc.Paragraph):
            yield self.text(part.text, ROLES[part.role])
        elif isinstance(part, doc.Bullets):
            yield Bulleted([self.text(item) for item in part.items])
        elif isinstance(part, doc.Warnings):
            yield Bulleted([self._warning(warning, part.shows_code) for warning in part.warnings])
        elif isinstance(part, doc.Code):
            if part.title != "":
                yield self.text(part.title, "dim")
            yield Text(part.text)

    def text(self, inline: doc.Inline, style: str = "") -> Text:
        """Return a text with the styles of its roles; what must not break stays whole."""
        styled_text = Text(style=style)
        for run in self.formatter.runs(inline):
            for text, of_run in _styled(run, self.formatter):
                styled_text.append(text, of_run or None)
        return styled_text

    def _warning(self, warning: doc.Warning, shows_code: bool) -> Text:
        text = (
            Text(f"{warning.code}: ", style=SEVERITIES[warning.severity]) if shows_code else Text()
        )
        times = self.formatter.times(warning)
        text.append(
            self.formatter.sentence(warning) + times, style="default" if shows_code else None
        )
        places = self.formatter.where(warning)
        return text.append(f"  {places}", "dim") if places else text

    def _table(self, table: doc.Table) -> TextGrid:
        table = aligned(table)
        rooms = {"", "spare", "wide", "sketch"} if self.is_wide else {"", "spare"}
        numbers = _whole_columns(table, rooms)
        without = _whole_columns(table, rooms - {"spare"})
        grid = self._grid(table, numbers)
        if numbers == without or grid.natural_width <= self.width:
            return grid
        return self._grid(table, without)

    def _grid(self, table: doc.Table, numbers: Sequence[int]) -> TextGrid:
        joins = (
            {} if self.is_wide else {a: b for a, b in pairwise(numbers) if table.columns[b].joins}
        )
        numbers = [n for n in numbers if n not in joins.values()]
        grid = TextGrid()
        for n in numbers:
            title = self.text(table.columns[n].title).plain
            if n in joins:
                joined_title = self.text(table.columns[joins[n]].title).plain
                title = f"{_one_line(title)}\n[{_one_line(joined_title)}]"
            grid.add_column(title, right=table.columns[n].is_number and n not in joins)
        for group in table.groups:
            self._group(grid, group, numbers, joins, table.columns)
        return grid

    def _group(
        self,
        grid: TextGrid,
        group: doc.Group,
        numbers: Sequence[int],
        joins: Mapping[int, int],
        columns: Sequence[doc.Column],
    ) -> None:
        if group.title != "":
            grid.add_heading(self.text(group.title, "italic"))
        for row in group.rows:
            cells = [self._cell(row, n) for n in numbers]
            for place, n in enumerate(numbers):
                if n in joins and (joined_cell := self._cell(row, joins[n])):
                    cells[place] = cells[place].append(" ").append_text(joined_cell)
            grid.add_row(*cells, indent=group.title != "" and group.is_indented)

    def _cell(self, row: doc.TableRow, n: int) -> Text:
        return self.text(row.cells[n]) if n < len(row.cells) else Text()


def _whole_columns(table: doc.Table, rooms: Set[str]) -> list[int]:
    """Return the numbers of the columns of these rooms. One that is of another leaves with it, and so does one of
    that."""
    columns = [n for n, column in enumerate(table.columns) if column.room in rooms]
    while True:
        keys = {table.columns[n].key for n in columns} | {""}
        column_numbers = [n for n in columns if table.columns[n].of in keys]
        if column_numbers == columns:
            return columns
        columns = column_numbers


def _one_line(title: str) -> str:
    return title.replace("\n", " ")


def _styled(run: Run, formatter: Formatter) -> Iterator[tuple[str, str]]:
    """Yield the stretches of a run with their styles."""
    style, value = ROLES[run.role], run.value
    if isinstance(value, doc.VerdictCell):
        word, addition = formatter.verdict(value)
        yield ", ".join(filter(None, (bind_spaces(word), addition))), STYLES[value.look]
    elif isinstance(value, doc.PlatformCell) and value.marks:
        yield value.name, style
        yield run.text.removeprefix(value.name), "yellow"
    elif isinstance(value, doc.Bar):
        yield run.text, "blue"
    elif isinstance(value, doc.IntervalCell):
        yield bind_spaces(run.text), style
    elif isinstance(value, doc.Relative) and value.verdict is not None:
        yield run.text, STYLES[value.verdict.look]
    else:
        yield run.text, style


class Bulleted:
    """Texts as a list, each hanging beside its dot."""

    def __init__(self, items: Sequence[Text]) -> None:
        self.items = tuple(items)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for item in self.items:
            lines = prepared_text(item).wrap(
                console, max(options.max_width - 3, 1), overflow="fold"
            )
            for number, line in enumerate(lines):
                line.rstrip()
                line.plain = release_spaces(line.plain)
                yield Text("   " if number else " · ").append_text(line)
