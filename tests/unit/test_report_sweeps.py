"""Sweeps of studies that declare no figures: every level of a factor of numbers is drawn, on the axes it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from drawn_run import run_of

from vtax.report.analysis import Analysis
from vtax.report.analysis.source import Source
from vtax.report.analysis.sweeps import Sweep, is_logarithmic, sweeps
from vtax.report.chapters import report
from vtax.report.document import Chart, Paragraph, Platform, Section
from vtax.report.parts.sweeps import Sweeps
from vtax.report.renderers.charts import chart_spec
from vtax.report.renderers.format import Formatter, english


@cache
def source(study: str) -> Source:
    return run_of(study, 3)


def undeclared(study: str, **levels: Sequence[Any]) -> Analysis:
    """A run of a study whose figures are left out. levels: of factors, the only ones that are kept."""
    found = source(study).analysis
    sections = [
        replace(section, points=tuple(
            point for point in section.points
            if all(point.levels.get(name.replace("__", ".")) in kept for name, kept in levels.items())
        )) for section in found.sections if section.metric.name in ("throughput", "rate")
    ]  # fmt: skip
    return replace(found, declared={**found.declared, "figure": []}, sections=tuple(s for s in sections if s.points))


def charts_of(analysis: Analysis) -> list[Chart]:
    found = Sweeps(analysis)
    return [part.parts[0] for section in analysis.primary for part in found.of(section)]  # type: ignore[union-attr,misc]


def axes_of(each: Sweep) -> tuple[str, str, str | None, str | None, Mapping[str, str]]:
    figure = each.drawing.figure
    return each.kind, figure.x, figure.y, figure.panel, each.where


def test_what_the_study_declares_a_figure_of_is_not_drawn_again():
    analysis = source("urschei2007").analysis
    assert {each.section.metric.name for each in sweeps(analysis)[0]} == {"transactions"}
    assert {each.section.metric.name for each in sweeps(undeclared("urschei2007"))[0]} == {"throughput"}


def test_one_factor_of_numbers_gives_lines_with_every_mean_and_interval():
    analysis = undeclared("urschei2007", link__mtu=[500], socket_buffer=[8192])
    found, left_out = sweeps(analysis)
    assert [axes_of(each) for each in found] == [("lines", "message_size", None, None, {})]
    assert left_out == 0
    (each,) = found
    rows = [row for point in each.section.points for row in point.rows]
    assert len(rows) == len(each.drawing.places) == 8 * len(analysis.platforms)
    for row, place in zip(rows, each.drawing.places, strict=True):
        assert place.platform == row.platform.name
        assert (place.here.value, place.here.low, place.here.high) == (
            row.summary.mean, row.summary.low, row.summary.high,
        )  # fmt: skip


def test_two_give_heatmaps_of_values_and_of_efficiencies_too():
    analysis = undeclared("urschei2007", link__mtu=[1500], message_size=[512, 1024, 2048, 4096, 8192, 32768])
    found, _ = sweeps(analysis)
    assert [axes_of(each) for each in found] == [
        ("lines", "socket_buffer", None, "message_size", {}), ("lines", "message_size", None, "socket_buffer", {}),
        ("values", "socket_buffer", "message_size", "platform", {}),
        ("efficiency", "socket_buffer", "message_size", "platform", {}),
    ]  # fmt: skip
    kinds = {each.kind: each for each in found}
    assert {place.quantity for place in kinds["efficiency"].drawing.places} == {"efficiency"}
    assert analysis.baseline not in {place.platform for place in kinds["efficiency"].drawing.places}
    assert analysis.baseline in {place.platform for place in kinds["values"].drawing.places}


def test_a_factor_of_words_is_no_axis():
    analysis = undeclared("mauricio2013")
    for each in sweeps(analysis)[0]:
        levels = {point.levels[each.drawing.figure.x] for point in each.section.points}
        assert all(isinstance(level, int | float) or str(level)[0].isdigit() for level in levels)


@pytest.mark.parametrize(
    ("numbers", "is_log"),
    [
        ([512, 1048576], True), ([1, 2, 4, 8, 16], True), ([64, 512, 1500], True), ([500, 1500], False),
        ([10, 20, 30, 40, 50, 60, 70, 80, 90, 100], False), ([0, 1, 10, 100], False), ([-1, 10], False), ([7], False),
        ([1, 2, 4, 8], False),
    ],
)  # fmt: skip
def test_an_axis_is_logarithmic_where_levels_grow_by_factors_over_a_decade(numbers, is_log):
    assert is_logarithmic(numbers) is is_log


def test_where_there_are_too_many_every_kind_comes_once_first_and_the_rest_is_counted():
    analysis = undeclared("urschei2007", socket_buffer=[4096, 8192, 16384], message_size=[512, 1024, 2048, 4096])
    found, left_out = sweeps(analysis)
    assert 3 <= len(found) <= 6
    assert left_out > 0
    assert {each.drawing.figure.x for each in found[:3]} == {"socket_buffer", "message_size", "link.mtu"}
    values = sum(len(each.drawing.places) for each in found)
    assert values <= 1000
    (paragraph,) = Sweeps(analysis).rest()
    assert isinstance(paragraph, Paragraph)
    assert english(paragraph.text).startswith(f"{left_out} more figures over factors are left out")
    assert f"vtax show {analysis.name} --cols FACTOR --figure FILE" in english(paragraph.text)


def test_a_run_of_many_cells_has_one():
    found, left_out = sweeps(undeclared("urschei2007"))
    assert len(found) == 1
    assert left_out > 5


def test_emulated_platforms_are_marked_in_legend_and_panels():
    analysis = undeclared("santos2008")
    platforms = [
        replace(each, marks=("emulated",)) if each.name == "xen-hvm" else each for each in analysis.platforms
    ]  # fmt: skip
    charts = charts_of(replace(analysis, platforms=tuple(platforms)))
    assert len(charts) > 3
    for chart in charts:
        labels = {each.label.name: each.label.marks for each in chart.series if isinstance(each.label, Platform)}
        assert labels == {each.name: each.marks for each in platforms}
        notes = " ".join(map(english, chart.notes))
        assert "Rates of xen-hvm (emulated) are not those of hardware." in notes


def test_a_colour_is_one_value_in_all_panels_of_a_heatmap():
    analysis = undeclared("urschei2007", link__mtu=[1500], socket_buffer=[4096, 8192], message_size=[512, 1048576])
    (chart,) = [each for each in charts_of(analysis) if each.kind == "heatmap" and each.panels[0].middle is None]
    assert len(chart.panels) > 1
    rows = chart_spec(chart, Formatter())["vconcat"]
    fills = [row["hconcat"][0]["layer"][0]["encoding"]["fill"]["scale"] for row in rows]
    assert all(fill["domain"] == fills[0]["domain"] for fill in fills)


def test_charts_of_one_side_are_narrow_in_narrow_windows():
    chart = charts_of(undeclared("urschei2007", link__mtu=[500], socket_buffer=[8192]))[0]
    wide, narrow = (chart_spec(chart, Formatter(), is_stacked=each) for each in (False, True))
    assert wide["vconcat"][0]["hconcat"][0]["width"] > 1.9 * narrow["vconcat"][0]["vconcat"][0]["width"]


def test_each_stands_below_its_metric():
    analysis = undeclared("santos2008")
    document = report(Source(source("santos2008").data, analysis))
    (results,) = [part for part in document.parts if isinstance(part, Section) and part.key == "results"]
    kinds = [[type(each) for each in part.parts] for part in results.parts if isinstance(part, Section)]
    assert [Chart] in kinds
    assert kinds[0] != [Chart]
