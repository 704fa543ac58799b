"""What a terminal is shown loses no character and breaks no number, however narrow it is. Figures are invented."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from a_run import METRICS, a_run
from rich.console import Console, RenderableType
from rich.text import Text
from shown import terminal

from vtax.report.analysis import Analysis
from vtax.report.document import Column, Document, Group, Table, TableRow
from vtax.report.parts.shared import levels
from vtax.report.renderers import numbers
from vtax.report.renderers.format import english
from vtax.report.renderers.grid import TextGrid, fitted
from vtax.report.renderers.terminal import Bulleted, put, render
from vtax.store.records import CellRecord, PlatformRecord
from vtax.store.store import Store

PLATFORMS = ("native", "docker", "qemu-tcg-e1000")


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analysis]:
    """Two blocks a cell, so noisy that ratios are known to orders of magnitude only, at two long points."""
    marks = {"qemu-tcg-e1000": ("emulated",)}
    records = tuple(
        PlatformRecord(name, {}, True, marks=marks.get(name, ()), is_baseline=name == "native")
        for name in PLATFORMS
    )
    points = [
        {"socket_buffer": 262144, "message_size": size, "link.mtu": 1500} for size in (512, 1048576)
    ]
    made = [
        CellRecord(
            f"{number}-{name}",
            str(number),
            name,
            "iperf3",
            "iperf3",
            "3.18",
            "routed",
            {},
            {},
            levels,
        )
        for number, levels in enumerate(points)
        for name in PLATFORMS
    ]
    values = {"native": (2800.0, 310.0), "docker": (470.0, 1800.0), "qemu-tcg-e1000": (8.0, 21.0)}
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('wide') / 'store.sqlite'}") as store:
        run = a_run("wide-1").platforms(*records).cells(made).metrics(METRICS[2:]).blocks(2)
        run = run.values(lambda cell, block, _: values[cell.platform][block])
        yield run.analysed(store)


def drawn(part: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    put([part], console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def shown(analysis: Analysis, width: int) -> list[str]:
    return terminal(analysis, width, every_metric=True).splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 132, 160])
def test_a_result_with_wide_intervals_keeps_every_name_number_and_verdict(wide, width):
    lines = shown(wide, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    (section,) = wide.sections
    for point in section.points:
        assert english(levels(point)) in text or width < 80
        for row in point.rows:
            if row.ratio is not None and row.verdict is not None:
                share, interval, _ = numbers.relative(
                    row.ratio.estimate, row.ratio.low, row.ratio.high
                )
                assert f"{share}\N{NO-BREAK SPACE}%" in text or f"{share} times" in text
                assert interval in text
    assert text.count("? undecided") == 4
    assert " ".join(text.split()).count("qemu-tcg-e1000 (emulated)") >= 4 or width == 80


def test_at_80_columns_a_name_and_its_mark_may_part_and_nothing_else_does(wide):
    table = [line.split() for line in shown(wide, 80)]
    named = [line for line in table if line[:1] == ["qemu-tcg-e1000"]]
    assert len(named) == 5  # in the result and the figures, at both points, and in the matrix
    assert sum("(emulated)" in line for line in table) >= 4


def test_trials_are_reported_apart_from_the_blocks_that_intervals_rest_on(wide):
    (head,) = [line.split() for line in shown(wide, 140) if "CV" in line]
    (row,) = [line.split() for line in shown(wide, 140) if "baseline" in line][:1]
    assert head[head.index("CV") :][:3] == ["CV", "trials", "blocks"]
    assert row[row.index("baseline") - 4 :][:2] == ["2", "2"]


@pytest.mark.parametrize("width", range(9, 40))
def test_a_number_never_breaks_across_lines(width):
    kept = (
        "15\u202f200",
        "1\u202f219",
        "1\u202f325",
        "12\N{NO-BREAK SPACE}%",
        "5 min 00 s",
        "8 GiB",
    )
    text = f"F(3, 28) = {kept[0]} [{kept[1]}, {kept[2]}] ±{kept[3]} took {kept[4]} of {kept[5]}"
    grid = TextGrid()
    grid.add_column("what")
    grid.add_row(text)
    parts: list[tuple[int, RenderableType]] = [
        (0, Text(text)),
        (3, Bulleted([Text(text)])),
        (1, grid),
    ]
    for frame, part in parts:
        printed = "\n".join(drawn(part, width + frame))
        if width > 10:
            for each in kept:
                assert each in printed, printed


def test_a_grid_too_narrow_for_its_words_folds_them_and_loses_none():
    grid = TextGrid()
    for title in ("platform", "mean", "verdict"):
        grid.add_column(title, right=title == "mean")
    grid.add_heading(Text("mtu=1500"))
    grid.add_row("qemu-tcg-virtio", "0.000123", "undecided", indent=True)
    for width in range(8, 40):
        lines = drawn(grid, width)
        assert max(map(len, lines)) <= width
        letters = sorted("".join("".join(lines).split()).replace("─", ""))
        assert letters == sorted("platformmeanverdictmtu=1500qemu-tcg-virtio0.000123undecided")


def test_names_stand_above_the_rest_where_the_words_do_not_fit_beside_them():
    grid = TextGrid()
    for title in ("platform", "mean"):
        grid.add_column(title)
    grid.add_row("qemu-tcg-virtio", "0.000123")
    assert drawn(grid, 30) == ["platform         mean", "─" * 25, "qemu-tcg-virtio  0.000123"]
    assert drawn(grid, 20) == ["platform", "  mean", "─" * 20, "qemu-tcg-virtio", "  0.000123"]


@pytest.mark.parametrize(("width", "titles"), [(30, "name value cost"), (24, "name value")])
def test_a_spare_column_stands_where_no_row_wraps_for_it(width, titles):
    columns = (
        Column("name", "name"),
        Column("value", "value"),
        Column("cost", "cost", room="spare"),
    )
    table = Table(columns, (Group((TableRow(("qemu-tcg-virtio", "1.234", "5.67")),)),))
    console = Console(file=io.StringIO(), width=width)
    render(Document("", (table,)), console)
    assert isinstance(console.file, io.StringIO)
    head, _, *rows = console.file.getvalue().splitlines()
    assert head.split() == titles.split()
    assert "".join(rows).split() == ["qemu-tcg-virtio", "1.234", "5.67"][: len(titles.split())]


@pytest.mark.parametrize(
    ("natural", "minimum", "room", "widths"),
    [
        ([5, 9], [3, 4], 20, [5, 9]),
        ([5, 30, 20], [5, 10, 12], 35, [5, 15, 15]),
        ([5, 30, 20], [5, 10, 18], 35, [5, 12, 18]),
        ([5, 30, 20], [5, 10, 12], 36, [5, 16, 15]),
        ([9, 30], [9, 20], 20, [9, 11]),
    ],
)
def test_the_widest_column_wraps_first(natural, minimum, room, widths):
    assert fitted(natural, minimum, room) == widths
