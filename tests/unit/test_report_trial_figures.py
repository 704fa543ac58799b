"""Figures of a report: all comparisons, trials in order and by cell, shares of the variance. Values are invented."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from a_run import a_run, begin, platform, trial

from vtax.report.analysis import Analysis
from vtax.report.analysis.host_load import load_of, minutes_of
from vtax.report.analysis.source import Source, source_of
from vtax.report.answers.variance.view import shares_figure
from vtax.report.document import FigureGroup, FigureRow, RowFigure, Warning
from vtax.report.parts import figures, shared
from vtax.report.renderers import vega
from vtax.report.renderers.axes import Spec
from vtax.report.renderers.figures import caption_of, spec_of
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.language import language
from vtax.report.views.base import Options
from vtax.report.views.registry import views
from vtax.store.query import Trials
from vtax.store.store import Store

ENGLISH = Formatter()
PORTUGUESE = Formatter(language("pt-BR"))


@pytest.fixture(scope="module")
def source(tour_file: Path) -> Source:
    with Store.open(tour_file) as store:
        return source_of(store)


def trials(values: list[float], blocks: list[int] | None = None, name: str = "lxc") -> FigureRow:
    places = tuple(range(len(values)))
    minutes = tuple(map(float, places))
    return FigureRow(
        name, 1, (0.0, None, None), tuple(blocks or places), tuple(values), minutes=minutes
    )


def figure(kind: Any, *rows: FigureRow, **more: Any) -> RowFigure:
    return RowFigure(
        kind,
        "key",
        "title",
        ("caption",),
        "axis",
        (FigureGroup("", rows),),
        "value",
        "interval",
        **more,
    )


def drawn_values(spec: Spec, mark: str) -> list[dict[str, Any]]:
    return [
        value
        for each in spec["layer"]
        if each["mark"]["type"] == mark
        for value in each["data"]["values"]
    ]


def tick_labels(spec: Spec) -> list[str]:
    return re.findall(r"<(?:text|tspan)[^>]*>([^<]+)</(?:text|tspan)>", vega.static_svg(spec, "f"))


def test_the_figure_of_all_comparisons_has_each_of_them_and_no_other(source):
    analysis = source.analysis
    (section,) = figures.forest(analysis)
    near, *far = section.parts  # type: ignore[union-attr]
    assert all(isinstance(drawn, RowFigure) for drawn in (near, *far))
    rows = [row for drawn in (near, *far) for row in drawn.rows]
    every = [row for s in analysis.primary for p in s.points for row in p.rows if row.ratio]
    compared = sorted(every, key=lambda row: abs(row.ratio.mean_log) > math.log(figures.FAR))
    assert [row.label for row in rows] == [shared.platform_of(row.platform) for row in compared]
    lower = [s for s in analysis.primary if s.better == "lower"]
    for row, there in zip(rows, compared, strict=True):
        is_lower = any(there in p.rows for s in lower for p in s.points)
        assert row.shown[0] == pytest.approx(
            1 / there.ratio.estimate if is_lower else there.ratio.estimate
        )
    shapes = {
        "slower": "triangle-down",
        "faster": "triangle-up",
        "equivalent": "square",
        "undecided": "diamond",
    }
    words = {row.shown[0]: there.verdict.kind for row, there in zip(rows, compared, strict=True)}
    specs = [spec_of(drawn, Formatter()) for drawn in (near, *far)]
    cells = [cell for spec in specs for cell in drawn_values(spec, "rule") if "ink" in cell]
    assert len(cells) == len(rows)
    for cell in cells:
        word = words[cell["mean"]]
        assert (cell["ink"], cell["shape"]) == (f"@{word}", shapes[word])
    groups = [group for drawn in (near, *far) for group in drawn.groups]
    headings = {ENGLISH.text(group.title) for group in groups}
    assert {"direction=send", "direction=receive"} <= headings


def far_run(slow: float) -> Analysis:
    """Two platforms on two benchmarks, of which one is so many times slower on one of them."""

    def value(cell: Any, block: int, number: int) -> float:
        noise = 1 + 0.01 * math.sin(7 * block + number)
        is_slow = cell.platform == "second" and cell.label == "two"
        return noise / (slow if is_slow else 1)

    made = a_run().platforms(*map(platform, ("native", "first", "second")))
    made = made.benchmark("sysbench-cpu", "one").metric("events_per_s", "events/s")
    made = made.benchmark("sysbench-cpu", "two")
    return made.blocks(6).values(value).analysis()


def test_what_lies_far_has_a_figure_of_its_own_and_every_row_its_number():
    analysis = far_run(slow=8.0)
    (section,) = figures.forest(analysis)
    near, far = section.parts  # type: ignore[union-attr]
    assert [len(drawn.rows) for drawn in (near, far)] == [3, 1]
    assert "beyond a factor of 1.5" in ENGLISH.text(far.title)
    spec = spec_of(near, Formatter())
    low, high = next(
        each["encoding"]["x"]["scale"]["domain"]
        for each in spec["layer"]
        if "x" in each["encoding"]
    )
    assert 0.9 < low < 1 < high < 1.1
    assert "8.0 times slower" in tick_labels(spec_of(far, Formatter()))
    for section_of in analysis.primary:
        kinds = [f.key for f in figures.figures_of(section_of, analysis) if f.kind == "ratios"]
        assert len(kinds) == (2 if section_of.label == "two" else 1)


def test_where_nothing_lies_far_there_is_one_figure():
    (section,) = figures.forest(far_run(slow=1.2))
    assert len(section.parts) == 1  # type: ignore[union-attr]


def test_too_many_comparisons_are_no_figure_and_each_metric_has_its_own(source, monkeypatch):
    monkeypatch.setattr(figures, "MOST_ROWS", 3)
    assert list(figures.forest(source.analysis)) == []
    section = source.analysis.primary[0]
    kinds = [part.kind for part in figures.figures_of(section, source.analysis)]  # type: ignore[union-attr]
    assert "ratios" in kinds


def test_trials_are_drawn_when_they_began_as_deviations_from_their_cell(source):
    analysis, trials = source.analysis, source.data.trials
    section = next(s for s in analysis.primary if len(s.points) == 2)
    (found,) = figures.order(source)
    assert [group.title for group in found.groups] == [shared.title_of(s) for s in analysis.primary]
    row = found.groups[analysis.primary.index(section)].rows[0]
    own = [r for p in section.points for r in p.rows if shared.platform_of(r.platform) == row.label]
    expected = sorted(
        (int(at), float(v / np.median(r.trial_values) - 1))
        for r in own
        for at, v in zip(r.trial_positions, r.trial_values, strict=True)
    )
    began = dict(zip(trials.position.tolist(), trials.started_at.tolist(), strict=True))
    first = min(began.values())
    assert list(row.minutes) == pytest.approx([(began[at] - first) / 60 for at, _ in expected])
    assert list(row.values) == pytest.approx([value for _, value in expected])
    stored = dict(zip(trials.position.tolist(), trials.block.tolist(), strict=True))
    assert [stored[at] for at, _ in expected] == list(row.blocks)
    assert len(found.borders) == len(set(stored.values()) - {-1, 0})


def test_a_pause_is_no_time_of_the_run():
    def at(position: int) -> tuple[float, int]:
        return (1000.0 + position, 1) if position < 2 else (9e6 + position, 2)

    began = np.array([at(position)[0] for position in range(4)])
    session = np.array([at(position)[1] for position in range(4)])
    numbers = np.arange(4)
    is_so = np.zeros(4, bool)
    lasted = np.full(4, 0.5)
    trials = Trials(
        numbers, numbers, numbers, numbers, numbers, is_so, ~is_so, began, lasted, lasted, session
    )
    assert (minutes_of(trials) * 60).tolist() == pytest.approx([0, 1, 1.5, 2.5])


def test_every_trial_stays_in_its_lane_and_an_outlying_one_is_a_sign_at_its_end():
    values = [0.01, -0.01] * 20 + [0.5]
    lanes = (
        FigureGroup("loud", (trials(values),)),
        FigureGroup("quiet", (trials([0.2, -0.1, 0.0], name="docker"),)),
    )
    load = FigureRow("CPU of other programs", 0, None, values=(0.0, 0.5), minutes=(0.0, 40.0))
    made = replace(figure("order"), groups=lanes, loads=(load,), borders=(20.0,))
    spec = spec_of(made, ENGLISH)
    dots = drawn_values(spec, "point")
    assert len(dots) == 40 + 3
    assert all(abs(dot["y"]) <= 1 for dot in dots if dot["platform"] == "lxc")
    assert all(-4 <= dot["y"] <= -2 for dot in dots if dot["platform"] == "docker")
    ((sign,),) = ([each for each in drawn_values(spec, "text") if "sign" in each],)
    assert (sign["sign"], sign["y"], sign["x"]) == ("▲", 1, 40)
    loads = [(each["x"], each["low"], each["high"]) for each in drawn_values(spec, "area")]
    assert loads == [(0.0, -7, -7.0), (40.0, -7, -5.0)]
    assert {"x": 20.0} in drawn_values(spec, "rule")
    caption = caption_of(made, spec, ENGLISH)
    assert "(▲ ▼) marks what lies outside the axis" in caption
    labels = [text.replace("\xa0", " ") for text in tick_labels(spec)]
    assert {"loud", "+2.0 %", "−2.0 %", "quiet", "+20 %", "−20 %", "50 %"} <= set(labels)
    assert {"lxc", "docker"} <= set(labels)


def test_more_trials_than_one_can_see_apart_are_a_band():
    random = np.random.default_rng(1)
    many = trials(random.normal(0, 0.01, 5000).tolist(), (np.arange(5000) // 10).tolist())
    spec = spec_of(made := figure("order", many), ENGLISH)
    assert drawn_values(spec, "point") == []
    assert drawn_values(spec, "area")
    assert len(json.dumps(spec)) < 25_000
    assert "The band has nine in ten trials." in caption_of(made, spec, ENGLISH)


def test_a_session_is_marked_where_it_begins(source):
    (first,) = source.analysis.sessions
    later = replace(first, number=2, blocks=(4, 5, 6, 7))
    changed = replace(source.analysis, sessions=(replace(first, blocks=(0, 1, 2, 3)), later))
    (found,) = figures.order(Source(source.data, changed, source.store))
    trials = source.data.trials
    minutes = minutes_of(trials)
    begins = float(minutes[trials.block == 4].min())
    assert [(at, ENGLISH.text(text)) for at, text in found.marks] == [(begins, "session 2")]
    assert "session 2" in tick_labels(spec_of(found, ENGLISH))


@pytest.mark.parametrize("code", ["", "host-busy", "drift", "few-trials"])
def test_the_order_of_execution_is_open_where_something_changes_while_a_run_goes_on(source, code):
    warnings = (Warning(code, "warning", {}),) if code else ()
    changed = Source(source.data, replace(source.analysis, warnings=warnings), source.store)
    document = views()["result"].document(changed, Options("report"))
    (results,) = [part for part in document.parts if part.key == "results"]
    (section,) = [part for part in results.parts if part.key == "order"]
    assert section.is_folded == (code not in ("host-busy", "drift"))


def test_the_load_of_a_host_is_what_no_guest_of_the_run_used(tmp_path):
    def counters(busy_s: float) -> dict[tuple[str, str], float]:
        host = {"cpu_user_s": busy_s, "cpu_system_s": 0.1, "cpu_steal_s": 0.2, "cpu_idle_s": 1.0}
        counted = {("host", name): value for name, value in host.items()}
        return {**counted, ("guest", "cpu_user_s"): 9.0, ("layer", "host_cpu_s"): 0.4}

    with Store.open(tmp_path / "runs.sqlite") as store:
        run = begin(store, "load-1")
        cell = next(cell for cell in run.cells if cell.benchmark == "sysbench-cpu")
        for position, busy_s in enumerate((0.3, 1.3)):
            run.add_trial(
                trial(
                    cell,
                    number=position,
                    position=position,
                    started_at=1_700_000_000.0 + 60 * position,
                    values={"events": 1.0, "latency": 1.0},
                    counters=counters(busy_s),
                )
            )
        run.finish("finished", "", 1.0)
        load = load_of(source_of(store, "load-1"))
    assert load is not None
    assert load.others.tolist() == pytest.approx([0.0, 1.0 / 2.6])
    assert load.steal.tolist() == pytest.approx([0.2 / 1.6, 0.2 / 2.6])


def test_shares_of_the_variance_fill_a_bar_and_are_those_of_the_table(source):
    document = views()["variance"].document(source, Options("report"))
    (drawn,) = document.figures()
    spec = spec_of(drawn, ENGLISH)
    bars: dict[str, list[dict[str, Any]]] = {}
    for each in drawn_values(spec, "bar"):
        bars.setdefault(each["row"], []).append(each)
    known = [
        (entry.between_blocks, entry.between_trials)
        for entry in document.data
        if entry.between_trials is not None
    ]
    assert [tuple(p["to"] - p["from"] for p in parts) for parts in bars.values()] == [
        pytest.approx(each) for each in known
    ]
    assert all(parts[-1]["to"] == pytest.approx(1) for parts in bars.values())
    assert not list(shares_figure((), source.analysis))


def test_axes_have_the_numbers_of_the_language():
    rows = (trials([0.004, -0.004, 0.002, -0.001]),)
    portuguese, english = (
        {
            text.replace("\xa0", " ")
            for text in tick_labels(spec_of(figure("order", *rows), formatter))
        }
        for formatter in (PORTUGUESE, ENGLISH)
    )
    assert {"−0,40 %", "+0,40 %"} <= portuguese
    assert {"−0.40 %", "+0.40 %"} <= english
    large = FigureRow("lxc", 1, (40_000.0, 39_000.0, 41_000.0), (0,), (40_000.0,))
    for formatter in (PORTUGUESE, ENGLISH):
        assert "40\N{NARROW NO-BREAK SPACE}000" in tick_labels(
            spec_of(figure("values", large), formatter)
        )
    near = FigureRow("lxc", 1, (1.01, 0.99, 1.03))
    ratios = {
        *tick_labels(spec_of(figure("ratios", near, margin=0.02, baseline="native"), PORTUGUESE))
    }
    assert "102\N{NARROW NO-BREAK SPACE}%" in ratios
    assert not any(re.search(r"\d\.\d", text) for text in ratios)


def test_a_platform_keeps_its_mark_in_every_figure(source):
    section = source.analysis.primary[0]
    labels: dict[str, list[str]] = {}
    for made in figures.figures_of(section, source.analysis):
        labels.setdefault(made.kind, []).extend(tick_labels(spec_of(made, ENGLISH)))
    for kind, texts in labels.items():
        assert "(emulated)" in texts, kind


def test_a_chart_of_a_publication_has_the_numbers_of_the_language():
    from vtax.report.document import Chart, ChartPanel, ChartSeries, ChartValue
    from vtax.report.renderers.figures import file_of

    values = tuple(
        ChartValue(0, x, 0, left=(y, None, None), right=(y, y - 0.1, y + 0.1))
        for x, y in ((0.5, 0.5), (1.0, 1.5))
    )
    chart = Chart(
        "lines",
        "figure-1",
        "title",
        (),
        (ChartPanel("", "value", "left", "right"),),
        (ChartSeries("lxc", 1),),
        values,
        "level",
        ((0.5, "half"), (1.0, "one")),
    )
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", file_of(chart, PORTUGUESE, "svg").decode())
    assert {"half", "one"} <= set(texts)
    assert any(re.fullmatch(r"\d,\d", text) for text in texts)
    assert not any(re.fullmatch(r"\d\.\d", text) for text in texts)


def test_a_block_without_a_ratio_has_no_dot():
    def value(cell: Any, block: int, number: int) -> float:
        return 0.0 if (cell.platform, block) == ("first", 2) else 1 + 0.01 * block

    made = a_run().platforms(*map(platform, ("native", "first"))).benchmark("sysbench-cpu")
    analysis = made.metric("events_per_s", "events/s").blocks(6).values(value).analysis()
    figure = figures.ratios(analysis.primary[0], analysis)
    assert [len(row.values) for row in figure.rows] == [5]
    assert "NaN" not in vega.spec_text(spec_of(figure, Formatter()))
