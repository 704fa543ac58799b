"""sysbench cpu: what its commands ask for and what its real outputs mean."""

from pathlib import Path

import pytest
from tool_under_test import Tool

from vtax.benchmarks.base import Context
from vtax.benchmarks.sysbench_cpu import SysbenchCpu, SysbenchCpuParameters
from vtax.errors import BenchmarkError
from vtax.messages import Note
from vtax.stats.means import average_with

BENCHMARK = SysbenchCpu()

FIXTURES = Path(__file__).parent / "fixtures" / "sysbench"
CONTEXT = Context(vcpus=2, memory_bytes=2**29)
TOOL = Tool("sysbench-cpu", CONTEXT, outside_s=3.0, cpu_s=0.5)


def parse(fixture, **given):
    return TOOL.parse(
        (FIXTURES / f"{fixture}.txt").read_text() if "\n" not in fixture else fixture, **given
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"duration_s": 7}, {"--threads=2", "--time=7", "--events=0"}),
        (
            {"duration_s": 7, "events": 500, "threads": 5},
            {"--threads=5", "--time=0", "--events=500"},
        ),
        ({"cpu_max_prime": 200_000}, {"--cpu-max-prime=200000"}),
    ],
)
def test_a_run_has_a_thread_per_virtual_cpu_and_ends_by_time_or_by_events(given, words):
    assert words <= set(TOOL.command(**given).argv)


@pytest.mark.parametrize(
    ("fixture", "rate", "average", "p95"),
    [
        ("1.0.20-1-thread", 234.97, 4.22, 13.46),
        ("1.0.20-2-threads", 558.09, 3.57, 25.28),
        ("1.0.20-one-event", 0.37, 2731.67, 2728.81),
    ],
)
def test_rate_and_latencies_are_read(fixture, rate, average, p95):
    values = parse(fixture).values
    assert (values["events_per_s"], values["latency_avg"], values["latency_p95"]) == (
        rate,
        average,
        p95,
    )
    assert "time" not in values


def test_the_report_of_another_build_is_read_alike():
    assert parse("1.0.20-debian12").values.keys() == parse("1.0.20-1-thread").values.keys()


def test_the_rate_over_a_fixed_number_of_events_is_averaged_harmonically():
    rate = next(metric for metric in BENCHMARK.metrics if metric.primary)
    for parameters, average in (({"events": 500}, "harmonic"), ({}, "arithmetic")):
        given = SysbenchCpuParameters(**parameters).model_dump()
        assert average_with(rate.average, rate.fixed_work, given) == average


def test_a_fixed_number_of_events_gives_the_time_it_lasted():
    outcome = parse("1.0.20-500-events", events=500)
    assert outcome.values["time"] == 2.8070
    assert outcome.effective == {"events": 500, "threads": 1, "cpu_max_prime": 20000}


def test_cpu_time_is_per_thousand_events():
    assert parse("1.0.20-500-events", cpu_s=0.6).values["cpu_per_1000_events"] == pytest.approx(1.2)


def test_doubtful_settings_are_said():
    assert parse("1.0.20-2-threads", context=Context(1, 2**29)).warnings == (
        Note("threads-share-cpus", threads=2, cpus=1),
    )
    assert parse("1.0.20-one-event").warnings[0] == Note("few-events", found=1)
    assert parse("1.0.20-1-thread").warnings == ()


def test_sysbench_0_4_has_no_version_since_it_does_other_work():
    with pytest.raises(BenchmarkError, match="do not compare"):
        BENCHMARK.version_of("sysbench 0.4.12:  multi-threaded system evaluation benchmark\n\n")


def test_the_expected_time_follows_the_work():
    assert BENCHMARK.expected_s(SysbenchCpuParameters(duration_s=3), CONTEXT) == pytest.approx(3.1)
    small, large = (
        BENCHMARK.expected_s(SysbenchCpuParameters(events=n), CONTEXT) for n in (1000, 10_000)
    )
    assert small < large
