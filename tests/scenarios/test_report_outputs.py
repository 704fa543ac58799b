"""The terminal table, the HTML file and the exports show one result, whole. Figures here are invented."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from a_run import DECLARED, FAILED, a_run, begin, fill, trial
from shown import english, sentence, terminal
from shown import page as page_of

from vtax.errors import BadInput, StoreError
from vtax.messages import quoted
from vtax.report.analysis import Analysis, analyse
from vtax.report.answers.reproduce.compute import commands
from vtax.report.document import RowFigure
from vtax.report.files import write
from vtax.report.parts import figures
from vtax.report.renderers import row_figures, vega
from vtax.report.renderers.axes import Spec
from vtax.report.renderers.figures import spec_of
from vtax.report.renderers.format import Formatter, efficiency_bar
from vtax.store.records import CellRecord
from vtax.store.store import Store


@pytest.fixture(scope="module", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("VTAX_HOME", str(home))
        yield home / "cache"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('report') / 'store.sqlite'}") as opened:
        fill(begin(opened))
        yield opened


@pytest.fixture(scope="module")
def analysis(store: Store) -> Analysis:
    return analyse(store)


@pytest.fixture(scope="module")
def page(analysis: Analysis) -> str:
    return page_of(analysis)


def shown(analysis: Analysis, width: int, **options: bool) -> str:
    return terminal(analysis, width, **options)


def means(analysis: Analysis) -> RowFigure:
    """The figure of the first metric's means."""
    return figures.means(analysis.sections[0], analysis)


def ratios(analysis: Analysis) -> Spec:
    """The specification of the first metric's ratios."""
    figure = figures.ratios(analysis.sections[0], analysis)
    return spec_of(figure, Formatter())


def test_the_table_reads_at_a_glance(analysis, golden):
    golden(shown(analysis, 140))


