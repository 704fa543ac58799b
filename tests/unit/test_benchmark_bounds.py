"""What no tool can measure is refused for every benchmark in one place, with value and bound. Reports are changed."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import replace

import pytest
from tool_reports import FIXTURES, outcome

from vtax.benchmarks import registry
from vtax.benchmarks.base import Benchmark, Command, Context, Metric, Outcome, Parameters
from vtax.benchmarks.bounds import SECONDS, bounds_of, check_outcome
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.runner.parsers import Parsers

CONTEXT = Context(vcpus=2, memory_bytes=2**29)
TRIAL_S = 5.0
METRICS = [
    (benchmark, metric)
    for benchmark in registry.benchmarks().values()
    for metric in benchmark.metrics
]


def ran(text="", stderr="", status=0):
    return CommandResult(("tool",), status, text, stderr, TRIAL_S, TRIAL_S)


def judged(benchmark, values):
    results = {"client" if benchmark.needs_network else "single": ran()}
    return check_outcome(benchmark, CONTEXT, results, Outcome(values))


def impossible(metric):
    """Values that the metric of any tool cannot have."""
    yield from (-1.0, math.nan, math.inf)
    if metric.better == "higher":
        yield 0.0
    if metric.most == "unit" and metric.unit == "%":
        yield 100.1
    if metric.most == "unit" and metric.unit in SECONDS:
        yield 2 * TRIAL_S / SECONDS[metric.unit]
    if metric.most == "cpus":
        yield 1e6


@pytest.mark.parametrize(
    ("benchmark", "metric"), METRICS, ids=[f"{b.name}-{m.name}" for b, m in METRICS]
)
def test_no_metric_of_any_benchmark_has_a_value_that_is_impossible(benchmark, metric):
    for value in impossible(metric):
        if metric.is_aside and math.isfinite(value):
            found = judged(benchmark, {metric.name: value})
            assert (found.values, [w.code for w in found.warnings]) == ({}, ["figure-left-out"])
            continue
        with pytest.raises(BenchmarkError) as refusal:
            judged(benchmark, {metric.name: value})
        assert f"{metric.name} {value:.6g} {metric.unit}, which is " in refusal.value.what
    possible = {metric.name: 1e-3 if metric.unit in SECONDS else 1.0}
    assert judged(benchmark, possible).values == possible


@pytest.mark.parametrize(
    ("benchmark", "metric"), METRICS, ids=[f"{b.name}-{m.name}" for b, m in METRICS]
)
def test_every_share_time_and_rate_is_bounded_from_above(benchmark, metric):
    is_known = metric.unit in ("%", *SECONDS) or metric.unit.endswith("/s") or metric.unit == "IOPS"
    if is_known and metric.most != "unknown":
        assert math.isfinite(bounds_of(metric, CONTEXT, TRIAL_S).high)


class New(Benchmark):
    """A benchmark that knows no bounds: it prints its figures as JSON."""

    name = "new"
    title = "new"
    tool = "new"
    Parameters = Parameters
    work = None
    metrics = (
        Metric("rate", "things/s", "higher", primary=True),
        Metric("latency_avg", "ms", "lower"),
        Metric("latency_max", "ms", "lower"),
        Metric("errors", "errors", "lower"),
        Metric("hits", "%", "higher", may_be_zero=True),
    )
    version_argv = ("new", "--version")

    def commands(self, parameters, context):
        return (Command("single", ("new",)),)

    def expected_s(self, parameters, context):
        return 1.0

    def parse(self, parameters, context, results):
        return Outcome(**json.loads(results["single"].stdout))


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ({"values": {"rate": 0.0}}, "above 0"),
        ({"values": {"rate": -3.0}}, "below 0"),
        ({"values": {"latency_avg": 1e6}}, "the 5 s that the tool ran"),
        ({"values": {"latency_avg": 5.0, "latency_max": 2.0}}, "above latency_max 2"),
        ({"values": {"errors": -1.0}}, "below 0"),
        ({"values": {"hits": 101.0}}, "above 100"),
        ({"values": {"rate": math.nan}}, "no number"),
        ({"values": {"rate": 5.0}, "effective": {"width": math.nan}}, "nan for width"),
        ({"values": {"rate": 5.0}, "samples": {"rate": [5.0, -1.0]}}, "within the trial"),
    ],
)
def test_a_new_benchmark_is_bounded_whatever_it_declares(given, bound):
    benchmark, parameters = New(), Parameters()
    results = {"single": ran(json.dumps(given), "new: the server went away")}
    with (
        Parsers([(benchmark, parameters)]) as parsers,
        pytest.raises(BenchmarkError, match=re.escape(bound)),
    ):
        parsers.outcome(benchmark, parameters, CONTEXT, results)


class Telling(New):
    def parse(self, parameters, context, results):
        return Outcome({"rate": float(os.getpid())})


def test_trials_with_equal_parameters_are_read_by_one_process():
    benchmark, results = Telling(), {"single": ran("")}
    with Parsers() as parsers:
        read = [parsers.outcome(benchmark, Parameters(), CONTEXT, results) for _ in range(3)]
    assert len({outcome.values["rate"] for outcome in read}) == 1


def test_a_metric_may_say_that_zero_is_a_value():
    values = {"rate": 5.0, "hits": 0.0, "errors": 0.0}
    assert judged(New(), values).values == values


def test_a_rate_of_zero_fails_with_the_words_of_the_tool():
    results = {"single": ran("{}", "new: the server went away\n")}
    with pytest.raises(BenchmarkError) as refusal:
        check_outcome(New(), CONTEXT, results, Outcome({"rate": 0.0}))
    assert refusal.value.where == "new: the server went away"


def test_cpus_are_bounded_only_where_the_guest_is():
    metric = Metric("cpu", "%", "lower", most="cpus")
    assert bounds_of(metric, CONTEXT, TRIAL_S).high == pytest.approx(240)
    assert bounds_of(metric, replace(CONTEXT, cpu_room_s=math.inf), TRIAL_S).high == math.inf
    room = bounds_of(metric, replace(CONTEXT, cpu_room_s=TRIAL_S), TRIAL_S).high
    assert room == pytest.approx(360)  # as of one CPU more
    assert bounds_of(metric, replace(CONTEXT, cpu_room_s=0.1), 0).high == math.inf


@pytest.mark.parametrize(
    ("values", "is_possible"),
    [
        ({"throughput": 990.0, "sent": 1000.0}, True),
        ({"throughput": 1010.0, "sent": 1000.0}, True),  # sent before the time that is counted
        ({"throughput": 1200.0, "sent": 1000.0}, False),
        ({"throughput": 9.0, "sent": 1000.0}, True),  # of TCP, which has no loss
        ({"throughput": 100.0, "sent": 300.0, "loss": 66.0}, True),
        ({"throughput": 100.0, "sent": 300.0, "loss": 0.0}, False),
        ({"throughput": 1.0, "sent": 10.0, "loss": 0.0}, False),
        ({"throughput": 8.0, "sent": 10.0, "loss": 0.0}, True),  # the rest is in queues
        ({"latency_p50": 5.0, "latency_p99": 4.9}, True),  # of bins
        ({"latency_p50": 5.0, "latency_p99": 3.0}, False),
        ({"latency_p99": 9.0, "latency_p999": 2.0}, False),
        ({"latency_mean": 1.0, "latency_p50": 5.0, "latency_max": 9.0}, True),
        ({"latency_min": 3.0, "latency_mean": 1.0}, False),
    ],
)
def test_values_of_a_trial_do_not_contradict_each_other(values, is_possible):
    if is_possible:
        assert judged(New(), values).values == values
        return
    with pytest.raises(BenchmarkError, match="reports"):
        judged(New(), values)


def iperf3(parameters, **changes):
    """The outcome of a real report of UDP or TCP with other figures: path into `end` -> value."""
    file = "udp" if parameters.get("protocol") == "udp" else "tcp"
    report = json.loads((FIXTURES / f"iperf3/3.18-{file}-send.json").read_text())
    for path, value in changes.items():
        *sections, key = path.split("__")
        table = report["end"]
        for section in sections:
            table = table[section]
        assert key in table
        table[key] = value
    return outcome("iperf3", parameters, {"client": json.dumps(report)})


UDP = {"protocol": "udp"}


@pytest.mark.parametrize(
    ("parameters", "changes", "bound"),
    [
        ({}, {"sum_received__bits_per_second": 0}, "throughput 0 Mbit/s"),
        ({}, {"sum_sent__bits_per_second": 1e6}, "1 Mbit/s were sent"),
        (UDP, {"sum_received__bits_per_second": 0.0}, "throughput 0 Mbit/s"),
        (UDP, {"sum_received__lost_percent": 179.65}, "loss 179.65 %, which is above 100"),
        (UDP, {"sum_received__lost_percent": -1.5}, "loss -1.5 %, which is below 0"),
        (UDP, {"sum_received__lost_percent": math.nan}, "loss nan %, which is no number"),
        (UDP, {"sum_received__jitter_ms": 6.1e8}, "jitter 6.1e+08 ms"),
        (UDP, {"sum_received__jitter_ms": -0.1}, "jitter -0.1 ms"),
    ],
)
def test_impossible_figures_of_iperf3_are_refused(parameters, changes, bound):
    with pytest.raises(BenchmarkError, match=re.escape(bound)):
        iperf3(parameters, **changes)


def test_an_impossible_figure_beside_the_result_is_left_out_and_the_rest_is_kept():
    found = iperf3({}, cpu_utilization_percent__remote_total=-1.5)
    assert "cpu_peer" not in found.values
    assert {"throughput", "cpu_guest"} <= found.values.keys()
    assert [warning.code for warning in found.warnings] == ["figure-left-out"]


@pytest.mark.parametrize("loss", ["-1.462", "179.65", "-nan", "nan"])
def test_an_impossible_loss_of_iperf2_is_refused(loss):
    texts = {
        role: (FIXTURES / f"iperf2/2.2.1-udp_send.{role}.csv").read_text()
        for role in ("client", "server")
    }
    changed = re.sub(r",[0-9.]+(,[0-9]+)$", rf",{loss}\1", texts["server"], flags=re.MULTILINE)
    assert changed != texts["server"]
    with pytest.raises(BenchmarkError, match="loss"):
        outcome("iperf2", UDP, {**texts, "server": changed})


def netperf(test, **changes):
    text = (FIXTURES / f"netperf/cpu_{test}.txt").read_text()
    for name, value in changes.items():
        changed = re.sub(rf"^{name}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
        assert changed != text
        text = changed
    return outcome("netperf", {"test": test}, {"client": text})


@pytest.mark.parametrize(
    ("test", "changes", "what"),
    [
        ("tcp_stream", {"REMOTE_RECV_THROUGHPUT": "0.00"}, "throughput 0 Mbit/s"),
        ("tcp_rr", {"MEAN_LATENCY": "-812.37"}, "mean of -812.37 us"),
        ("tcp_rr", {"MEAN_LATENCY": "5.00"}, "mean of 5 us"),
        ("tcp_rr", {"MEAN_LATENCY": "-nan"}, "mean of nan us"),
        ("tcp_rr", {"P99_LATENCY": "-nan"}, "latency_p99 nan us"),
        ("tcp_rr", {"MAX_LATENCY": "1"}, "above latency_max 1"),
    ],
)
def test_impossible_figures_of_netperf_are_refused(test, changes, what):
    with pytest.raises(BenchmarkError, match=re.escape(what)):
        netperf(test, **changes)
