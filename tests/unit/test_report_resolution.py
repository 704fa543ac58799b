"""How finely a tool tells its figures: stored with every trial, and what tables make of it."""

from dataclasses import replace

import numpy as np
import pytest
from a_run import begin, kinds, trial

from vtax.benchmarks.base import Context, Metric, Outcome, Parameters, merged_resolutions
from vtax.benchmarks.printed import Printed, printed
from vtax.cli.progress import figure_text
from vtax.report import document as doc
from vtax.report.analysis import analyse_data
from vtax.report.renderers.format import english
from vtax.runner.parsers import Parsers
from vtax.store.query import load
from vtax.store.records import RESOLUTIONS, CellRecord, MetricRecord, PlatformRecord
from vtax.store.store import Store


def with_steps(data, share):
    """The same run of a tool that tells this share of each figure, of the platform `first` alone."""
    metric = data.run.metrics[data.measurements.metric[0]].name
    steps = {
        int(data.trials.id[at]): {metric: [share * abs(value)]}
        for at, value in zip(data.measurements.trial, data.measurements.value, strict=True)
        if data.run.cells[data.trials.cell[at]].platform == "first"
    }
    return replace(data, resolutions=steps)


def test_platforms_that_differ_by_less_than_a_step_are_not_equivalent(alike):
    found = analyse_data(with_steps(alike, 0.04))
    assert {key: kind for key, kind in kinds(found).items() if kind != "equivalent"} == {
        ("first", 64): "undecided",
        ("first", 1500): "undecided",
    }
    assert {"withheld-resolution", "coarse-figures"} <= {w.code for w in found.warnings}
    assert set(kinds(analyse_data(with_steps(alike, 0.004))).values()) == {"equivalent"}


def test_intervals_of_ratio_and_mean_reach_a_step_to_each_side(alike):
    found = analyse_data(with_steps(alike, 0.04))
    rows = [row for s in found.sections for p in s.points for row in p.rows]
    for row in rows:
        if row.platform.name == "first" and row.ratio is not None:
            assert row.ratio.low <= 0.97 * row.ratio.estimate
            assert row.summary.low <= 0.961 * row.summary.mean
            assert row.step == pytest.approx(0.04 * row.summary.mean, rel=0.01)


@pytest.mark.parametrize(
    ("mean", "half", "step", "text"),
    [
        (0.02, 0.01, 0.01, "20 ±10 µs"),
        (0.02, 0.0123, 0.01, "20 ±12 µs"),
        (0.02, float("inf"), 0.01, "20 µs"),
        (0.02, 0.0001, 0.0, "20.00 ±0.10 µs"),
    ],
)
def test_no_digit_below_the_step_is_shown(mean, half, step, text):
    cell = doc.Mean(mean, half, doc.Scale("µs", 0.001), "both", step)
    assert english(cell).replace("\N{NO-BREAK SPACE}", " ") == text


class Coarse:
    """A benchmark whose metrics are known as declared, as printed and as the outcome says."""

    name = tool = "coarse"
    work = None
    needs_network = False
    Parameters = Parameters
    metrics = (
        Metric("declared", "ms", "lower", primary=True, resolution=0.01),
        Metric("written", "ms", "lower"),
        Metric("timed", "1/s", "higher"),
        Metric("exact", "s", "lower"),
    )

    def parse(self, parameters, context, results):
        values = {"declared": 2.5, "written": printed("0.5"), "timed": 8.0, "exact": 1.5}
        return Outcome(values, resolutions={"timed": 2.0})


def test_an_outcome_says_how_finely_each_of_its_figures_is_known():
    with Parsers() as parsers:
        found = parsers.outcome(Coarse(), Parameters(), Context(1, 2**28), {})
    assert found.resolutions == {
        "declared": 0.01,
        "written": pytest.approx(0.1),
        "timed": 2.0,
    }


def test_figures_of_several_flows_are_known_as_the_coarsest_of_them():
    flows = [
        Outcome({"rate": 10.0}, resolutions={"rate": 1.0}),
        Outcome({"rate": 30.0}, resolutions={"rate": 1.0}),
    ]
    assert merged_resolutions(flows, {"rate": 40.0}) == {"rate": pytest.approx(4.0)}


def test_a_store_keeps_the_smallest_step_of_every_figure(tmp_path):
    platform = PlatformRecord("native", {}, True, is_baseline=True)
    with Store.open(f"sqlite:///{tmp_path}/s.sqlite") as store:
        run = begin(
            store,
            platforms=(platform,),
            cells=[CellRecord("n", "p", "native", "tool", "tool")],
            metrics=[MetricRecord("tool", "time", "time", "s", "lower", True)],
        )
        (cell,) = run.cells
        for number, effective in enumerate(({RESOLUTIONS: {"time": [0.25]}}, {})):
            run.add_trial(
                trial(cell, number=number, position=number, effective=effective, values={"time": 2})
            )
        assert [row[3:] for row in run.primary_values()] == [(2.0, 0.25), (2.0, 0.0)]
        data = load(store.engine, run)
    assert list(data.resolutions.values()) == [{"time": [0.25]}]
    assert np.isclose(analyse_data(data).sections[0].points[0].rows[0].resolution.share, 0.0625)


def test_progress_shows_no_digit_below_the_step():
    assert figure_text((Printed(0.02, 0.01), "ms")) == "20 µs"
    assert figure_text((0.02, "ms")) == "20.00 µs"
