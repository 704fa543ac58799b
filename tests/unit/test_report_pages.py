"""The page of a report: contents, what it folds, what paper gets, and the axis of ratios. Figures are invented."""

from __future__ import annotations

import re
from typing import Any

import pytest
from shown import page as page_of

from vtax.report.answers.result import view as result
from vtax.report.document import Document, FigureGroup, FigureRow, RowFigure, Warnings
from vtax.report.document.warnings import WarnedPlace, Warning
from vtax.report.renderers.figures import spec_of
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.html import Fragments

pytestmark = pytest.mark.slow


@pytest.fixture
def analysis(unmade_home, tour_analysis):
    return tour_analysis


def x_of(*shown: tuple[float, float, float]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The axis of a figure of ratios, and its rows with their intervals."""
    rows = tuple(FigureRow(f"platform-{n}", n, each) for n, each in enumerate(shown, 1))
    groups = (FigureGroup("", rows),)
    figure = RowFigure("ratios", "", "", ("",), "", groups, "", "", margin=0.02, baseline="native")
    layers = spec_of(figure, Formatter())["layer"]
    drawn = [layer for layer in layers if "low" in {**next(iter(layer["data"]["values"]), {})}]
    return drawn[0]["encoding"]["x"], drawn[0]["data"]["values"]


def test_ratios_far_apart_stand_on_a_logarithmic_axis_that_holds_every_interval():
    axis, rows = x_of((0.19, 0.17, 0.21), (1.0, 0.98, 1.02))
    low, high = axis["scale"]["domain"]
    assert axis["scale"]["type"] == "log"
    assert {0.2, 0.5, 1.0} <= set(axis["axis"]["values"])
    assert len(rows) == 2
    assert all(low <= row["low"] and row["high"] <= high for row in rows)


def test_ratios_near_each_other_stand_on_a_linear_axis():
    axis, _ = x_of((1.01, 0.99, 1.03))
    assert "type" not in axis["scale"]


@pytest.mark.slow
def test_a_page_has_contents_and_shows_figures_and_long_chapters_on_demand(analysis):
    page = page_of(analysis)
    contents = re.search(r'<nav class="contents".*?</nav>', page, re.S)
    assert contents
    linked = re.findall(r'href="#([^"]+)"', contents[0])
    assert {"answer", "results", "result-0"} <= set(linked)
    assert all(f'id="{each}"' in page for each in linked)
    folded = re.search(
        r"<summary>Table[^<]*, figures and further statistics</summary>.*?</details>", page, re.S
    )
    assert folded
    assert folded[0].count("<table") == 2  # the result, and further statistics beside the figure
    assert folded[0].count("<figure>") == 1  # of means: ratios stand in one figure of every metric


def test_further_metrics_are_one_table_with_every_platform_beside_the_baseline(analysis):
    page = page_of(analysis)
    more = re.search(r"<summary>\d+ more metrics?</summary>(.*?)</details>", page, re.S)
    assert more
    assert more[1].count("<table") == more[1].count('<table class="overview">') == 1
    assert "<article" not in more[1]
    assert "<a href" not in more[1]


def test_further_metrics_that_are_many_are_a_command(analysis, monkeypatch):
    monkeypatch.setattr(result, "_MOST_FURTHER", 0)
    page = page_of(analysis)
    assert not re.search(r"<summary>\d+ more metrics?</summary>", page)
    assert re.search(r"vtax show \S+ --all</code>: tables? of \d+ metrics?", page)


def test_warnings_of_one_code_stand_on_one_line_with_their_count():
    given = (
        Warning("outliers", "note", {"text": "1 value"}, times=3, places=(WarnedPlace("docker"),)),
        Warning("drift", "warning", {"text": "a trend"}),
        Warning("outliers", "note", {"text": "2 blocks"}, times=4, is_primary=False),
    )
    body = Fragments().body(Document("", (Warnings(given),)))
    assert re.findall(r'<code class="\w+">(\w+)</code>', body) == ["outliers", "drift"]
    assert "(7 times)" in body
    assert body.count("<li>") == 2 + 2


def test_paper_has_the_title_on_every_page_and_only_what_is_open(analysis):
    page = page_of(analysis)
    assert '@top-left { content: "' in page
    assert "beforeprint" not in page
    assert (
        "h1, h2, h3 { break-after: avoid; break-inside: avoid; }"
        in page[page.index("@media print") :]
    )