@pytest.mark.parametrize(
    ("low", "estimate", "high", "drawn"),
    [
        (1.0, 1.0, 1.0, "█████████◆"),
        (0.15, 0.286, 0.546, "██◆░░"),
        (0.02, 0.036, 0.063, "◆"),
        (0.9, 1.1, 3.0, "█████████░◆░»"),
        (2.0, 3.0, 4.0, "████████████»"),
        (0.0, 0.5, math.inf, "░░░░◆░░░░░░░»"),
    ],
)
def test_the_bar_of_an_efficiency(low, estimate, high, drawn):
    assert efficiency_bar(low, estimate, high) == drawn


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_the_table_fits_its_terminal_and_leaves_no_spaces_behind(analysis, width):
    for line in shown(analysis, width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()
        assert "…" not in line


def test_what_is_no_terminal_gets_no_colours(analysis):
    assert "\x1b" not in shown(analysis, 120)


class Page(HTMLParser):
    """What a page would load from elsewhere, its text, and its ids."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.open.append(tag)
        for name in ("src", "href", "srcset", "data", "poster", "action"):
            value = given.get(name) or ""
            if value and not value.startswith("#"):
                self.loads.append(f"{tag} {name}={value}")
        if given.get("id"):
            self.ids.append(str(given["id"]))

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass


def parsed(text: str) -> Page:
    page = Page()
    page.feed(text)
    return page


def test_the_html_needs_no_network(page):
    found = parsed(page)
    assert found.loads == []
    styles = re.search(r"<style>(.*?)</style>", page, re.S)
    assert "url(" not in styles[1]
    assert "@import" not in styles[1]


def test_the_html_has_one_of_every_id_and_every_link_leads_somewhere(page):
    ids = parsed(page).ids
    assert sorted(ids) == sorted(set(ids))
    led = set(re.findall(r'href="#([^"]+)"', page))
    assert led <= set(ids)
    assert {"result-0", "result-2"} <= led  # from the overview to the tables
    assert set(re.findall(r"url\(#([\w-]+)\)", page)) <= set(ids)


def test_the_html_says_everything(page, analysis):
    text = " ".join(" ".join(parsed(page).text).split())
    for expected in (
        "What does each layer of this host cost?",
        "7.4 to 20 times slower",
        "kvm-virtio",
        "emulated",
        "guests are started as root",
        "no memory limit: this host has no memory controller",
        "1 failed trial: qemu-tcg, iperf3",
        "Some CPU",
        "sudo .venv/bin/vtax run tour.toml --seed 1099511627783",
        "4f1d0c77aa31",
        "warm-up",
        "Holm",
        "8 GiB",
    ):
        assert expected in text, expected
    for warning in analysis.warnings:
        for each in (sentence(warning), *(english(place.inline) for place in warning.places)):
            assert each in text
    for section in analysis.sections:
        assert section.metric.title in text


def test_every_efficiency_of_the_overview_has_its_interval(page):
    overview = page[page.index('<table class="overview">') :].partition("</table>")[0]
    cells = re.findall(r'<td class="kept (?!none)\w+".*?</td>', overview)
    assert len(cells) == 3 + 2 * 3
    for cell in cells:
        share = r"[0-9.]+(\N{NO-BREAK SPACE}%| times slower)"
        assert re.search(rf'{share} <span class="interval">\[[0-9.]+, [0-9.]+\]</span>', cell), cell


def test_every_figure_is_there_without_javascript_too(page):
    figures = page.count("<figure>")
    # all comparisons, near and far; the means of each metric; where noise comes from
    assert figures == 2 + 2 + 1
    assert page.count('<div class="static"><svg') == figures


def test_the_script_of_the_figures_is_put_together_once(page, private_cache, monkeypatch):
    (kept,) = private_cache.iterdir()
    whole = kept.read_text(encoding="utf-8")
    assert "vegaEmbed" in whole
    kept.write_text("window.vegaEmbed = null;", encoding="utf-8")
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda *_, **__: "made anew")
    assert vega.javascript() == "window.vegaEmbed = null;"
    for damage in (kept.unlink, lambda: kept.write_text("")):
        damage()
        assert vega.javascript() == kept.read_text(encoding="utf-8") == "made anew"
    kept.write_text(whole, encoding="utf-8")


def test_a_home_that_cannot_be_written_costs_only_time(tmp_path, monkeypatch, use_home):
    (tmp_path / "file").write_text("")
    use_home(tmp_path / "file")
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda *_, **__: "made anew")
    assert vega.javascript() == "made anew"


def test_text_from_guests_cannot_become_markup(store):
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    run = begin(store, "evil-1", declared={**DECLARED, "title": evil, "question": evil})
    fill(run, blocks=1, trials=1, warmup=0)
    run.add_warning(quoted(evil), "c-native")
    guest = run.begin_guest("native", 0, "", 1.0)
    run.end_guest(
        guest, ready_s=1.0, clock_offset_s=0.0, facts={evil: evil}, notes=[evil], error=evil
    )
    found = page_of(analyse(store, "evil-1"))
    assert "<img src=x" not in found
    assert "<script>alert" not in found
    store.remove_runs("evil-1")


def test_with_too_many_blocks_for_dots_quartiles_are_drawn(analysis, monkeypatch):
    assert not row_figures.has_too_many_dots(means(analysis))
    monkeypatch.setattr(row_figures, "MAX_DOTS", 5)
    assert row_figures.has_too_many_dots(means(analysis))
    spec = spec_of(means(analysis), Formatter())
    fields = {layer["encoding"]["x"]["field"] for layer in spec["layer"]}
    assert {"minimum", "lower"} <= fields
    assert "circle" not in {layer["mark"]["type"] for layer in spec["layer"]}


def arrows(spec: Spec) -> set[tuple[str, str]]:
    """(platform, arrow) of every mark at an end of the axis that says that something lies beyond it."""
    return {
        (value["platform"], value["text"])
        for layer in spec["layer"]
        for value in layer["data"]["values"]
        if layer["mark"]["type"] == "text" and value["text"] in ("◀", "▶")
    }


def wide(store: Store, name: str, lxc: list[float]) -> Analysis:
    """A run in which native and docker make 100 in every block, and lxc what is given."""

    def measured(cell: CellRecord, block: int, number: int) -> dict[str, Any] | None:
        means = {"native": 100.0 + block / 10, "docker": 100.1 + block / 10, "lxc": lxc[block]}
        if cell.benchmark != "sysbench-cpu" or cell.platform not in means:
            return None
        return {"values": {"events": means[cell.platform], "latency": 1.0}}

    return a_run(name).blocks(len(lxc)).trials(measured).analysed(store)


def test_what_lies_outside_an_axis_is_marked_and_the_caption_says_so(store):
    analysis = wide(store, "wide-1", [40.0, 210.0, 45.0, 190.0])
    assert arrows(ratios(analysis)) == set()
    assert ("lxc", "◀") in arrows(spec_of(means(analysis), Formatter()))
    page = page_of(analysis)
    assert page.count("An arrow (◀ ▶) marks what lies outside the axis.") == 1
    svg = re.findall(r'<div class="static">(<svg.*?</svg>)', page, re.S)
    # means, ratios, and a tool without a trial
    assert ["◀" in each for each in svg] == [True, False, False]
    store.remove_runs("wide-1")


def test_a_figure_that_shows_everything_has_no_arrow(store):
    analysis = wide(store, "narrow-1", [101.0, 101.2, 101.1, 101.3])
    assert arrows(ratios(analysis)) == arrows(spec_of(means(analysis), Formatter())) == set()
    assert "marks what lies outside" not in page_of(analysis)
    store.remove_runs("narrow-1")


def test_the_csv_has_a_row_for_every_value_and_every_failed_trial(store, tmp_path):
    write(store, "tour-1", "csv", tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    trials = 8 * 12 * 3
    assert len(rows) == trials + 8 * 4 * 3  # sysbench has two metrics
    (failed,) = [row for row in rows if row["status"] == "failed"]
    assert (
        failed["platform"],
        failed["factor_direction"],
        failed["block"],
        failed["value"],
        failed["error"],
    ) == (
        "qemu-tcg",
        "receive",
        "4",
        "",
        FAILED,
    )
    assert sum(row["is_warmup"] == "true" for row in rows) == len(rows) // 3
    assert [int(row["position"]) for row in rows] == sorted(int(row["position"]) for row in rows)
    assert {row["unit"] for row in rows if row["metric"] == "throughput"} == {"Mbit/s"}


def test_the_csv_says_what_was_in_force_without_the_samples(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        run = begin(opened)
        in_force = {"mss": 1448, "samples": {"throughput": [1.0, 2.0]}}
        for number, used in enumerate((in_force, in_force, {"mss": 536})):
            run.add_trial(trial(run.cells[0], number=number, position=number, effective=used))
        write(opened, "tour-1", "csv", tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        printed = [row["effective"] for row in csv.DictReader(file)]
    assert printed == ['{"mss": 1448}', '{"mss": 1448}', '{"mss": 536}']


def test_parquet_holds_the_same_as_csv(store, tmp_path):
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    for name in ("csv", "parquet"):
        write(store, "tour-1", name, tmp_path / f"run.{name}")
    one = arrow_csv.read_csv(tmp_path / "run.csv")
    two = parquet.read_table(tmp_path / "run.parquet")
    assert one.column_names == two.column_names
    assert one["value"].to_pylist() == two["value"].to_pylist()
    assert one["platform"].to_pylist() == two["platform"].to_pylist()
    assert str(two.schema.field("started").type) == "timestamp[ms, tz=UTC]"
    first = two["started"][0].as_py().isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert (tmp_path / "run.csv").read_text().count(first) >= 1


def test_a_file_is_replaced_whole_or_not_at_all(store, tmp_path, monkeypatch, golden):
    path = tmp_path / "run.csv"
    path.write_text("yesterday")

    def full(table: object, new: Path) -> None:
        new.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vtax.report.measurements._write_csv", full)
    with pytest.raises(StoreError) as caught:
        write(store, "tour-1", "csv", path)
    golden(str(caught.value))
    assert path.read_text() == "yesterday"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_said(store, tmp_path):
    with pytest.raises(BadInput, match="cannot be written"):
        write(store, "tour-1", "json", tmp_path / "nowhere" / "run.json")


def test_an_unknown_run_makes_no_file(store, tmp_path):
    with pytest.raises(BadInput):
        write(store, "nothing-1", "csv", tmp_path / "run.csv")
    assert list(tmp_path.iterdir()) == []


def test_the_commands_to_make_a_run_again_are_those_of_a_checkout(analysis, page):
    printed = commands(analysis)
    checkout = Path(__file__).resolve().parents[2]
    assert analysis.vtax_version in printed[0]
    assert "--install-only" in (checkout / "quickstart").read_text()
    assert printed[1:3] == ("sudo ./quickstart --install-only", "sudo .venv/bin/vtax image build")
    assert printed[3] == f"sudo .venv/bin/vtax run {analysis.study}.toml --seed {analysis.seed}"
    assert all(line in page for line in printed)
