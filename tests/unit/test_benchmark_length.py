"""Trials of equal time: of every benchmark, whatever its tool is given, and what such trials have in common."""

import pytest

from vtax.benchmarks import length, registry
from vtax.benchmarks.base import SHORTEST_S, Context, metrics_of
from vtax.errors import BadInput
from vtax.stats.means import TRIAL_TIME, average_with
from vtax.stats.terms import is_rate

CONTEXT = Context(1, 1 << 30)
BENCHMARKS = [pytest.param(one, id=one.name) for one in registry.benchmarks().values()]
WITHOUT = {"bonnie", "checkout", "compile", "pi", "pi-flint", "start", "stream"}
"""Each does one piece of work, or has the best of its repetitions: more of it is another thing."""
WHOLE_SECONDS = {"iperf3", "loaded-latency", "sockperf"}


def timed(benchmark, time_s, **given):
    return length.given_time(benchmark, benchmark.Parameters(**given), time_s)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_benchmark_takes_a_short_trial_or_says_why_not(benchmark):
    if benchmark.name in WITHOUT | WHOLE_SECONDS:
        with pytest.raises(BadInput) as caught:
            timed(benchmark, 0.1)
        assert benchmark.name in caught.value.what
        assert ("whole seconds" in caught.value.what) == (benchmark.name in WHOLE_SECONDS)
        return
    parameters = timed(benchmark, 0.1)
    counted = benchmark.counted(parameters)
    if length.DURATION in parameters.model_fields_set:
        assert parameters.duration_s == 0.1
    else:
        assert counted is not None
        parameters = length.with_count(parameters, counted, counted.least)
        assert getattr(parameters, counted.parameter) == counted.least
    assert benchmark.commands(parameters, CONTEXT)
    assert benchmark.expected_s(parameters, CONTEXT) < 5


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_no_metric_of_unlike_counts_depends_on_the_count(benchmark):
    """The time of the whole trial, a number of requests and an extreme do; a rate must then be of fixed work."""
    parameters = benchmark.Parameters()
    counted = benchmark.counted(parameters)
    metrics = metrics_of(benchmark)
    comparable = length.comparable_metrics(metrics)
    assert any(metric.primary for metric in comparable) or counted is None
    for metric in comparable:
        words = metric.name.split("_")
        assert not {"max", "min", "best", "longest", "total", "completed"} & set(words)
        if metric.name == "time":
            assert "one " in metric.title
        if counted is not None and is_rate(metric.unit) and metric.name != "sent":
            stored = {counted.parameter: 100, TRIAL_TIME: 0.1}
            assert average_with(metric.average, metric.fixed_work, stored) == "harmonic"


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_trial_of_the_least_work_is_shorter_than_what_it_is_subtracted_from(benchmark):
    parameters = benchmark.Parameters()
    least = length.with_least_work(benchmark, parameters)
    if least is None:
        assert benchmark.name in WITHOUT | WHOLE_SECONDS
        return
    counted = benchmark.counted(parameters)
    if counted is not None:
        assert getattr(least, counted.parameter) == counted.least
    else:
        assert least.duration_s == SHORTEST_S
    assert benchmark.expected_s(least, CONTEXT) < benchmark.expected_s(parameters, CONTEXT)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_count_that_a_run_stores_is_read_again(benchmark):
    counted = benchmark.counted(benchmark.Parameters())
    if counted is None:
        return
    parameters = length.with_count(benchmark.Parameters(), counted, 3.4 * counted.least)
    stored = length.stored_parameters(parameters, counted, 0.1)
    assert stored[counted.parameter] is None
    count = getattr(parameters, counted.parameter)
    assert count % counted.step == 0
    assert length.read_parameters(benchmark, {**stored, counted.parameter: count}) == parameters


@pytest.mark.parametrize(
    ("name", "given", "decided"),
    [
        ("sysbench-cpu", {"events": 160}, "events"),
        ("sysbench-cpu", {"duration_s": 1}, "duration_s"),
        ("iperf2", {"duration_s": 0.5}, "duration_s"),
        ("netperf", {"count": 400}, "count"),
        ("dd", {"file_size": 2**20}, "file_size"),
    ],
)
def test_what_the_time_decides_is_not_given_as_well(name, given, decided):
    with pytest.raises(BadInput) as caught:
        timed(registry.get(name), 0.1, **given)
    assert f" {decided} " in caught.value.what


def test_tools_of_whole_seconds_are_given_whole_seconds():
    assert timed(registry.get("iperf3"), 2.0).duration_s == 2
    assert timed(registry.get("sysbench-cpu"), 2.0).duration_s == 2
