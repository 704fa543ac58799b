"""Trials of equal time: every platform's count of work is found out once, and kept by resumed runs and bundles."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from scripted import ScriptBenchmark, StopAfter, executed, plan_of, study

from vtax.benchmarks.base import (
    Command,
    Context,
    Metric,
    Operations,
    Outcome,
    Parameters,
    WorkParameter,
)
from vtax.errors import BadInput, RunInterrupted
from vtax.runner.begin import begin
from vtax.runner.events import Observer
from vtax.runner.session import execute
from vtax.store.query import load

_LOOP_S = 0.002
_CODE = f"import os, sys, time; time.sleep({_LOOP_S} * int(sys.argv[1]) * float(os.environ.get('VTAX_MARK') or 1))"


class LoopsParameters(Parameters):
    loops: int = 1000


class Loops(ScriptBenchmark):
    """Sleeps for so many loops, on a slow platform longer."""

    name = "loops"
    Parameters = LoopsParameters
    metrics: Sequence[Metric] = (
        Metric("rate", "loops/s", "higher", primary=True, average="harmonic"),
        Metric("time", "s", "lower"),
    )
    work = Operations("loop", "loops")
    counts = WorkParameter("loops")

    def commands(self, parameters: Any, context: Context) -> list[Command]:
        return [Command("single", (sys.executable, "-c", _CODE, str(parameters.loops)))]

    def parse(self, parameters: Any, context: Context, results: Mapping[Any, Any]) -> Outcome:
        time_s = results["single"].outside_s
        values = {"rate": parameters.loops / time_s, "time": time_s}
        return Outcome(values, {"loops": parameters.loops})


@pytest.fixture
def plan(driver):
    driver.benchmarks["loops"] = Loops()
    slow = {"name": "slow", "driver": "scripted", "mark": "5"}
    table = {"name": "loops", "trial_time": "0.2s"}
    return plan_of(study(platforms=["native", "slow"], platform=[slow], benchmark=[table]))


def test_every_platform_does_what_lasts_as_long_there(plan, store, home):
    run = executed(plan, store, home)
    data = load(store.engine, run)
    assert data.trials.is_ok.tolist() == [True] * 4  # what found the counts out is not stored
    found = {cell.platform: cell.parameters["loops"] for cell in store.open_run(run.name).cells}
    assert found["native"] == pytest.approx(100, rel=0.4)
    assert found["slow"] == pytest.approx(20, rel=0.4)
    names = {data.run.metrics[metric].name for metric in data.measurements.metric}
    assert names == {"rate"}  # the time of the whole depends on the count


def test_a_resumed_run_keeps_the_counts(plan, store, home):
    run = begin(store, plan, vtax_version="test")
    with pytest.raises(RunInterrupted):
        execute(plan, run, home, StopAfter(3))
    before = {cell.key: cell.parameters for cell in store.open_run(run.name).cells}
    resumed = store.open_run(run.name)
    execute(plan, resumed, home, Observer())
    assert {cell.key: cell.parameters for cell in store.open_run(run.name).cells} == before
    assert None not in [parameters["loops"] for parameters in before.values()]


def test_a_benchmark_that_can_do_neither_is_refused(driver):
    table = {"name": "start", "trial_time": "0.2s"}
    with pytest.raises(BadInput) as caught:
        plan_of(study(benchmark=[table]))
    assert caught.value.what.startswith("start takes no trial_time")
    assert caught.value.where.endswith("key trial_time")
