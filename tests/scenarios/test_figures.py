"""Figures of publications as files for print, in reports and in the terminal. Figures are invented."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from a_run import DECLARED, begin, fill
from click.testing import CliRunner, Result
from command_line import refusals
from drawn_run import run_of

from vtax.cli.main import group
from vtax.report.analysis.source import Source
from vtax.report.answers.figures.chart import chart_of
from vtax.report.answers.figures.compute import drawings
from vtax.report.chapters import report
from vtax.report.document import Chart, ChartPanel, ChartSeries, ChartValue, Scale
from vtax.report.renderers.figures import file_of, id_of, spec_of
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.html import html
from vtax.report.renderers.language import language
from vtax.report.renderers.latex import latex
from vtax.report.renderers.markdown import markdown
from vtax.report.views.base import Options
from vtax.report.views.registry import views
from vtax.store.store import Store

FIGURES: list[dict[str, Any]] = [
    {
        "id": "figure-1",
        "title": "both directions",
        "title_pt": "dois sentidos",
        "kind": "bars",
        "benchmark": "iperf3",
        "metric": "throughput",
        "x": "direction",
        "statistic": "t_interval",
    },
    {
        "id": "figure-2",
        "title": "test by test",
        "title_pt": "teste a teste",
        "kind": "lines",
        "benchmark": "iperf3",
        "metric": "throughput",
        "x": "test",
        "where": {"direction": "send"},
        "without": ["native"],
    },
    {
        "id": "figure-3",
        "title": "of a machine",
        "title_pt": "de uma máquina",
        "kind": "bars",
        "benchmark": "iperf3",
        "metric": "throughput",
        "x": "direction",
        "platforms": ["kvm-virtio"],
    },
]
PUBLISHED = [
    {
        "source": "table 1",
        "benchmark": "iperf3",
        "metric": "throughput",
        "where": {"direction": "send"},
        "values": {"native": 21000, "docker": 20000},
    }
]


@pytest.fixture(scope="module")
def store_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a run of a study that has figures, one without a block, and one of a study without figures."""
    url = f"sqlite:///{tmp_path_factory.mktemp('figures') / 'store.sqlite'}"
    with Store.open(url) as opened:
        begin(opened, "tour-2", declared={**DECLARED, "figure": FIGURES})
        begin(opened, "tour-3")
        fill(
            begin(
                opened, "tour-1", declared={**DECLARED, "figure": FIGURES, "published": PUBLISHED}
            )
        )
    return url


@pytest.fixture
def store(store_url: str, tmp_path: Path, unmade_home: None, monkeypatch, use_store) -> None:
    """That store, in the directory of the test."""
    use_store(store_url)
    monkeypatch.chdir(tmp_path)


def vtax(*arguments: str) -> Result:
    return CliRunner().invoke(group, arguments, catch_exceptions=False)


def size_of_png(content: bytes) -> tuple[int, int]:
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", content[16:24])  # type: ignore[return-value]


def texts_of_svg(content: bytes) -> list[str]:
    root = ElementTree.fromstring(content)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    return [text.replace("\u00a0", " ") for text in texts if text]


@pytest.mark.usefixtures("store")
def test_figures_are_written_in_every_format(tmp_path):
    for file_format in ("svg", "pdf", "png"):
        done = vtax("figures", "tour-1", "--format", file_format, "--only", "figure-1")
        assert done.exit_code == 0, done.output
        content = (tmp_path / f"tour-1-figure-1.{file_format}").read_bytes()
        if file_format == "svg":
            texts = texts_of_svg(content)
            assert "Figure 1: both directions" in texts
            assert any("(emulated)" in text for text in texts)
        elif file_format == "pdf":
            assert content.startswith(b"%PDF-")
            assert b"%%EOF" in content[-32:]
        else:
            assert min(size_of_png(content)) > 300


@pytest.mark.usefixtures("store")
def test_json_lists_what_was_written_and_what_was_not():
    arguments = [
        "figures",
        "tour-1",
        "--output",
        "new/print",
        "--json",
    ]  # a directory that does not exist
    done = CliRunner().invoke(group, arguments, catch_exceptions=False)
    found = json.loads(done.stdout)
    assert (found["schema"], found["run"], found["format"]) == ("vtax.figures/1", "tour-1", "svg")
    ids = [each["id"] for each in found["written"] if Path(each["path"]).is_file()]
    assert ids[:3] == ["figure-1", "figure-2", "forest"]
    assert len(ids) == len(set(ids)) == len(found["written"])
    assert found["not_written"] == [{"id": "figure-3", "why": "not drawn: no value of kvm-virtio"}]
    assert f"1 of {len(found['written'])}: figure-1" in done.stderr


