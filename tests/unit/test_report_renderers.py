"""Every renderer shows a document with every part and every type of cell. The document is made for this alone."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from shown import drawn

from vtax.report.document import (
    Bar,
    Bullets,
    Code,
    Column,
    Count,
    Document,
    Duration,
    Factor,
    FigureGroup,
    FigureRow,
    Group,
    Inline,
    IntervalCell,
    Mean,
    Moment,
    Nothing,
    Number,
    Offset,
    Paragraph,
    Part,
    PlatformCell,
    PValue,
    Quantity,
    Range,
    Relative,
    RowFigure,
    Scale,
    Share,
    Size,
    Styled,
    Table,
    TableRow,
    Titled,
    VerdictCell,
    WarnedPlace,
    Warning,
    Warnings,
    joined,
    listed,
    msg,
    plural,
)
from vtax.report.document.cells import Value
from vtax.report.renderers.format import Formatter, english
from vtax.report.renderers.html import html
from vtax.report.renderers.json import as_json
from vtax.report.renderers.language import language
from vtax.report.renderers.latex import latex, latex_table

from vtax.report.renderers.markdown import markdown  # isort: skip
from vtax.messages import Note

SCALE = Scale("Mbit/s", 1e6)
SPACE, THIN = "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}"
CELLS: dict[type, tuple[Inline, str]] = {
    Number: (Number(1234.56), f"1{THIN}235"),
    Count: (Count(7), "7"),
    Quantity: (Quantity(5e6, SCALE, 3, has_unit=True), "5.00 Mbit/s"),
    Mean: (Mean(1e7, 12e4, SCALE, "both"), "10.00 ±0.12 Mbit/s"),
    IntervalCell: (IntervalCell(0.98e6, 1.0234e6, "quantity", SCALE), "[0.980, 1.023]"),
    Share: (Share(0.0213), f"2.1{SPACE}%"),
    PValue: (PValue(0.0004, is_named=True), "p < 0.001"),
    Duration: (Duration(245), "4 min 05 s"),
    Offset: (Offset(-0.25), "-0.250 s"),
    Size: (Size(512 << 20), "512 MiB"),
    Moment: (Moment(0), "1970-01-01"),
    VerdictCell: (VerdictCell("undecided", 3), "? undecided, about 3 more blocks"),
    Bar: (Bar(0.4, 0.5, 0.6), "████◆░"),
    Relative: (Relative(0.954, 0.93, 0.97, verdict=VerdictCell("slower")), f"95.4{SPACE}% [93.0, 97.0] slower"),
    PlatformCell: (PlatformCell("qemu_tcg", ("emulated",), 2), "qemu_tcg (emulated)"),
    Factor: (Factor((("mtu", "1500"),)), "mtu=1500"),
    Range: (Range(Count(1), Count(3)), "1 to 3"),
    Nothing: (Nothing(), "–"),
}  # fmt: skip
WARNINGS = (
    Warning(
        "few-blocks",
        "warning",
        {"count": Count(3), "minimum": Count(5)},
        places=(WarnedPlace("docker", "dd"),),
        times=2,
    ),
    Warning("theirs", "error", {"text": "50 % & <b>|x|</b> left"}),
)
FIGURE = RowFigure(
    "ratios",
    "figure",
    msg("a figure"),
    (msg("A caption"),),
    msg("ratio"),
    (
        FigureGroup(
            "",
            (
                FigureRow("a", 1, (0.9, 0.8, 1.0), (0, 1), (0.89, 0.91), "0.9"),
                FigureRow("b", 2, None),
            ),
        ),
    ),
    msg("value"),
    msg("interval"),
    margin=0.02,
    baseline="b",
)


@pytest.fixture(scope="module")
def document() -> Document:
    rows = tuple(TableRow((kind.__name__, cell)) for kind, (cell, _) in CELLS.items())
    table = Table(
        (Column("type", msg("type")), Column("cell", msg("a cell"))),
        (Group(rows, "in_a_group"),),
        "every",
    )
    inner: tuple[Part, ...] = (
        table,
        Paragraph(
            joined([Styled("--code", "code"), plural("{count} thing", "{count} things", 2)], " "),
            "muted",
        ),
        Bullets((listed(["one", "two", "three"]), msg("a {word}", word="x*y"))),
        Warnings(WARNINGS),
        Code("sudo run # 100 %\n", msg("what to type")),
        FIGURE,
    )
    parts = (Titled(msg("All"), inner, key="all", subtitle=msg("every part")),)
    return Document("What & why <here>?", parts, lead=(msg("a lead"),))


def test_every_type_of_value_is_here_and_has_its_text():
    assert set(CELLS) == set(Value.__subclasses__())
    for cell, text in CELLS.values():
        assert english(cell).startswith(text) if isinstance(cell, Moment) else english(cell) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (Relative(0.135, 0.128, 0.141), "7.41 times slower [7.09, 7.81]"),
        (Relative(0.0456, 0.0307, 0.0677), "21.9 times slower [14.8, 32.6]"),
        (Relative(1e-5, 0.9e-5, 1.1e-5), f"100{THIN}000 times slower [91{THIN}000, 111{THIN}000]"),
        (Relative(0.4, 0.1, 1.6), "40 % [10, 160]"),  # its interval does not say slower
        (Relative(0.4), "2.5 times slower"),  # one block
        (Relative(0.5, 0.4, 0.6), "50 % [40, 60]"),
        (Relative(0.99997, 0.9766, 1.0239), "100.0 % [97.7, 102.4]"),
        (Relative(0.99997, 0.9995, 1.0009), "100.0 % [100.0, 100.1]"),  # it holds the baseline
        (Relative(0.9994, 0.9991, 0.9997), "99.94 % [99.91, 99.97]"),  # no end becomes the baseline
        (Relative(0.9, 0.8, 1.003), "90 % [80, 100]"),
        (Relative(1 / 1.14, 1 / 1.18, 1 / 1.1, "time"), "14.0 % longer [10.0, 18.0]"),
        (
            Relative(1.25, 1.2, 1.3, "time", baseline="native"),
            "20.0 % shorter than native [16.7, 23.1]",
        ),
        (Relative(1 / 1.14, 0.8, 1.1, "value"), "14 % more [−9, 25]"),
        (Relative(0.4, 0.35, 0.45, "time"), "2.50 times slower [2.22, 2.86]"),
        (Relative(2.36, 1.78, 3.12), "2.36 times faster [1.78, 3.12]"),
        (Relative(2.4, 0.9, 6.4), "240 % [90, 640]"),
        (Relative(0.13, 0.12, 0.14, is_of="amount"), "13.0 % [12.0, 14.0]"),
        (Relative(15.9, 14.6, 17.4, is_of="amount"), "15.9 times [14.6, 17.4]"),
        (Relative(0.95, is_of="amount"), "95 %"),
        (Relative(0.95, 0.9, 1.0, baseline="native"), "95.0 % of native [90.0, 100.0]"),
        (Relative(0.2, 0.19, 0.21, baseline="native"), "5.00 times slower [4.76, 5.26]"),
        (Relative(0.95, 0.9, 1.0, shows="interval"), "[90.0, 100.0]"),
        (Relative(0.95, 0.9, 1.0, shows="estimate"), "95.0 %"),
        (Relative(math.nan, math.nan, math.nan), "– %"),
    ],
)
def test_a_comparison_is_percent_of_its_baseline_or_times(share, text):
    assert english(share).replace(SPACE, " ") == text


@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e-3, 1.0, 1e3, 1e300, math.inf])
def test_no_ratio_is_too_small_or_too_large_to_be_written(value):
    for share in (
        Relative(value),
        Relative(value, value / 2, value * 2),
        Relative(value, 0.0, value * 3),
    ):
        assert len(english(share)) < 60


@pytest.mark.parametrize("width", [80, 120, 160])
def test_a_terminal_shows_every_cell(document, width, golden):
    text = drawn(document, width)
    golden(text)
    assert max(map(len, text.splitlines())) <= width
    for _, shown in CELLS.values():
        assert shown in text


def test_a_page_shows_every_cell_and_no_markup_of_others(document, without_script):
    page = html(document)
    text = re.sub(r"<[^>]+>", "", re.sub(r"<(script|style|svg).*?</\1>", "", page, flags=re.DOTALL))
    for kind, (_, shown) in CELLS.items():
        if kind not in (Relative, PlatformCell, VerdictCell):  # these are elements of their own
            assert shown.replace("<", "&lt;") in text, kind
    assert (
        '<span class="key undecided">? undecided</span> <span class="muted">about 3 more blocks</span>'
        in page
    )
    assert '<code class="error">theirs</code> 50 % &amp;' in page
    assert "What &amp; why &lt;here&gt;?" in page
    assert "50 % &amp; &lt;b&gt;|x|&lt;/b&gt; left" in page
    assert page.count("<figure>") == 1


def test_markdown_has_a_row_for_every_cell_and_escapes_what_means_something(document, golden):
    text = markdown(document)
    golden(text)
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == 3 + len(CELLS)


def test_latex_has_a_booktabs_row_for_every_cell_and_escapes_what_means_something(document, golden):
    text = latex(document)
    golden(text)
    assert text.count("\\begin{") == text.count("\\end{")
    assert text.count("\\toprule") == text.count("\\midrule") == text.count("\\bottomrule") == 1
    body = text.partition("\\midrule")[2].partition("\\bottomrule")[0]
    assert body.count(" \\\\\n") == 1 + len(CELLS)
    assert text.isascii()


@pytest.mark.parametrize("first", ["*", "[", "* x", " *", "**", "[2pt]", "\n*"])
def test_no_text_is_part_of_the_end_of_the_line_before_it_in_latex(document, first):
    columns = (Column("a", msg("one\n*two"), is_number=True), Column("b", msg("[text")))
    rows = tuple(TableRow((first, "text")) for _ in range(2))
    table = Table(columns, (Group(rows), Group(rows, title=first)))
    parts = (table, replace(table, repeats=True), Code("", f"{first}\n{first}"))
    ends = re.findall(r"\\\\\s*(\S*)", latex(replace(document, parts=parts)))
    assert len(ends) > 8
    assert not [end for end in ends if end.startswith(("*", "["))]


@pytest.mark.parametrize(("count", "sizes"), [(14, [14]), (15, [8, 7]), (30, [10, 10, 10])])
def test_latex_sets_a_table_that_is_too_long_for_a_page_as_several(document, count, sizes):
    columns = (Column("a", "name", wraps=True), Column("b", "value", is_number=True))
    rows = tuple(TableRow((f"row {n}", "5")) for n in range(count))
    table = Table(columns, (Group(rows),), repeats=True)
    _, *tables = latex(replace(document, parts=(table,))).split(r"\toprule")
    assert [text.count("row ") for text in tables] == sizes


def test_latex_sets_wide_tables_within_a_line(document, golden):
    columns = (Column("a", msg("one\ntwo"), is_number=True), Column("b", msg("text"), wraps=True))
    wide = Table(columns, (Group((TableRow((Count(1), "long")),)),))
    golden(latex(replace(document, parts=(wide, replace(wide, repeats=True)))))


def test_a_table_for_a_paper_is_no_document_and_keeps_what_is_typed():
    """Its note is a comment; a hyphen is followed by no other that would make it a dash."""
    columns = (Column("name", msg("option")), Column("b", msg("share"), is_number=True))
    row = TableRow(
        (
            "--budget 8min --- –",
            Relative(1.16, 1.01, 1.4, verdict=VerdictCell("undecided", leaning="perhaps faster")),
        )
    )
    table = Table(columns, (Group((row,)),), repeats=True)
    note = Paragraph(msg("100 % is native"))
    whole = Document(msg("A question"), (Titled(msg("Summary"), (note, table)),))
    text = latex_table(whole, table)
    assert "% A question\n% 100 % is native\n" in text
    assert "document" not in text
    assert r"-{}-budget 8min -{}-{}- \textendash{}" in text
    assert r"\resizebox{\ifdim\width>\linewidth" in text
    assert r"\toprule" in text
    assert "perhaps faster" in text


def test_json_holds_the_numbers_unrounded_by_the_keys_of_their_columns(document):
    ((entry),) = json.loads(json.dumps(as_json(document), allow_nan=False))
    assert entry["table"] == "every"
    found = {row["type"]: row["cell"] for row in entry["rows"]}
    assert found["Number"] == 1234.56
    assert found["Mean"] == 1e7
    assert found["VerdictCell"] == "undecided"
    assert found["IntervalCell"]["low"] == 0.98e6
    assert found["Relative"] == 0.954
    assert found["Nothing"] is None
    assert {row["group"] for row in entry["rows"]} == {"in_a_group"}


def test_a_warning_in_json_has_code_data_and_text(document):
    first, second = as_json(replace(document, data=WARNINGS))
    assert (first["code"], first["severity"], first["data"]) == (
        "few-blocks",
        "warning",
        {"count": 3, "minimum": 5},
    )
    assert first["text"] == Note("few-blocks", count=3, minimum=5)
    assert (first["places"], first["times"]) == (["docker, dd"], 2)
    assert second["texts"] == ["50 % & <b>|x|</b> left"]


def test_warnings_of_one_code_are_merged_by_their_numbers_whatever_their_words_are():
    from vtax.messages import Note
    from vtax.report.analysis.warnings import merged, noted

    given = [
        noted(Note("outliers", count=n, total=12, what="values", limit=3.5), WarnedPlace(f"p{n}"))
        for n in (2, 1)
    ]
    other = noted(Note("outliers", count=3, total=12, what="blocks", limit=3.5))
    values, blocks = merged([*given, other])
    assert Formatter().sentence(values) == (
        Note("outliers", count="1 to 2", total=12, what="values")
    )
    assert (values.code, values.times, len(values.places)) == ("outliers", 2, 2)
    assert "3 of 12 blocks" in Formatter().sentence(blocks)
    assert "1 a 2 de 12 valores ficam longe" in Formatter(language("pt-BR")).sentence(values)
