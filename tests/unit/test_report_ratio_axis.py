"""The axis of percents of the baseline: 100 % is a labelled tick, at any range and width."""

import re
from itertools import pairwise

import pytest

from vtax.report.renderers import vega
from vtax.report.renderers.axes import ratio_axis
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.marks import ROW, in_rows, mark, whole

RANGES = [
    (0.9993, 1.0002),
    (0.9, 1.1),
    (0.7, 1.07),
    (0.7, 1.3),
    (0.6, 1.9),
    (0.3, 1.5),
    (0.1, 3),
    (0.03, 1.7),
    (0.003, 20),
    (1e-9, 30),
    (0.99, 100),
    (1e-300, 1e300),
]


def labels_of(bounds: tuple[float, float]) -> list[tuple[float, str]]:
    """Return place (px) and text of the labels of an axis."""
    axis = ratio_axis([(1.0, *bounds)], 0.0, None)
    drawn = mark("point", [{"row": "r0", "value": 1}], ROW, axis.at("value"))
    spec = whole(in_rows([drawn], {"r0": "podman"}), "a figure", Formatter())
    svg = vega.static_svg(spec, "f")
    found = re.findall(r'translate\(([\d.]+),[\d.]+\)"[^>]*>([^<]*%)<', svg)
    return [(float(place), text) for place, text in found]


@pytest.mark.parametrize("bounds", RANGES)
def test_100_percent_is_a_tick_among_at_least_three_that_do_not_touch(bounds):
    found = labels_of(bounds)
    assert "100\u202f%" in [text for _, text in found]
    assert 3 <= len(found) <= 9
    ends = [(place - 3.1 * len(text), place + 3.1 * len(text)) for place, text in found]
    assert all(left[1] < right[0] for left, right in pairwise(ends)), found


def test_a_narrow_plot_labels_every_second_tick_and_100_percent_with_them():
    text = ratio_axis([(1.0, 0.0034, 20)], 0.0, None).look
    left_out = re.search(r"width < \d+ && indexof\((\[.*?\])", text["labelExpr"])[1]
    assert (text["values"], left_out) == ([0.01, 0.1, 1, 10], "[0.1, 10.0]")
