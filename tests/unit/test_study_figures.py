"""Figures of publications as data: what a study may declare, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vtax.errors import BadInput
from vtax.study.load import Chosen, load, shipped
from vtax.study.model import Study

STUDY = """
name = "mine"
platforms = ["native", "docker"]
[[benchmark]]
name = "iperf3"
[benchmark.factors]
direction = ["send", "receive"]
[benchmark.link_factors]
mtu = [500, 1500]
"""
FIGURE = {
    "id": "figure-1",
    "title": "t",
    "title_pt": "t",
    "kind": "bars",
    "benchmark": "iperf3",
    "metric": "throughput",
    "x": "direction",
    "panel": "link.mtu",
}
IN_PAPERS = {
    "ufla2010": {"figure-5.1", "figure-5.2", "figure-5.3", "figure-5.4", "figure-5.5", "others"},
    "santos2008": {*(f"figure-{n}" for n in range(2, 10)), "cpu", "table-1"},
    "urschei2007": {*(f"figure-{n}" for n in range(2, 8)), "others-mtu-500", "others-mtu-1500"},
    "mauricio2013": {
        "figure-3-cpu",
        "figure-3-memory",
        "figure-4",
        "figure-5",
        "figure-7",
        "figure-10",
    },
    "trindade2018": {*(f"figure-{n}" for n in range(3, 9)), "table-2"},
}


def study(path: Path, **changes: Any) -> Study:
    lines = []
    for key, value in {**FIGURE, **changes}.items():
        if value is not None:
            lines.append(f"{key} = {value!r}".replace("'", '"'))
    file = path / "mine.toml"
    file.write_text(STUDY + "[[figure]]\n" + "\n".join(lines) + "\n")
    return load(str(file)).study


def test_a_figure_is_read(tmp_path):
    (figure,) = study(tmp_path).figure
    assert (figure.axes, figure.quantities) == (("link.mtu", "direction", "platform"), ("value",))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"benchmark": "iperf"}, "the study has no benchmark 'iperf'"),
        ({"x": "mtu"}, "the study has no factor 'mtu'; did you mean link.mtu?"),
        ({"panel": None}, "cells of several levels of link.mtu are drawn at one place"),
        ({"platforms": ["dokcer"]}, "the study has no platform 'dokcer'; did you mean docker?"),
        ({"without": ["gone"]}, "the study has no platform 'gone'"),
        ({"kind": "lines"}, "direction has levels that are no numbers"),
        ({"kind": "heatmap"}, "a heatmap needs y"),
        (
            {"kind": "table", "panel": None, "x": "link.mtu"},
            "a table is of one quantity, with x = 'platform'",
        ),
        ({"quantity": "largest_cv"}, "quantity = 'largest_cv' is of a table, and alone"),
        ({"metric": ["throughput", "sent"]}, "several of metric are drawn at one place"),
        ({"quantity": ["value", "efficiency"]}, "several quantities need panel = 'quantity'"),
        ({"log": ["x"]}, "only lines have logarithmic axes"),
        ({"series": "test"}, "test can be x alone"),
        ({"x": "test", "series": "direction"}, "x = 'test' is drawn with lines"),
        ({"host": 1, "series": "host"}, "host is fixed"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused(tmp_path, changes, message):
    with pytest.raises(BadInput, match=message.replace("(", r"\(").replace("?", r"\?")):
        study(tmp_path, **changes)


def test_a_level_that_is_not_measured_is_refused(tmp_path, golden):
    file = tmp_path / "mine.toml"
    where = (
        '[[figure]]\nid = "a"\ntitle = "t"\ntitle_pt = "t"\nkind = "bars"\nbenchmark = "iperf3"\n'
    )
    file.write_text(
        STUDY + where + 'metric = "throughput"\nx = "direction"\nwhere = { "link.mtu" = 9000 }\n'
    )
    with pytest.raises(BadInput) as caught:
        load(str(file))
    golden(str(caught.value))


def test_two_figures_need_two_ids(tmp_path):
    study(tmp_path)
    file = tmp_path / "mine.toml"
    text = file.read_text()
    file.write_text(text + text[text.index("[[figure]]") :])
    with pytest.raises(BadInput, match="two figures 'figure-1'"):
        load(str(file))


@pytest.mark.parametrize("name", sorted(IN_PAPERS))
def test_every_figure_of_a_publication_is_declared(name):
    figures = load(name).study.figure
    assert {figure.id for figure in figures} == IN_PAPERS[name]
    assert all(figure.title_pt != figure.title for figure in figures)


@pytest.mark.parametrize("name", sorted(IN_PAPERS))
def test_a_smaller_scale_keeps_the_figures(name):
    """With the levels that are left."""
    study = load(name, chosen=Chosen(scale="quick")).study
    assert {figure.id for figure in study.figure} == IN_PAPERS[name]


def test_shipped_studies_without_a_publication_have_no_figures():
    for name in shipped():
        loaded = load(name).study
        assert loaded.paper is not None or not loaded.figure