@pytest.mark.usefixtures("store")
def test_figures_of_the_report_are_written_too(tmp_path, set_locale):
    set_locale("pt_BR")
    found = json.loads(vtax("figures", "tour-1", "--json", "-o", "out").stdout)
    ids = [each["id"] for each in found["written"]]
    assert {
        "forest",
        "variance",
        "order",
        "means-sysbench-cpu-events",
    } <= set(ids)
    assert "means-iperf3-throughput" not in ids  # figure-1 draws them
    assert {path.name for path in tmp_path.glob("out/*")} == {f"tour-1-{each}.svg" for each in ids}
    drawn = (tmp_path / "out" / "tour-1-order.svg").read_bytes()
    assert "@" not in drawn.decode()
    assert any("ordem de execução" in text for text in texts_of_svg(drawn))


@pytest.mark.usefixtures("store")
def test_a_report_takes_a_mapping_into_the_chapter_of_figures(tmp_path):
    output = tmp_path / "report.html"
    arguments = ["report", "tour-1", "--output", str(output), "--map", "kvm-virtio=docker"]
    CliRunner().invoke(group, arguments, catch_exceptions=False)
    page = output.read_text()
    assert "no value of kvm-virtio" not in page
    assert (
        page.count("docker for kvm-virtio") > 1
    )  # above the chapter and in the note of its figure


@pytest.mark.usefixtures("store")
def test_bad_input_is_refused_and_writes_nothing(tmp_path, capsys, golden):
    golden(
        refusals(
            capsys,
            "figures",
            "tour-1 --format gif",
            "tour-1 --only figure-9",
            "tour-1 --only figure-3",
            "tour-1 --output /proc/nowhere",
            "tour-1 --map gone=docker",
            "tour-9",
            "tour-2",
            "tour-3",
            "tour-1 --only forst",
        )
    )
    assert not list(tmp_path.glob("*.svg"))


@pytest.mark.usefixtures("store")
def test_json_has_the_values():
    done = CliRunner().invoke(group, ["figures", "tour-1", "--only", "figure-1", "--json"])
    found = json.loads(done.stdout)["figures"]
    values = [
        each for each in found[0]["values"] if each["platform"] == "docker" and each["printed"]
    ]
    (value,) = values
    assert (value["printed"], value["tests"], value["blocks"]) == (20000, 16, 8)
    assert value["test_low"] < value["test_mean"] < value["test_high"]
    assert value["low"] < value["value"] < value["high"]
    assert (
        value["high"] - value["low"] > value["test_high"] - value["test_low"]
    )  # trials of a block are alike
    assert (
        len([each for each in found[1]["values"] if each["test"] and each["platform"] == "docker"])
        == 16
    )


@cache
def source_of(study: str) -> Source:
    return run_of(study, 3)


def chart(study: str, figure: str) -> Chart:
    source = source_of(study)
    (drawing,) = [
        each for each in drawings(source.analysis, source.data) if each.figure.id == figure
    ]
    return chart_of(drawing, source.analysis)


@pytest.mark.parametrize(
    ("study", "figure", "code", "texts"),
    [
        (
            "ufla2010",
            "figure-5.3",
            "pt-BR",
            (
                "vazão dos hipervisores e nativa, teste a teste, ambiente 1",
                "qemu-tcg-e1000 (emulada)",
                "número do teste",
            ),
        ),
        (
            "santos2008",
            "figure-2",
            "en",
            ("xen-hvm", "512 B", "request size", "rate, one direction (Mbit/s)"),
        ),
        ("santos2008", "table-1", "en", ("UDP medium", "◇ 60 %", "kvm-virtio")),
        (
            "mauricio2013",
            "figure-7",
            "en",
            ("rate at the sender", "throughput", "kvm-emulated"),
        ),
        ("trindade2018", "figure-5", "en", ("triad bandwidth", "kvm-virtio")),
    ],
)
def test_every_kind_is_drawn_with_its_axes_and_legend(study, figure, code, texts):
    drawn = " | ".join(
        texts_of_svg(file_of(chart(study, figure), Formatter(language(code)), "svg"))
    )
    assert [text for text in texts if text not in drawn] == []


def test_a_heatmap_has_the_value_and_the_interval_of_every_point():
    spec = spec_of(heatmap(), Formatter())
    left, right = spec["vconcat"][0]["hconcat"]
    assert drawn_values(left, "text")[0]["text"] == "92.0"
    first, second = drawn_values(right, "text")
    assert (first["text"], second["text"]) == ("90.0\n[85.5, 94.5]", "–")
    assert (first["ink"], second["ink"]) == ("white", "black")
    texts = texts_of_svg(file_of(heatmap(), Formatter(), "svg"))
    assert [text for text in texts if text.startswith("90.0")] == ["90.0[85.5, 94.5]"]


