"""Columns of tables that belong together are shown together in a terminal of any width. Figures are invented."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from a_run import a_run, platform
from drawn_run import run_of
from rich.console import Console

from vtax.report.analysis.source import Source, source_of
from vtax.report.document import (
    Column,
    Document,
    Group,
    Mean,
    Part,
    Relative,
    Scale,
    Table,
    TableRow,
    Titled,
    muted,
)
from vtax.report.renderers.columns import aligned
from vtax.report.renderers.format import english
from vtax.report.renderers.terminal import render
from vtax.report.views.base import Options
from vtax.report.views.registry import views
from vtax.store.records import CellRecord
from vtax.store.store import Store

pytestmark = pytest.mark.slow

WIDTHS = (60, 80, 100, 120, 132, 140, 150, 160, 200)
SAYS_MORE = re.compile(r"(\d+\s% )?interval|±\s?\d+\s%")
"""Titles of columns that say nothing without another one."""


@pytest.fixture(scope="module")
def costly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """A run whose work costs the host CPU time, of which tables have three columns."""
    title = "CPU time of the host for a unit of work"
    cpu_us = {"native": 20.0}

    def values(cell: CellRecord, block: int, number: int) -> dict[str, float]:
        cost = cpu_us.get(cell.platform, 30.0) * (1 + (block * 7 % 5) / 20)
        return {"requests": 1000.0 + block, "host_cpu_per_request": cost}

    far = platform("cloud-hypervisor-in-a-virtual-machine", "emulated")
    run = a_run("cost-1").platforms("native", far).benchmark("nginx", tool_version="1")
    run = run.metric("requests", "requests/s")
    run = run.metric("host_cpu_per_request", "µs/request", "lower", title).blocks(6).values(values)
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('costly') / 'store.sqlite'}") as store:
        run.stored(store)
        yield source_of(store, "cost-1")


def tables(parts: Sequence[Part]) -> Iterator[Table]:
    for part in parts:
        if isinstance(part, Titled):
            yield from tables(part.parts)
        elif isinstance(part, Table) and not part.repeats:
            yield part


def shown_columns(table: Table, width: int) -> set[int]:
    """The numbers of the columns that a terminal shows: they have these for titles, as wide as their own."""
    words = [max(map(len, english(column.title).split() or [""])) for column in table.columns]
    titles = [f"#{n}#".ljust(words[n], "#") for n in range(len(table.columns))]
    columns = zip(table.columns, titles, strict=True)
    numbered = replace(table, columns=tuple(replace(c, title=title) for c, title in columns))
    console = Console(file=io.StringIO(), width=width, highlight=False)
    render(Document("", (numbered,)), console)
    assert isinstance(console.file, io.StringIO)
    return {int(n) for n in re.findall(r"#(\d+)#", console.file.getvalue())}


def apart(table: Table, width: int) -> list[str]:
    """The columns that are shown without the one that they are of."""
    shown = [table.columns[n] for n in shown_columns(table, width)]
    keys = {column.key for column in shown}
    return [column.key for column in shown if column.of and column.of not in keys]


@pytest.mark.parametrize("name", sorted(views()))
def test_columns_that_belong_together_leave_together_in_every_view(costly, name):
    for source in (costly, run_of("ufla2010", hosts=3)):
        for depth in ("brief", "all"):
            document = views()[name].document(source, Options(depth))
            for table in tables(document.parts):
                keys = [column.key for column in table.columns]
                for column in table.columns:
                    assert not column.of or column.of in keys
                    assert column.of or not SAYS_MORE.fullmatch(english(column.title)), keys
                assert [apart(table, width) for width in WIDTHS] == [[]] * len(WIDTHS)


def test_the_cost_and_its_interval_are_both_left_out_where_rows_would_wrap(costly):
    all_tables = tables(views()["result"].document(costly, Options("brief")).parts)
    table = next(table for table in all_tables if table.style == "result")
    keys = [column.key for column in table.columns]
    percent, interval = keys.index("host_cpu_percent"), keys.index("host_cpu_interval")
    assert {percent, interval} <= shown_columns(table, 200)
    widths = [w for w in range(60, 200) if percent not in shown_columns(table, w)]
    assert max(widths) >= 132
    assert [w for w in widths if interval in shown_columns(table, w)] == []


def test_a_column_of_a_column_that_leaves_leaves_too():
    columns = (
        Column("name", "name"),
        Column("cost", "cost", room="spare"),
        Column("interval", "interval", of="cost"),
        Column("of_interval", "level", of="interval"),
    )
    table = Table(columns, (Group((TableRow(("qemu-tcg-virtio", "1.2", "[1.1, 1.3]", "95")),)),))
    assert shown_columns(table, 60) == {0, 1, 2, 3}
    assert shown_columns(table, 24) == {0}


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        ((Relative(0.95, 0.74, 1.02), Relative(0.985, 0.904, 1.074)), ("95 % [74, 102]", "98 % [90, 107]")),
        ((Relative(0.95, 0.74, 1.02), Relative(0.9948, 0.9898, 0.9997)), ("95 % [74, 102]", "99.48 % [98.98, 99.97]")),
        ((Relative(0.1, 0.07, 0.15), Relative(0.4444, 0.44, 0.45)), ("10.0 times slower [6.7, 14.3]", "2.3 times slower [2.2, 2.3]")),
        (
            (Relative(1 / 1.14, 1 / 1.18, 1 / 1.1, "time"), Relative(1.02, 0.8, 1.25, "time")),
            ("14 % longer [10, 18]", "2 % shorter [−25, 20]"),
        ),
        ((Mean(3.84, 0.4, Scale("s")), Mean(19.9, 1.9, Scale("s"))), ("3.84", "19.90")),
        ((Mean(0.627, 0.012, Scale("s")), Mean(0.6312, 0.0034, Scale("s"))), ("0.6270", "0.6312")),
        ((Mean(52340.0, 800.0, Scale("s")), Mean(9.85, 0.12, Scale("s"))), ("52 340", "9.8")),
        ((Mean(3.84, 0.4, Scale("s")), Mean(19.9, 1.9, Scale("ms"))), ("3.84", "19.9")),
        ((Mean(1498.0, 0.0, Scale("bytes")), Mean(1497.9, 0.2, Scale("bytes"))), ("1 498", "1 498")),
        ((Mean(0.1874, math.inf, Scale("s")), Mean(19.91, 1.9, Scale("s"))), ("0.19", "19.9")),
        ((Mean(0.1874, math.inf, Scale("s")), Mean(19.91, math.inf, Scale("s"))), ("0.19", "19.91")),
    ],
)  # fmt: skip
def test_figures_of_one_kind_have_as_many_decimals_in_a_column(cells, shown):
    """But as many as they need: two digits, and more where an interval beside the baseline would end at it."""
    table = aligned(
        Table((Column("a", "a"),), (Group(tuple(TableRow((muted(each),)) for each in cells)),))
    )
    found = [english(row.cells[0]) for row in table.groups[0].rows]
    assert [re.sub(r"\s", " ", each) for each in found] == list(shown)
