"""Charts of what trials did inside: over time, by share of all requests, and over the load. Figures are invented."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest
from a_run import a_run

from vtax.benchmarks.base import INTERVAL_S
from vtax.benchmarks.histograms import from_counts, merge_histograms, percentile
from vtax.report.analysis.source import Source, source_of
from vtax.report.chapters import report
from vtax.report.document import Chart
from vtax.report.renderers.figures import id_of, spec_of
from vtax.report.renderers.format import Formatter, english
from vtax.store.records import HISTOGRAMS, SAMPLES, CellRecord, MetricRecord
from vtax.store.store import Store

pytestmark = pytest.mark.slow

SLOWER = {"native": 1.0, "docker": 1.1, "lxc": 1.02, "qemu-tcg": 25.0}
RATES = (1000, 2000, 4000)
METRICS = (
    MetricRecord("nginx", "requests", "requests answered per second", "requests/s", "higher", True),
    MetricRecord("nginx", "latency_p50", "time of one request, median", "ms", "lower"),
    MetricRecord("nginx", "latency_p99", "time of one request, 99th percentile", "ms", "lower"),
)


def made(
    directory: Path, *, blocks: int = 5, requests: int = 3000, rates: tuple[int, ...] = RATES
) -> Source:
    """A run of nginx at several rates: two trials a block, six intervals a trial, slower at a higher rate."""
    noise = random.Random(5)

    def trial(cell: CellRecord, block: int, number: int) -> dict[str, Any]:
        rate = cell.levels["rate"]
        scale = SLOWER[cell.platform] * (1 + rate / 2000) * noise.gauss(1, 0.03)
        times = [round(scale * noise.lognormvariate(0, 0.5), 2) for _ in range(requests)]
        counted = from_counts(Counter(times))
        found = {f"latency_p{p}": percentile(counted, p / 100) or 0.0 for p in (50, 99)}
        course = [rate / SLOWER[cell.platform] * noise.gauss(1, 0.02) for _ in range(6 + number)]
        return {
            "values": {"requests": sum(course) / len(course), **found},
            "effective": {
                HISTOGRAMS: {"latency": counted},
                SAMPLES: {"requests": course},
                INTERVAL_S: 0.5,
            },
        }

    store = Store.open(f"sqlite:///{directory / 'store.sqlite'}")
    run = a_run("within-1").benchmark("nginx", tool_version="1.26", levels={"rate": rates})
    run.metrics(METRICS).blocks(blocks, trials=2).trials(trial).stored(store)
    return source_of(store, "within-1")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return made(tmp_path_factory.mktemp("within"))


def chart(source: Source, key: str) -> Chart:
    return next(each for each in report(source).figures() if id_of(each) == key)


def line(chart: Chart, platform: str, panel: int = 0) -> dict[float, tuple[float, float, float]]:
    """x -> value and bounds of a platform."""
    names = [english(each.label) for each in chart.series]
    series = next(n for n, name in enumerate(names) if name.startswith(platform))
    return {round(v.x, 6): v.right for v in chart.values if (v.panel, v.series) == (panel, series)}  # type: ignore[misc]


def test_a_metric_over_time_is_the_mean_of_the_trials_and_ends_with_the_shortest(source):
    found = chart(source, "time-nginx-requests")
    assert [english(panel.title) for panel in found.panels] == [f"rate={rate}" for rate in RATES]
    native = line(found, "native")
    assert list(native) == [0.25, 0.75, 1.25, 1.75, 2.25, 2.75]  # six of six or seven
    trials, cells = source.data.trials, source.data.run.cells
    of_cell = [
        int(id_)
        for id_, cell in zip(trials.id, trials.cell, strict=True)
        if cells[cell].key == "native-1000"
    ]
    first = [source.samples[trial]["requests"][0] for trial in of_cell]
    value, low, high = native[0.25]
    assert value == pytest.approx(sum(first) / len(first))
    assert low < value < high


def test_trials_whose_intervals_have_no_known_length_have_no_line(source):
    without = {trial: json.dumps({}) for trial in source.effective}
    other = Source(source.data, source.analysis, source.store)
    other.__dict__["effective"] = without
    assert not [each for each in report(other).figures() if each.key.startswith("time")]


@pytest.mark.parametrize("largest", [1e302, 1e-300, 1e80])
def test_values_far_apart_are_drawn_on_a_linear_axis_with_what_is_finite(source, largest):
    lists = {
        trial: {"requests": [largest, 1.0, 1.0] if n == 0 else [1.0] * 3}
        for n, trial in enumerate(source.samples)
    }
    other = Source(source.data, source.analysis, source.store)
    other.__dict__["samples"] = lists
    found = chart(other, "time-nginx-requests")
    assert found.log == ()
    assert all(each.right is not None and math.isfinite(each.right[0]) for each in found.values)
    assert spec_of(found, Formatter())


def test_latencies_by_share_are_of_all_requests_of_a_block_as_far_as_ten_are_slower(source):
    found = chart(source, "latency-nginx")
    docker = line(found, "docker", panel=2)
    assert max(docker) == pytest.approx(10**2.7)  # 6000 requests of a block / 10
    data = source.data
    of_cell = [
        n for n, cell in enumerate(data.trials.cell) if data.run.cells[cell].key == "docker-4000"
    ]
    blocks = [
        merge_histograms(
            [
                data.histograms[int(data.trials.id[n])]["latency"]
                for n in of_cell
                if data.trials.block[n] == block
            ]
        )
        for block in range(5)
    ]
    p99 = [percentile(block, 0.99) or 0.0 for block in blocks]
    value, low, high = docker[100.0]
    assert value == pytest.approx(geometric_mean(p99))
    assert 0 < low < value < high
    assert "y" in found.log  # the emulated platform is 25 times slower


def test_latencies_over_the_load_are_percentiles_with_enough_requests(source, tmp_path):
    found = chart(source, "load-nginx-rate")
    assert [english(panel.title) for panel in found.panels] == [
        "time of one request, median",
        "time of one request, 99th percentile",
    ]
    assert list(line(found, "lxc", panel=1)) == [1000, 2000, 4000]
    few = made(tmp_path, blocks=2, requests=400)  # 800 a block; a 99th percentile needs 1000
    assert [english(panel.title) for panel in chart(few, "load-nginx-rate").panels] == [
        "time of one request, median"
    ]


def test_one_load_has_no_chart_over_loads_and_one_block_no_band(tmp_path):
    alone = made(tmp_path, blocks=1, requests=500, rates=(1000,))
    keys = [id_of(each) for each in report(alone).figures() if isinstance(each, Chart)]
    assert keys == ["time-nginx-requests", "latency-nginx"]
    assert {bounds[1:] for bounds in line(chart(alone, "latency-nginx"), "native").values()} == {
        (None, None)
    }


def test_bands_are_areas_along_lines_and_the_legend_is_not_pale(source):
    spec = spec_of(chart(source, "latency-nginx"), Formatter())
    (drawn,) = spec["vconcat"][0]["hconcat"]
    marks = [layer["mark"]["type"] for layer in drawn["layer"]]
    assert marks == ["area", "line", "point"]
    assert drawn["layer"][0]["encoding"]["color"]["legend"]["symbolOpacity"] == 1
    assert "99\N{NO-BREAK SPACE}%" in drawn["layer"][0]["encoding"]["x"]["axis"]["labelExpr"]