def test_efficiencies_are_white_at_the_baseline():
    panel = replace(heatmap().panels[0], middle=1.0)
    values = tuple(
        ChartValue(0, float(x), 0, 0, (v, None, None)) for x, v in enumerate((0.3, 1.02))
    )
    side = spec_of(replace(heatmap(), panels=(panel,), values=values), Formatter())["vconcat"][0][
        "hconcat"
    ][0]
    assert side["layer"][0]["encoding"]["fill"]["scale"]["domain"][1] == 1.0
    assert [value["ink"] for value in drawn_values(side, "text")] == ["white", "black"]


def texts_of_table(study: str, figure: str) -> tuple[list[str], list[str], list[str]]:
    """(columns, rows, what the cells of the left side hold) of a table of the publication."""
    formatter = Formatter(language("en"))
    found = chart(study, figure)
    left, _ = spec_of(found, formatter)["vconcat"][0]["hconcat"]
    records = drawn_values(left, "text")
    columns, rows = (
        [formatter.text(label) for _, label in found.x_labels],
        list(map(formatter.text, found.y_labels)),
    )
    return columns, rows, [each["text"] for each in records]


def test_table_2_of_trindade2018_has_rates_and_deviations_of_each_platform_in_a_row():
    columns, rows, cells = texts_of_table("trindade2018", "table-2")
    assert rows == ["native", "docker-layer", "lxc", "virtualbox (nested)", "kvm-virtio"]
    assert columns == ["UDP", "UDP by own NAT"]  # of which no two values stand at one place
    by_kernel, by_own_nat = cells[:5], cells[5:]
    printed = [*by_kernel[:3], by_own_nat[3], by_kernel[4]]
    assert all(
        re.fullmatch(r"[\d.,]+\n± [\d.,]+\n◇ [\d.,]+ ± [\d.,]+", cell) for cell in printed
    ), cells
    assert printed[3].endswith("◇ 511 ± 31.6")
    assert sum("◇" in cell for cell in cells) == 5


def test_table_1_of_santos2008_has_the_rows_and_columns_that_are_printed():
    columns, rows, cells = texts_of_table("santos2008", "table-1")
    assert columns == ["xen-pv", "xen-hvm", "native", "kvm-virtio"]
    assert rows == [
        "TCP small",
        "TCP medium",
        "TCP large",
        "UDP small",
        "UDP medium",
        "disk",
        "memory copy",
        "memory scale",
        "memory add",
        "memory triad",
        "CPU",
    ]
    assert sum("◇" in cell for cell in cells) == 33


def test_bars_of_several_series_are_rows_below_the_name_of_their_place():
    for study, figure, has_headings in (
        ("ufla2010", "figure-5.5", False),
        ("mauricio2013", "figure-7", True),
    ):
        (side, *_) = spec_of(chart(study, figure), Formatter())["vconcat"][0]["hconcat"]
        names = side["layer"][0]["encoding"]["y"]["scale"]["domain"]
        assert any(name.startswith("h") for name in names) == has_headings


def test_a_bar_that_only_the_publication_has_is_not_measured_on_our_side():
    panel = ChartPanel("", "rate (Mbit/s)", "left", "right")
    values = (
        ChartValue(0, 0.0, 0, left=(958.0, None, None), right=(958.0, 957.0, 959.0)),
        ChartValue(0, 1.0, 0, printed=(924.0, None, None)),
    )
    drawn = Chart(
        "bars",
        "figure-5",
        "t",
        (),
        (panel,),
        (ChartSeries("sent", 1),),
        values,
        "",
        ((0.0, "native"), (1.0, "xen-pv")),
    )
    sides = spec_of(drawn, Formatter())["vconcat"][0]["hconcat"]
    assert [[value["text"] for value in drawn_values(side, "text")] for side in sides] == [
        [],
        ["not measured"],
    ]
    texts = texts_of_svg(file_of(drawn, Formatter(), "svg"))
    assert texts.count("not measured") == 1


