"""Labels of figures: a mark in parentheses stands on a second line, which touches neither the first nor a heading."""

import json
import re

import pytest

from vtax.report.renderers import vega
from vtax.report.renderers.axes import Spec
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.marks import ROW, in_rows, mark, whole

SIZE_PX = 12
LABELS = {"h0": "stream", "r0": "podman", "r1": "qemu-tcg-virtio (emulated)", "h1": "dd"}


def drawn() -> str:
    values = [{"row": row, "colour": "#333", "value": 1} for row in ("r0", "r1")]
    points = mark("point", values, ROW, {"x": {"field": "value", "type": "quantitative"}})
    return vega.static_svg(figure_of(points), "f")


def figure_of(layer: Spec) -> Spec:
    return whole(in_rows([layer], LABELS), "a figure", Formatter())


def place(svg: str, text: str) -> float:
    """Where the first line of a label stands."""
    found = re.search(rf'translate\([-\d.]+,([-\d.]+)\)"[^>]*>(?:<tspan>)?{re.escape(text)}', svg)
    assert found, text
    return float(found[1])


def test_the_second_line_of_a_label_stands_clear_of_the_first_and_both_are_beside_their_row():
    svg = drawn()
    first, apart = (
        place(svg, "qemu-tcg-virtio"),
        float(re.findall(r'dy="([\d.]+)">\(emulated\)', svg)[0]),
    )
    row = place(svg, "podman") - place(
        svg, "stream"
    )  # a heading is 3 pixels above the middle of its row
    assert apart > SIZE_PX
    middle_of_text = first + apart / 2
    assert abs(middle_of_text - place(svg, "podman") - row) < 4
    assert place(svg, "dd") - (first + apart) >= SIZE_PX


def test_a_drawing_is_laid_out_alike_on_hosts_with_other_fonts_and_shown_in_the_font_of_the_page():
    def drawn_in(font: str) -> str:
        spec = figure_of(mark("point", [{"row": "r1", "value": 1}], ROW, {"x": {"field": "value"}}))
        return vega.static_svg({**spec, "config": {**spec["config"], "font": font}}, "f")

    assert drawn_in("DejaVu Sans") == drawn_in("Liberation Sans")
    assert 'font-family="system-ui' in drawn_in("DejaVu Sans")


def test_a_drawing_in_a_page_has_the_colours_of_the_page():
    rule = mark("rule", [{}], {"y": {"value": 3}}, color="@muted")
    drawn = vega.static_svg(figure_of(rule), "f")
    assert 'stroke="var(--muted)"' in drawn
    assert 'fill="var(--ink)"' in drawn
    assert "@" not in drawn
    assert not any(colour in drawn for colour in vega.PLACEHOLDERS.values())


@pytest.mark.parametrize("name", vega.PLACEHOLDERS)
def test_every_colour_has_its_value_in_light_and_its_variable_in_a_page(name):
    spec = {"ink": name}
    assert json.loads(vega.light(spec)) == {"ink": vega.PLACEHOLDERS[name]}
    variables = {each: f"var(--{each[1:]})" for each in vega.PLACEHOLDERS}
    assert json.loads(vega.light(spec, variables)) == {"ink": f"var(--{name[1:]})"}
