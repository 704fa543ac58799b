"""The page of a report: contents, what it folds, what paper gets, and the axis of ratios. Figures are invented."""

from __future__ import annotations

import re

import pytest
from shown import page as page_of

from vtax.report.analysis import Analysis
from vtax.report.document import FigureGroup, FigureRow, RowFigure
from vtax.report.parts import figures
from vtax.report.renderers import vega
from vtax.report.renderers.figures import spec_of
from vtax.report.renderers.format import Formatter

pytestmark = pytest.mark.slow


@pytest.fixture
def analysis(unmade_home, tour_analysis):
    return tour_analysis


def ratios(analysis: Analysis) -> vega.Spec:
    """The specification of the first metric's ratios."""
    figure = figures.ratios(analysis.sections[0], analysis)
    return spec_of(figure, Formatter())


def test_ratios_far_apart_stand_on_a_logarithmic_axis_that_holds_every_interval(analysis):
    spec = ratios(analysis)
    shown = next(
        layer["encoding"]["x"] for layer in spec["layer"] if "low" in layer["data"]["values"][0]
    )
    low, high = shown["scale"]["domain"]
    assert shown["scale"]["type"] == "log"
    assert {0.2, 0.5, 1.0} <= set(shown["axis"]["values"])
    cells = [
        each
        for layer in spec["layer"]
        for each in layer["data"]["values"]
        if each.get("low") is not None
    ]
    assert min(each["low"] for each in cells) < 0.2
    assert all(low <= each["low"] and each["high"] <= high for each in cells)


def test_ratios_near_each_other_stand_on_a_linear_axis():
    near = FigureRow("lxc", 1, (1.01, 0.99, 1.03))
    groups = (FigureGroup("", (near,)),)
    figure = RowFigure("ratios", "", "", ("",), "", groups, "", "", margin=0.02, baseline="native")
    scale = next(each["encoding"]["x"]["scale"] for each in spec_of(figure, Formatter())["layer"])
    assert "type" not in scale


@pytest.mark.slow
def test_a_page_has_contents_and_shows_figures_and_long_chapters_on_demand(analysis):
    page = page_of(analysis)
    contents = re.search(r'<nav class="contents".*?</nav>', page, re.S)
    assert contents
    linked = re.findall(r'href="#([^"]+)"', contents[0])
    assert {"answer", "results", "result-0"} <= set(linked)
    assert all(f'id="{each}"' in page for each in linked)
    folded = re.search(
        r"<summary>Figures and further statistics</summary>.*?</details>", page, re.S
    )
    assert folded
    assert folded[0].count("<figure>") == 4


def test_paper_has_the_title_on_every_page_and_only_what_is_open(analysis):
    page = page_of(analysis)
    assert '@top-left { content: "' in page
    assert "beforeprint" not in page
    assert (
        "h1, h2, h3 { break-after: avoid; break-inside: avoid; }"
        in page[page.index("@media print") :]
    )
