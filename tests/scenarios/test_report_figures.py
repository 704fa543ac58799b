"""Every figure of a cell is there for those who ask for all of them. Figures here are invented."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from shown import page as page_of
from shown import terminal, values

from vtax.report.analysis import Analysis, Row
from vtax.report.document import Scale
from vtax.report.parts import figures, shared
from vtax.report.renderers import numbers
from vtax.report.renderers.figures import spec_of
from vtax.report.renderers.format import Formatter
from vtax.stats.ratio import ratio_of_logs


@pytest.fixture(scope="module")
def analysis(tour_analysis: Analysis) -> Analysis:
    return tour_analysis


@pytest.fixture(scope="module")
def page(analysis: Analysis, tmp_path_factory: pytest.TempPathFactory) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VTAX_HOME", str(tmp_path_factory.mktemp("home")))
        return page_of(analysis)


def shown(analysis: Analysis, width: int, **options: bool) -> str:
    return terminal(analysis, width, **options)


def median_interval(row: Row, scale: Scale) -> tuple[str, str]:
    """(the median's interval, what it covers) as text."""
    s = row.summary
    return numbers.bounds(s.median_low, s.median_high, scale), numbers.percent(s.median_confidence)


def test_all_lists_the_interval_of_every_median(analysis):
    text = shown(analysis, 140, every_metric=True)
    for section in analysis.sections:
        for row in (r for p in section.points for r in p.rows):
            median, level = median_interval(row, shared.scale_of(section))
            assert f" {median} {level}" in text


def test_the_html_and_the_json_hold_the_interval_of_every_median(page, analysis):
    document = values(analysis)
    for section, shown_section in zip(analysis.sections, document["results"], strict=True):
        for point, shown_point in zip(section.points, shown_section["points"], strict=True):
            for row, printed in zip(point.rows, shown_point["rows"], strict=True):
                median, level = median_interval(row, shared.scale_of(section))
                is_in_page = (
                    section.metric.is_primary
                )  # those of other metrics are in JSON and vtax show --all
                assert (f">{median} {level}</td>" in page) >= is_in_page
                assert printed["summary"]["median_low"] == row.summary.median_low


def test_trials_and_the_blocks_that_intervals_rest_on_have_a_column_each(page):
    titles = '<th scope="col" class="number wide">trials</th><th scope="col" class="number wide">blocks</th>'
    assert page.count(titles) == 2  # of further metrics, vtax show --all has them
    cells = '<td class="number wide" data-label="trials">16</td><td class="number wide" data-label="blocks">8</td>'
    assert page.count(cells) == 4 * 2 + 3


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_the_full_listing_fits_its_terminal(analysis, width):
    for line in shown(analysis, width, every_metric=True).splitlines():
        assert len(line) <= width
        assert "…" not in line


def test_every_share_of_the_baseline_is_inside_its_axis_however_far_it_lies(analysis):
    logs = {"docker": [0.0, 0.01, -0.01], "lxc": [7.5, 9.0, 7.5], "qemu-tcg": [-9.0, -9.01, -8.99]}
    (section, *_) = analysis.primary
    rows = [
        row
        if row.platform.is_baseline
        else replace(row, ratio=ratio_of_logs(np.array(logs[row.platform.name])))
        for row in section.points[0].rows
    ]
    changed = replace(section, points=(replace(section.points[0], rows=tuple(rows)),))
    spec = spec_of(figures.ratios(changed, analysis, is_far=True), Formatter())
    drawn = {
        tag: {
            v["platform"]: v
            for layer in spec["layer"]
            if layer["mark"]["type"] == tag
            for v in layer["data"]["values"]
            if "platform" in v
        }
        for tag in ("rule", "point")
    }
    message = {
        (v["platform"], v["text"])
        for layer in spec["layer"]
        if layer["mark"]["type"] == "text"
        for v in layer["data"]["values"]
        if "platform" in v
    }
    assert math.exp(sum(logs["lxc"]) / 3) == pytest.approx(drawn["rule"]["lxc"]["mean"])
    assert {"lxc", "qemu-tcg (emulated)"} == set(drawn["rule"]) == set(drawn["point"])
    low, high = next(
        layer["encoding"]["x"]["scale"]["domain"]
        for layer in spec["layer"]
        if layer["mark"]["type"] == "rule"
    )
    assert all(low < each["low"] < each["high"] < high for each in drawn["rule"].values())
    assert not [text for _, text in message if "◀" in text or "▶" in text]
