"""What counters are divided by, for every primary metric that vtax ships: the work of a trial in the fitting unit."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from vtax.benchmarks.registry import benchmarks
from vtax.observations import Observations
from vtax.report.analysis.values import Section
from vtax.report.answers.explain.work import work_of
from vtax.store.query import Measurements, RunData, Trials
from vtax.store.records import CellRecord, MetricRecord

TRIAL_S = 2.0
WORK = {
    ("dd", "rate"): "GB",
    ("fio", "read_iops"): "I/O",
    ("iperf3", "throughput"): "GB",
    ("kernel-paths", "time"): "operation",
    ("linpack", "rate"): "Mflop",
    ("loaded-latency", "latency_p99"): "s",
    ("loaded-latency", "stream_rate"): "GB",
    ("netperf", "transactions"): "operation",
    ("nginx", "requests"): "requests",
    ("pi", "time"): "trial",
    ("python-imports", "time"): "start",
    ("sockperf", "latency_p50"): "s",  # of messages at a given rate; in a lab they are data
    ("start", "server_answer"): "s",  # of several starts, around which nothing is counted
    ("sysbench-oltp", "load_time"): "trial",
}
SHIPPED = {(b.name, m.name): m for b in benchmarks().values() for m in b.metrics if m.primary}


def work(metric, values, settings):
    """Unit and work of both cells; values: of the metric, one trial per block, four of each cell."""
    record = MetricRecord(*metric, "", SHIPPED[metric].unit, SHIPPED[metric].better, True)
    each, ok = np.arange(8), np.ones(8, np.bool_)
    seconds = np.full(8, TRIAL_S)
    trials = Trials(
        each,
        each % 2,
        each // 2,
        each * 0,
        each,
        ~ok,
        ok,
        each * 2.0,
        seconds,
        seconds,
        each * 0 + 1,
    )
    cells = [
        CellRecord(f"c-{name}", "c", name, metric[0], metric[0]) for name in ("sandbox", "native")
    ]
    run = SimpleNamespace(cells=cells, metrics=[record])
    data = RunData(run, trials, Measurements(each, each * 0, np.full(8, values)), (), (), ())
    section = Section(metric[0], metric[0], "1.0", record, (), 1)
    observations = Observations.of_run(data)
    rows = []
    for cell in (0, 1):
        seen = observations.of(cell, 0)
        rows.append(SimpleNamespace(trial_blocks=seen.block, trial_values=seen.value))
    in_force = {n: json.dumps(settings) for n in range(8)}
    return work_of(data, section, tuple(rows), (0, 1), ({}, {}), np.arange(4), in_force)


def unit_of(metric):
    """The unit of the work of usual trials. Several guests start within one of `start`."""
    shipped = SHIPPED[metric]
    settings = {shipped.time_of.setting: 1000} if shipped.time_of else {}
    value = TRIAL_S * 0.9 if shipped.unit == "s" else 50.0
    if benchmarks()[metric[0]].stages:
        value = TRIAL_S / 5
    unit, _ = work(metric, value, settings)
    return unit


@pytest.mark.parametrize("metric", WORK, ids="-".join)
def test_counters_are_divided_by_the_work_that_the_metric_is_of(metric):
    assert unit_of(metric) == WORK[metric]


@pytest.mark.parametrize("metric", SHIPPED, ids="-".join)
def test_counters_are_divided_by_mere_seconds_only_where_no_work_is_known(metric):
    """That is where a percentile is measured, of requests at a given rate, and around starts."""
    is_percentile = SHIPPED[metric].tail is not None
    is_of_starts = bool(benchmarks()[metric[0]].stages)
    assert (unit_of(metric) == "s") == (is_percentile or is_of_starts)


@pytest.mark.parametrize("benchmark", benchmarks().values(), ids=lambda each: each.name)
def test_every_benchmark_says_what_its_unit_of_work_is(benchmark):
    """Or that there is none, of which the class says why."""
    assert "work" in vars(type(benchmark))
    settings = [each.setting for each in [benchmark.work] if each]
    assert all(setting == "" or setting.isidentifier() for setting in settings)


@pytest.mark.parametrize(
    "metric", [("kernel-paths", "time"), ("memory-latency", "latency")], ids="-".join
)
def test_operations_are_as_many_as_the_tool_did_however_long_the_trial(metric):
    setting = SHIPPED[metric].time_of.setting
    _, found = work(metric, 50.0, {setting: 1000, "batches": 10})
    assert [list(each) for each in found] == [[1000.0] * 4] * 2
    unit, _ = work(metric, 50.0, {})  # stored before the setting was
    assert unit == "s"