def test_points_and_intervals_of_a_series_stand_at_one_place_inside_the_axis():
    drawn = chart("santos2008", "figure-8")
    side = spec_of(drawn, Formatter())["vconcat"][0]["hconcat"][-1]
    places = [value["x"] for value in drawn_values(side, "point")]
    assert len(set(places)) == len(places)
    low, high = side["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < min(places) < max(places) < high


@pytest.mark.parametrize(
    ("study", "figure", "sides"),
    [
        ("ufla2010", "figure-5.3", 1),  # every test, with the mean
        ("santos2008", "figure-8", 1),  # one test in a block, and no bounds on the left
        ("mauricio2013", "figure-7", 1),  # the t-interval is that of the blocks
        ("trindade2018", "figure-3", 2),  # a standard deviation on the left
        ("urschei2007", "figure-4", 2),  # ratios of means, and means of ratios
    ],
)
def test_the_same_points_are_drawn_once(study, figure, sides):
    drawn = spec_of(chart(study, figure), Formatter())
    assert [len(row["hconcat"]) for row in drawn["vconcat"]] == [sides] * len(drawn["vconcat"])


def test_numbers_that_the_publication_prints_are_on_the_only_side():
    [side] = spec_of(chart("mauricio2013", "figure-7"), Formatter())["vconcat"][0]["hconcat"]
    assert [value["value"] for value in drawn_values(side, "point")] == [553.0]
    assert "◇" in json.dumps(side["title"], ensure_ascii=False)


def heatmap() -> Chart:
    panel = ChartPanel("efficiency (%)", "efficiency (%)", "left", "right", Scale("%", 0.01))
    values = (
        ChartValue(0, 0.0, 0, 0, (0.92, None, None), (0.9, 0.855, 0.945)),
        ChartValue(0, 1.0, 0, 0, None, None),
    )
    return Chart(
        "heatmap",
        "figure-1",
        "t",
        (),
        (panel,),
        (ChartSeries("docker", 1),),
        values,
        "message_size",
        ((0.0, "1 KiB"), (1.0, "2 KiB")),
        "socket_buffer",
        ("4 KiB",),
    )


def drawn_values(plot: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [
        value
        for layer in plot["layer"]
        if layer["mark"]["type"] == kind
        for value in layer["data"]["values"]
    ]


def layers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [layer for row in spec["vconcat"] for side in row["hconcat"] for layer in side["layer"]]


def test_nothing_rests_on_colour_alone():
    found = layers(spec_of(chart("santos2008", "figure-2"), Formatter()))
    assert all(
        "strokeDash" in layer["encoding"] for layer in found if layer["mark"]["type"] == "line"
    )
    assert "shape" in next(layer for layer in found if layer["mark"]["type"] == "point")["encoding"]
    bars = chart("mauricio2013", "figure-7")
    drawn = texts_of_svg(file_of(bars, Formatter(), "svg"))
    assert drawn.count("rate at the sender") > 1


@pytest.mark.parametrize(
    ("study", "figure", "axis"), [("ufla2010", "figure-5.5", "x"), ("santos2008", "figure-2", "y")]
)
def test_an_interval_that_leaves_the_axis_ends_there_in_an_arrow(study, figure, axis):
    drawn = chart(study, figure)
    first, *others = drawn.values
    wide = replace(first, right=(first.right[0], -first.right[0], 1000 * first.right[0]))
    [*_, side] = spec_of(replace(drawn, values=(wide, *others)), Formatter())["vconcat"][0][
        "hconcat"
    ]
    record = drawn_values(side, "rule")[0]
    low, high = side["layer"][0]["encoding"][axis]["scale"]["domain"]
    assert (record["low"], record["high"]) == (low, high)
    assert (
        high
        <= 3
        * max(value.right[0] for value in drawn.values if value.right)
        / drawn.panels[0].scale.divisor
    )
    assert "an arrow: the interval goes on" in json.dumps(side["title"]).replace('", "', " ")
    signs = [value["text"] for value in drawn_values(side, "text")]
    assert {"◀", "▶"} <= set(signs) or {"▼", "▲"} <= set(signs)


def test_reports_hold_the_figures_as_pictures_and_say_once_what_all_share():
    source = source_of("mauricio2013")
    declared = {**source.analysis.declared, "figure": source.analysis.declared["figure"][3:5]}
    source = Source(source.data, replace(source.analysis, declared=declared))
    document = views()["figures"].document(source, Options("report"))
    page = html(document)
    assert page.count('<figure class="chart">') == 2
    assert "Figure 7: sending and receiving rate" in page
    assert page.count(f"{source.analysis.name}: 3 blocks.") == 1
    assert "<table" not in page
    for text in (markdown(document), latex(document)):
        assert f"vtax figures {source.analysis.name}" in text


def test_reports_name_the_figures_that_are_not_drawn():
    document = views()["figures"].document(source_of("ufla2010"), Options("report"))
    lines = [line for line in markdown(document).splitlines() if line.startswith("- ")]
    assert ["it is of host 2" in line for line in lines] == [True] * len(lines)
    assert any(line.startswith("- Figure 5.4: ") for line in lines)


def test_a_metric_whose_means_the_publications_figures_draw_has_its_table_alone():
    source = source_of("ufla2010")
    without_figures = {**source.analysis.declared, "figure": []}
    other = Source(source.data, replace(source.analysis, declared=without_figures))
    drawn_means = []
    for each in (source, other):
        ids = map(id_of, report(each).figures())
        drawn_means.append([name for name in ids if name.startswith("means-")])
    assert drawn_means[0] == []
    assert drawn_means[1] != []
