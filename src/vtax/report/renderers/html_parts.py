"""The parts of a document as elements of a page: sections, tables, figures, texts. It decides nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from markupsafe import Markup, escape

from vtax.grouping import by_key
from vtax.report import document as doc
from vtax.report.document import msg, plural
from vtax.report.document.text import Role
from vtax.report.renderers import vega
from vtax.report.renderers.columns import aligned
from vtax.report.renderers.figures import caption_of, spec_of
from vtax.report.renderers.format import PARTS, SIGNS, WORDS, Formatter, Run
from vtax.report.renderers.marks import colour_of
from vtax.stats.terms import WORDS_OF_COST

COLOUR = "--colour:{}"
_LONG = 160  # characters of a cell beyond which it is folded
_PLACES_AT_ONCE = 2  # of a warning; more of them on demand
_SHOWN = 120  # of a folded one
_SIZE = re.compile(r'viewBox="0 0 [\d.]+ ([\d.]+)"')
_PAGE = 1400  # height of a figure that is not readable on one printed page
_ELEMENTS = (doc.PlatformCell, doc.VerdictCell, doc.IntervalCell)
_CLASSES = {"muted": "muted", "caution": "flag", "error": "flag", "strong": "strong"}


@dataclass(frozen=True)
class _Column:
    """A column that is drawn. number: its place in rows. kind, label: attributes of its cells."""

    number: int
    column: doc.Column
    kind: Markup
    label: Markup


class HtmlParts:
    """Draws parts. specs: (name, specification) of every figure drawn so far."""

    def __init__(self, formatter: Formatter, document: doc.Document, prefix: str = "") -> None:
        """prefix: of every id, where a page has several documents."""
        self.formatter = formatter
        self._document = document
        self.prefix = prefix
        self.specs: list[tuple[str, Markup]] = []
        self._ids: set[str] = set()
        self._charts = 0

    def top(self, part: doc.Part) -> Markup:
        """Return a part of the page itself: sections become its chapters."""
        if not isinstance(part, doc.Titled):
            return self.part(part)
        key = self._id(part.key)
        inner = joined((self.part(inner_part) for inner_part in part.parts), "\n")
        kind = Markup(' class="summary"') if part.role == "summary" else ""
        return element(
            "<section{}{}>\n<h2>{}</h2>\n{}\n</section>", key, kind, self.inline(part.title), inner
        )

    def contents(self) -> list[tuple[str, str, list[tuple[str, str]]]]:
        """Return (id, title, (id, title) of the results in it) of every chapter that can be linked."""
        titled = [
            (part, self._named(part))
            for part in self._document.parts
            if isinstance(part, doc.Titled)
        ]
        return [
            (*heading, self._results(part) if part.key == "results" else [])
            for part, heading in titled
            if heading
        ]

    def _results(self, chapter: doc.Titled) -> list[tuple[str, str]]:
        inner = (
            self._named(part)
            for part in chapter.parts
            if isinstance(part, doc.Titled) and part.subtitle != ""
        )
        return [heading for heading in inner if heading]

    def _named(self, section: doc.Titled) -> tuple[str, str] | None:
        return (
            (self._name(section.key), self.formatter.text(section.title))
            if self._name(section.key)
            else None
        )

    def part(self, part: doc.Part) -> Markup:
        """Return a part within a chapter."""
        if isinstance(part, doc.Titled):
            return self._section(part)
        if isinstance(part, doc.Table):
            return self._table(part)
        if isinstance(part, doc.RowFigure):
            return self._figure(part)
        if isinstance(part, doc.Chart):
            return self._chart(part)
        if isinstance(part, doc.Bullets):
            return self._bullets(part)
        if isinstance(part, doc.Warnings):
            return element('<ul class="warnings">{}</ul>', self._warnings(part.warnings))
        if isinstance(part, doc.Code):
            return self._code(part)
        return self._paragraph(part)

    def inline(self, text: doc.Inline, *, breaks: bool = True) -> Markup:
        """Return a text with its roles and values as elements. breaks: a line may end in it, but in no interval."""
        runs = list(self.formatter.runs(text))
        if len(runs) == 1:  # most cells
            return self._run(runs[0], breaks=breaks)
        return joined(self._run(group, breaks=breaks) for group in _together(runs))

    def _run(self, run: Run, *, breaks: bool = True) -> Markup:
        if isinstance(run.value, doc.PlatformCell):
            return self._in_role(self._platform(run.value), run.role)
        if isinstance(run.value, doc.VerdictCell):
            word, addition = self.formatter.verdict(run.value)
            suffix = element(' <span class="muted">{}</span>', addition) if addition else ""
            return element('<span class="key {}">{}</span>{}', run.value.look, word, suffix)
        text = escape(run.text)
        if run.link:
            text = element('<a href="#{}">{}</a>', self._name(run.link), text)
        if breaks and isinstance(run.value, doc.IntervalCell):
            text = element('<span class="whole">{}</span>', text)
        if run.role == "code":
            return element("<code>{}</code>", text)
        return self._in_role(text, run.role)

    def _in_role(self, text: Markup, role: Role) -> Markup:
        if role in _CLASSES:
            return element('<span class="{}">{}</span>', _CLASSES[role], text)
        return text

    def _platform(self, platform: doc.PlatformCell) -> Markup:
        marks = joined(
            element(' <span class="mark">{}</span>', mark)
            for mark in self.formatter.marks(platform)
        )
        number = platform.colour
        style = COLOUR.format(colour_of(number))
        swatch = element('<span class="swatch" style="{}"></span>', style)
        return element("{}{}{}", swatch if number >= 0 else "", platform.name, marks)

    def _judged(self, value: doc.Relative, verdict: doc.VerdictCell) -> Markup:
        figure, interval = (
            self.formatter.text(replace(value, verdict=None, shows=share)) for share in PARTS
        )
        word = self.formatter.word(verdict)
        word_part = element('<span class="hidden">, {}</span>', word)
        if verdict.bound != "" or verdict.leaning:
            word_part = element(' <span class="bound">{}</span>', word)
        return element(
            '<span class="sign" aria-hidden="true">{}</span>\N{NO-BREAK SPACE}{} <span class="interval">{}</span>{}',
            SIGNS[verdict.sign],
            figure,
            interval or self.formatter.text(msg("no interval")),
            word_part,
        )

    def _id(self, key: str) -> Markup:
        """Return the attribute `id` for a key, once on the page."""
        name = self._name(key)
        if not name or name in self._ids:
            return Markup("")
        self._ids.add(name)
        return element(' id="{}"', name)

    def _name(self, key: str) -> str:
        """Return a key as it can stand in an address."""
        name = re.sub(r"[^A-Za-z0-9]+", "-", key).strip("-")
        return self.prefix + name if name else ""

    def _section(self, section: doc.Titled) -> Markup:
        figures = [part for part in section.parts if _is_figure(part)]
        parts = [self.part(part) for part in section.parts if not _is_figure(part)]
        if figures:
            drawings = joined(map(self.part, figures), "\n")
            parts.append(element('<div class="figures">{}</div>', drawings))
        inner, title = joined(parts, "\n"), self.inline(section.title)
        if section.is_folded:
            return element(
                '<details class="more"><summary>{}</summary>\n{}\n</details>', title, inner
            )
        narrow_body = (
            element(" <small>{}</small>", self.inline(section.subtitle))
            if section.subtitle != ""
            else ""
        )
        return element(
            "<article{}>\n<h3>{}{}</h3>\n{}\n</article>",
            self._id(section.key),
            title,
            narrow_body,
            inner,
        )

    def _paragraph(self, paragraph: doc.Paragraph) -> Markup:
        kind = (
            element(' class="{}"', _CLASSES[paragraph.role]) if paragraph.role in _CLASSES else ""
        )
        return element("<p{}>{}</p>", kind, self.inline(paragraph.text))

    def _bullets(self, bullets: doc.Bullets) -> Markup:
        items = joined(element("<li>{}</li>", self.inline(item)) for item in bullets.items)
        return element('<ul class="{}">{}</ul>', bullets.key or "plain", items)

    def _code(self, code: doc.Code) -> Markup:
        text = element('<pre tabindex="0">{}</pre>', code.text)
        if code.title == "":
            return text
        return element(
            "<details open><summary>{}</summary>{}</details>", self.inline(code.title), text
        )

    def _warnings(self, warnings: Iterable[doc.Warning]) -> Markup:
        """Return a line for every code, with what it says of other metrics on demand."""
        by_code = by_key((warning.code, warning) for warning in warnings)
        return joined(self._warning(*group) for group in by_code.values())

    def _warning(self, first: doc.Warning, *further: doc.Warning) -> Markup:
        code = element('<code class="{}">{}</code> ', first.severity, first.code)
        times, places = self.formatter.times(first), self._places(first)
        if further:
            count = sum(warning.times for warning in (first, *further))
            times = self.formatter.text(plural(" ({count} times)", " ({count} times)", count))
            items = joined(self._case(warning, first) for warning in (first, *further))
            texts = plural("{count} text", "{count} texts", 1 + len(further))
            summary_text = self.formatter.where(first) or self.formatter.text(texts)
            summary = element('<summary class="muted">{}</summary>', summary_text)
            places = element(' <details>{}<ul tabindex="0">{}</ul></details>', summary, items)
        text = element(
            "{}{}",
            self.formatter.sentence(first),
            element('<span class="muted">{}</span>', times) if times else "",
        )
        return element("<li>{}{}{}</li>", code, text, places)

    def _case(self, warning: doc.Warning, first: doc.Warning) -> Markup:
        """Return one of several warnings of a code, with its places. first: whose sentence stands above."""
        places = "; ".join(self.formatter.text(place.inline) for place in warning.places)
        sentence, times = self.formatter.sentence(warning), self.formatter.times(warning)
        if _wording(sentence) == _wording(self.formatter.sentence(first)):
            sentence = ""
        text = (sentence + times).strip()
        return element('<li>{} <span class="muted">{}</span></li>', text, places)

    def _places(self, warning: doc.Warning) -> Markup:
        """Return where a warning holds; its places on demand where there are several, and its texts where they differ
        in more than numbers, whose range it says."""
        cases = self.formatter.cases(warning)
        texts = cases if len({_wording(text) for text in cases}) > 1 else []
        places = [self.formatter.text(place.inline) for place in warning.places]
        if len(places) <= 1 and not texts:
            return element(' <span class="muted">{}</span>', places[0]) if places else Markup("")
        if not texts and len(places) <= _PLACES_AT_ONCE:
            return element(' <span class="muted">{}</span>', "; ".join(places))
        count = plural("{count} text", "{count} texts", len(texts))
        summary = self.formatter.where(warning) if places else self.formatter.text(count)
        items = joined(element("<li>{}</li>", text) for text in texts)
        place_list = element('<ul tabindex="0">{}</ul>', items) if texts else ""
        places_part: Markup | str = ""
        if len(places) > 1:
            places_part = element('<p class="muted" tabindex="0">{}</p>', "; ".join(places))
        summary = element('<summary class="muted">{}</summary>', summary)
        return element(" <details>{}{}{}</details>", summary, place_list, places_part)

    def _table(self, table: doc.Table) -> Markup:
        table = aligned(table)
        columns = [
            _Column(number, column, _class(column), label)
            for number, (column, label) in enumerate(
                zip(table.columns, self._labels(table), strict=True)
            )
            if column.room != "sketch"
        ]
        head = joined(
            element('<th scope="col"{}>{}</th>', column.kind, self.inline(column.column.title))
            for column in columns
        )
        body = joined((self._body(group, columns) for group in table.groups), "\n")
        label = escape(self.formatter.text(table.label))
        kind = element(' class="{}"', table.style) if table.style else ""
        legend = self._legend(table) if table.style == "overview" else ""
        return element(
            '<div class="scroll" role="group" aria-label="{}" tabindex="0">\n<table{}>\n<thead><tr>{}</tr></thead>\n'
            "{}\n</table>\n</div>{}",
            label,
            kind,
            head,
            body,
            legend,
        )

    def _labels(self, table: doc.Table) -> list[Markup]:
        """Label the cells of each column, for windows so narrow that the headings have no room above them: without
        what stands in brackets, as the cells have it in brackets too."""
        if table.style not in ("result", "overview", "list"):
            return [Markup("")] * len(table.columns)
        texts = (self.formatter.text(column.title) for column in table.columns)
        titles = [" ".join(text.partition("\n[")[0].split()) for text in texts]
        return [
            element(' data-label="{}"', title)
            if column.is_number or table.style == "list"
            else Markup("")
            for title, column in zip(titles, table.columns, strict=True)
        ]

    def _legend(self, table: doc.Table) -> Markup:
        """Return the signs with the verdicts that they stand for: on speeds, and on the costs that the table has."""
        verdicts = [
            cell.verdict
            for group in table.groups
            for row in group.rows
            for cell in row.cells
            if isinstance(cell, doc.Relative) and cell.verdict is not None
        ]
        of_table = {verdict.kind for verdict in verdicts}
        words: dict[str, dict[str, str]] = {}
        for kind in SIGNS:
            if kind in WORDS:
                words[kind] = {kind: self.formatter.text(WORDS[kind])}
            if WORDS_OF_COST.get(kind) in of_table:
                cost = WORDS_OF_COST[kind]
                words[kind][cost] = self.formatter.text(WORDS[cost])
        for verdict in verdicts:
            if verdict.leaning:
                words.setdefault(verdict.sign, {})[verdict.leaning] = self.formatter.word(verdict)
        keys = []
        for kind, of_kind in words.items():
            look = "undecided" if kind not in WORDS else kind
            text = ", ".join(of_kind.values())
            keys.append(element('<span class="key {}">{} {}</span>', look, SIGNS[kind], text))
        return element('<p class="legend">{}</p>', joined(keys, " "))

    def _body(self, group: doc.Group, columns: list[_Column]) -> Markup:
        title = ""
        if group.title != "":
            title = element(
                '<tr class="point"><th scope="rowgroup" colspan="{}">{}</th></tr>',
                len(columns),
                self.inline(group.title),
            )
        rows = joined((self._row(row, columns) for row in group.rows), "\n")
        return element("<tbody>{}{}</tbody>", title, rows)

    def _row(self, row: doc.TableRow, columns: list[_Column]) -> Markup:
        cells = joined(
            self._cell(row.cells[column.number], column)
            for column in columns
            if column.number < len(row.cells)
        )
        kind = element(' class="{}"', row.role) if row.role else ""
        return element("<tr{}>{}</tr>", kind, cells)

    def _cell(self, cell: doc.Inline, at: _Column) -> Markup:
        column = at.column
        if isinstance(cell, doc.Relative) and (verdict := cell.verdict) is not None:
            return element(
                '<td class="kept {}"{}>{}</td>', verdict.look, at.label, self._judged(cell, verdict)
            )
        if isinstance(cell, doc.Nothing):
            return element(
                '<td class="number none"{}>{}</td>', at.label, self.formatter.value(cell)
            )
        content = self.inline(cell, breaks=column.wraps or column.key == "verdict")
        if column.wraps and len(text := self.formatter.text(cell)) > _LONG:
            first = text[:_SHOWN].rsplit(" ", 1)[0] + " "
            if not any(_is_marked(run) for run in self.formatter.runs(cell)):
                content = element("{}", text[len(first) :])  # what is opened continues
            content = element("<details><summary>{}…</summary>{}</details>", first, content)
        if at.number == 0 and content:
            kind = at.kind if column.wraps else ""
            return element('<th scope="row"{}>{}</th>', kind, content)
        return element("<td{}{}>{}</td>", at.kind, at.label, content)

    def _figure(self, figure: doc.RowFigure) -> Markup:
        spec, name = spec_of(figure, self.formatter), f"{self.prefix}f{len(self.specs)}"
        caption = caption_of(figure, spec, self.formatter)
        self.specs.append((name, Markup(vega.spec_text(spec))))
        svg = vega.static_svg(spec, name)
        size = _SIZE.search(svg)
        kind = " tall" if size and float(size[1]) > _PAGE else ""
        return Markup(
            '<figure>\n<div class="interactive" id="{}" hidden></div>\n<div class="static{}">{}</div>\n'
            "<figcaption>{}</figcaption>\n</figure>"
        ).format(name, kind, Markup(svg), caption)

    def _chart(self, chart: doc.Chart) -> Markup:
        name = f"{self.prefix}c{self._charts}"
        self._charts += 1
        notes = joined(map(self.formatter.text, chart.notes), "<br>")
        wide_spec, narrow_spec = (
            Markup('<div class="{}">{}</div>').format(
                kind, Markup(vega.static_svg(spec, f"{name}-{kind}"))
            )
            for kind, spec in (
                ("wide", spec_of(chart, self.formatter)),
                ("narrow", spec_of(chart, self.formatter, is_stacked=True)),
            )
        )
        return Markup('<figure class="chart">{}{}\n<figcaption>{}</figcaption>\n</figure>').format(
            wide_spec, narrow_spec, notes
        )


def element(template: str, *values: object) -> Markup:
    """Fill the `{}` of HTML with values, escaped but for Markup; `Markup.format` takes over three times as long."""
    return Markup(
        template.format(*(value if type(value) is Markup else escape(value) for value in values))
    )


def joined(parts: Iterable[object], separator: str = "") -> Markup:
    """Join parts, escaped but for Markup, six times as fast as `Markup.join`. separator: HTML."""
    return Markup(separator.join(part if type(part) is Markup else escape(part) for part in parts))


def _together(runs: Iterable[Run]) -> Iterator[Run]:
    """Return runs with those of one look that follow each other as one."""
    for (role, link, _), group in groupby(runs, key=_look):
        alike_runs = list(group)
        yield (
            alike_runs[0]
            if len(alike_runs) == 1
            else Run("".join(run.text for run in alike_runs), role, link=link)
        )


def _look(run: Run) -> tuple[Role, str, int]:
    """Return what runs must have in common to be one; one that is an element of its own has it with no other."""
    return run.role, run.link, id(run) if isinstance(run.value, _ELEMENTS) else 0


def _wording(text: str) -> str:
    """Return a sentence without its numbers, and how often it was said."""
    return re.sub(r" \([^()]*\)$|[\d.,]+", "", text)


def _is_marked(run: Run) -> bool:
    """Whether a run is more than its text."""
    return bool(run.role or run.link or isinstance(run.value, _ELEMENTS))


def _is_figure(part: doc.Part) -> bool:
    """Whether a part stands beside others like it where there is room."""
    return isinstance(part, doc.RowFigure) or (
        isinstance(part, doc.Table) and part.style == "beside"
    )


def _class(column: doc.Column) -> Markup:
    flags = (("number", column.is_number), ("wrap", column.wraps), ("wide", column.room == "wide"))
    names = [name for name, is_set in flags if is_set]
    if column.key in ("verdict", "interval"):
        names.append(column.key)
    return element(' class="{}"', " ".join(names)) if names else Markup("")
