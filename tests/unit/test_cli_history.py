"""`vtax history STUDY`: a metric over runs. Figures here are invented."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from a_run import DECLARED, PLATFORMS, begin, cells, trial
from command_line import output_of
from shown import drawn, english

from vtax.errors import BadInput
from vtax.report.answers.history.compute import FEWEST, History, history
from vtax.report.answers.history.show import document_of
from vtax.report.document import Chart
from vtax.report.renderers.figures import file_of, spec_of
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.html import html
from vtax.report.renderers.language import ENGLISH, language
from vtax.report.renderers.vega import static_svg
from vtax.stats.change_points import ChangePoint, change_points_of
from vtax.stats.checks import Values
from vtax.store.store import Store

pytestmark = pytest.mark.slow

DAY = 86_400.0
ON_A_PHONE_PX = 361  # of a window of 390 px, less the padding of the page
START = 1_700_000_000.0
RUNS, SLOWER_FROM, DOCKER = 12, 7, 0.90
HOST = {"machine_id": "0f" * 16, "kernel": "6.1.0-1", "cpu_microcode": "0x1", "cpus": 2}


def add(
    store: Store,
    number: int,
    docker: float,
    *,
    host: dict[str, Any] = HOST,
    study: str = "tour",
    **changes: Any,
) -> None:
    """A run of one metric, `docker` times native, with a noise of 1 % from run to run and of 0.3 % in it."""
    random = np.random.default_rng(number)
    status = changes.pop("status", "finished")
    duration_s = changes.pop("duration_s", 1.0)
    chosen = [
        replace(cell, parameters={"duration_s": duration_s})
        for cell in cells()
        if cell.benchmark == "sysbench-cpu" and cell.platform in ("native", "docker")
    ]
    platforms = [p for p in PLATFORMS if p.name in ("native", "docker")]
    run = begin(
        store,
        f"{study}-{number}",
        study=study,
        cells=chosen,
        platforms=platforms,
        host=host,
        started_at=START + number * DAY,
        **changes,
    )
    of_run = random.normal(0, 0.01)
    for block in range(5):
        for cell in run.cells:
            log = random.normal(0, 0.003) + (
                np.log(docker) + of_run if cell.platform == "docker" else 0.0
            )
            values = {"events": 1000 * float(np.exp(log))}
            run.add_trial(trial(cell, block=block, position=run.next_position(), values=values))
    run.finish(status, "", START + number * DAY + 60)


@pytest.fixture(scope="module", autouse=True)
def store(module_store: Store) -> Store:
    """tour: docker loses 10 % with the microcode of tour-7; its last run is not finished. alone: of one run.
    mixed: two of its runs measure longer."""
    for number in range(RUNS):
        is_slower = number >= SLOWER_FROM
        host = {**HOST, "cpu_microcode": "0x2"} if is_slower else HOST
        add(module_store, number, DOCKER if is_slower else 1.0, host=host)
    add(module_store, RUNS, 1.0, status="interrupted")
    add(module_store, 1, 1.0, study="alone")
    for number in range(4):
        add(
            module_store,
            number,
            1.0,
            study="mixed",
            duration_s=1.0 if number < 2 else 10.0,
            declared={**DECLARED, "guest": {"vcpus": 1}},
        )
    return module_store


@pytest.fixture(scope="module")
def tour(store: Store) -> History:
    return history(store, "tour")


def test_finished_runs_are_in_the_order_of_time_with_their_own_intervals(tour, store):
    assert [run.name for run in tour.runs] == [f"tour-{number}" for number in range(RUNS)]
    assert tour.unfinished == (f"tour-{RUNS}",)
    (plot,) = tour.plots
    (series,) = plot.series
    assert series.platform.name == "docker"
    for number, each in enumerate(series.measured):
        assert each.low is not None
        assert each.high is not None
        assert each.low < each.value < each.high
        assert each.value == pytest.approx(DOCKER if number >= SLOWER_FROM else 1.0, rel=0.05)


def test_a_change_point_names_its_runs_its_size_and_what_else_changed(tour):
    (change,) = tour.plots[0].series[0].changes
    assert change.index == SLOWER_FROM
    assert change.p_value <= 0.05
    assert change.after / change.before == pytest.approx(DOCKER, rel=0.02)
    (difference,) = change.differences
    assert (difference.data["treatment"], difference.data["baseline"]) == ("0x1", "0x2")
    text = " ".join(drawn(document_of(tour)).split())
    assert "changed with tour-7 from" in text
    assert "hosts differ in CPU microcode: 0x1 and" in text


def test_means_have_the_baseline_too_which_did_not_change(store):
    found = history(store, "tour", quantity="mean")
    changes = {series.platform.name: series.changes for series in found.plots[0].series}
    assert changes["native"] == ()
    assert [change.index for change in changes["docker"]] == [SLOWER_FROM]
    assert found.tested == 2


def test_a_change_point_that_runs_alike_could_make_says_so(tour, store, monkeypatch):
    assert "though nothing changed" not in " ".join(drawn(document_of(tour)).split())

    def unsure(series: list[Values], level: float) -> list[tuple[ChangePoint, ...]]:
        return [
            tuple(replace(point, is_sure=False) for point in points)
            for points in change_points_of(series, level)
        ]

    monkeypatch.setattr("vtax.report.answers.history.compute.change_points_of", unsure)
    document = document_of(history(store, "tour"))
    points = [
        point
        for plot in document.data["plots"]
        for series in plot.series
        for point in series.changes
    ]
    assert points
    assert {note.code for point in points for note in point.warnings} == {
        "assumes-independent-runs"
    }
    assert "though nothing changed" in " ".join(drawn(document).split())


def test_before_the_change_there_is_none(store):
    found = history(store, "tour", since=START + 3.5 * DAY)
    assert len(found.runs) == RUNS - 4 == FEWEST
    assert found.runs[0].name == "tour-4"
    few = history(store, "tour", since=START + 7.5 * DAY)
    assert few.tested == 0
    assert not any(series.changes for plot in few.plots for series in plot.series)
    assert f"No series has {FEWEST} runs" in drawn(document_of(few))


@pytest.fixture
def zone(in_zone) -> None:
    """A host three hours behind UTC."""
    in_zone("<-03>3")


def spaced(found: History, count: int, step_s: float) -> Chart | None:
    """The chart of the first `count` runs, `step_s` seconds apart from 2026-11-23 01:30 UTC; None for none."""
    runs = [
        replace(run, started_at=1_795_397_400.0 + n * step_s)
        for n, run in enumerate(found.runs[:count])
    ]
    (plot,) = found.plots
    (series,) = plot.series
    measured = tuple(
        replace(each, run=run) for each, run in zip(series.measured, runs, strict=False)
    )
    plot = replace(plot, series=(replace(series, changes=(), measured=measured),))
    charts = list(document_of(replace(found, runs=tuple(runs), plots=(plot,))).figures())
    return charts[0] if charts else None


def labels_of(chart: Chart, code: str) -> list[str]:
    """The labels that the horizontal axis of a chart can show."""
    spec = json.dumps(spec_of(chart, Formatter(language(code))), ensure_ascii=False)
    (texts,) = set(re.findall(r'"labelExpr": "\((\[.*?\])\)\[indexof', spec))
    return list(json.loads(texts.replace('\\"', '"')))


@pytest.mark.usefixtures("zone")
def test_the_axis_names_every_run_or_day_once_in_the_language_and_zone_of_the_table(tour):
    assert spaced(tour, 1, 0) is None
    two = spaced(tour, 2, 20.0)
    assert two is not None
    assert labels_of(two, "en") == ["2026-11-22 22:30"], "20 s apart: no label twice"
    hours = spaced(tour, 3, 1800.0)
    assert hours is not None
    assert labels_of(hours, "pt-BR") == [f"22/11/2026 {at}" for at in ("22:30", "23:00", "23:30")]
    days = spaced(tour, RUNS, DAY / 2)
    assert days is not None
    assert labels_of(days, "pt-BR") == [f"{day}/11/2026" for day in range(22, 29)]
    assert labels_of(days, "en")[:2] == ["2026-11-22", "2026-11-23"]


@pytest.mark.usefixtures("zone")
def test_every_label_of_the_axis_is_drawn_whatever_fraction_of_a_second_a_run_began_at(tour):
    chart = spaced(tour, 4, DAY + 19597.132519 / 3)
    assert chart is not None
    svg = static_svg(spec_of(chart, Formatter(ENGLISH)), "wide")
    assert re.findall(r">(2026-11-\d\d)<", svg) == labels_of(chart, "en")


def test_on_a_phone_the_text_of_the_chart_keeps_its_size(tour):
    chart = spaced(tour, RUNS, DAY)
    assert chart is not None
    svg = static_svg(spec_of(chart, Formatter(ENGLISH), is_stacked=True), "narrow")
    box = re.search(r'viewBox="0 0 ([\d.]+) ', svg)
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)', svg)]
    assert min(sizes) * ON_A_PHONE_PX / float(box[1]) >= 10


def test_runs_that_measure_something_else_are_apart(store):
    found = history(store, "mixed")
    newest, older = found.plots
    assert [each.run.name for each in newest.series[0].measured] == ["mixed-2", "mixed-3"]
    assert [each.run.name for each in older.series[0].measured] == ["mixed-0", "mixed-1"]
    assert newest.differences == ()
    assert [english(each) for each in older.differences] == [
        "sysbench-cpu: duration 1\xa0s against 10\xa0s"
    ]
    assert "Apart from the newest runs" in drawn(document_of(found))


def test_a_key_that_only_a_newer_version_records_does_not_part_runs(store):
    for number, guest in ((1, {"vcpus": 1}), (2, {"vcpus": 1, "memory": 1 << 30})):
        add(store, number, 1.0, study="newer", declared={**DECLARED, "guest": guest})
    assert len(history(store, "newer").plots) == 1


def test_the_chart_shows_every_run_and_the_change(tour):
    document = document_of(tour)
    (chart,) = document.figures()
    assert len(chart.values) == RUNS
    (event,) = chart.events
    assert START + 6 * DAY < event.x < START + 7 * DAY
    spec = json.dumps(spec_of(chart, Formatter(ENGLISH)))
    assert '"strokeDash": [5, 3]' in spec
    assert b"docker" in file_of(chart, Formatter(ENGLISH), "svg")
    page = html(document, ENGLISH)
    assert page.count("<figure") == 1
    assert "History of tour" in page


def test_json_has_runs_values_and_change_points():
    found = json.loads(output_of("history", "tour", "--json"))
    assert found["schema"] == "vtax.history/1"
    assert found["runs"][0]["started_at"].endswith("Z")
    ((series,),) = [plot["series"] for plot in found["plots"]]
    assert [each["run"] for each in series["values"]] == [
        f"tour-{number}" for number in range(RUNS)
    ]
    (change,) = series["change_points"]
    assert (change["last"], change["first"]) == ("tour-6", "tour-7")
    assert change["differences"] == ["hosts differ in CPU microcode: 0x1 and 0x2"]


def test_without_a_study_those_with_runs_are_listed():
    rows = [line.split() for line in output_of("history").splitlines()]
    assert [
        "tour",
        str(RUNS),
        time.strftime("%Y-%m-%d", time.localtime(START + RUNS * DAY)),
    ] in rows
    assert {"alone", "mixed"} < {row[0] for row in rows if row}
    plain = {each["name"]: each for each in json.loads(output_of("history", "--json"))}
    assert (plain["tour"]["runs"], plain["tour"]["finished"]) == (RUNS + 1, RUNS)


def test_output_writes_a_page(tmp_path):
    path = tmp_path / "tour.html"
    assert str(path) in output_of("history", "tour", "-o", str(path))
    assert "History of tour" in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"study": "tuor"}, "no run of a study 'tuor' is stored"),
        ({"study": "tour", "metric": "event"}, "tour has no metric 'event'"),
        ({"study": "tour", "platforms": ("dokcer",)}, "tour has no platform 'dokcer'"),
        ({"study": "tour", "since": START + 99 * DAY}, "tour has no finished run since then"),
    ],
)
def test_what_does_not_exist_is_refused(store, arguments, expected):
    with pytest.raises(BadInput, match=expected):
        history(store, **arguments)
