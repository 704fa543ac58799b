"""What the host spends on a unit of a benchmark's work, and where it is shown. Figures are invented."""

import pytest
from a_run import a_run
from command_line import output_of

from vtax.benchmarks.base import Context, Operations, Outcome, cost_metrics, is_timed, metrics_of
from vtax.benchmarks.registry import benchmarks
from vtax.counters import cost
from vtax.runner.costs import costs_of
from vtax.runner.least_work import UNKNOWN, LeastWork, has_costly_start, with_least
from vtax.runner.plan import PlannedCell
from vtax.runner.points import Point
from vtax.store.records import CellRecord

WITHOUT = {
    "iperf2",
    "iperf3",
    "loaded-latency",
    "start",
}  # bytes of the link are their work; starts are no guests that are counted
REQUEST = Operations("request", "requests", time="µs")
COUNTED = {("layer", "host_cpu_s"): 1.0, ("host", "energy_package_j"): 30.0}


def test_every_benchmark_has_a_unit_of_work_and_metrics_of_its_cost():
    without = {name for name, benchmark in benchmarks().items() if benchmark.work is None}
    assert without == WITHOUT
    for benchmark in benchmarks().values():
        names = [metric.name for metric in metrics_of(benchmark)]
        assert len(set(names)) == len(names)
        if work := benchmark.work:
            assert {metric.name for metric in cost_metrics(work)} < set(names)
            assert not any(is_timed(metric.name, metric.unit) for metric in cost_metrics(work))


def test_costs_are_those_of_all_work_that_ran_at_once():
    outcomes = [Outcome({}, {"requests": number}) for number in (4000, 6000)]
    found = costs_of(REQUEST, outcomes, COUNTED)
    assert found == {"host_cpu_per_request": 100.0, "energy_per_request": 3.0}
    assert costs_of(REQUEST, outcomes, {}) == {}
    assert costs_of(REQUEST, [*outcomes, Outcome({})], COUNTED) == {}
    assert costs_of(None, outcomes, COUNTED) == {}


def test_the_start_of_a_program_is_no_cost_of_its_work():
    """1000 requests at 90 µs of CPU, by a client whose start costs 20 ms."""
    counted = {("layer", "host_cpu_s"): 0.11}
    least = LeastWork({("layer", "host_cpu_s"): 0.02 + 100 * 90e-6}, 100)
    found = costs_of(REQUEST, [Outcome({}, {"requests": 1000})], counted, least)
    assert found["host_cpu_per_request"] == pytest.approx(90.0)
    assert costs_of(REQUEST, [Outcome({}, {"requests": 1000})], counted, UNKNOWN) == {}


LONG = {"compile": {}, "pi": {}, "fio": {"duration_s": 5}, "sysbench-cpu": {"events": 5000}}
SHORT = {
    "sysbench-cpu": {"events": 160},
    "iperf2": {"duration_s": 0.2},
    "netperf": {"count": 10_000_000},
    "dd": {"file_size": 2**26},
    "kernel-paths": {},
    "python-imports": {"starts": 3},
}
NOT_IN_THE_GUEST = {"redis": {"requests": 1000}, "nginx": {"duration_s": 0.1, "warm_up_s": 0}}


@pytest.mark.parametrize(
    ("name", "given", "is_costly"),
    [
        *((*one, True) for one in SHORT.items()),
        *((*one, False) for one in (*LONG.items(), *NOT_IN_THE_GUEST.items())),
        ("stream", {"repetitions": 2, "array_size": 2**20}, True),
    ],
)
def test_only_short_trials_of_programs_in_guests_have_a_costly_start(name, given, is_costly):
    benchmark = benchmarks()[name]
    point = Point("p", name, benchmark, benchmark.Parameters(**given), "", None)
    assert has_costly_start(point, Context(1, 1 << 30)) == is_costly
    least = with_least(PlannedCell("c", None, point))
    assert (least is None) == (name in ("stream", "compile", "pi"))


@pytest.mark.parametrize(
    ("work", "outcome", "number"),
    [
        (Operations("run"), Outcome({}), 1.0),
        (Operations("GB", "bytes", 1e9), Outcome({}, {"bytes": 5e8}), 0.5),
        (Operations("transaction", "completed"), Outcome({"completed": 7.0}), 7.0),
        (Operations("transaction", "completed"), Outcome({"throughput": 7.0}), None),
    ],
)
def test_work_is_in_the_settings_or_the_metrics_of_a_trial(work, outcome, number):
    assert work.number(outcome) == number


def test_the_host_pays_for_all_guests_under_test_and_the_daemon_but_not_for_others():
    others = {("peer", "host_cpu_s"): 64.0, ("neighbour", "host_cpu_s"): 32.0}
    assert cost.host_cpu_s({**COUNTED, **others}) == 1.0
    layer = {
        ("guest2", "host_cpu_s"): 2.0,
        ("layer", "daemon.thread_cpu_s"): 4.0,
        ("layer", "vcpu.thread_cpu_s"): 0.5,
    }
    assert cost.host_cpu_s({**COUNTED, **others, **layer}) == 7.0
    assert cost.host_cpu_s({**COUNTED, **layer, ("layer", "under_test_cpu_s"): 8.0}) == 14.0
    assert cost.host_cpu_s(others) is None


def test_the_cost_of_a_platform_stands_beside_its_rate(store, set_width):
    cpu_us = {"native": 20.0, "docker": 30.0}

    def values(cell: CellRecord, block: int, number: int) -> dict[str, float]:
        cost = cpu_us[cell.platform] * (1 + block / 1000)
        return {"requests": 1000.0 + block, "host_cpu_per_request": cost}

    run = a_run("cost-1").platforms("native", "docker").benchmark("nginx")
    run = run.metric("requests", "requests/s").metric("host_cpu_per_request", "µs/request", "lower")
    run.blocks(6).values(values).stored(store)
    set_width("160")
    shown = output_of("show", "cost-1").splitlines()
    native, docker = (
        next(line.split() for line in shown if line.startswith(name))
        for name in ("native", "docker")
    )
    assert native[-2:] == ["100", "%"]
    assert docker[-4:] == ["150.0", "%", "[150.0,", "150.0]"]


def test_costs_of_points_that_differ_by_thousands_have_a_unit_each(store, set_width):
    cpu_ns = {"getppid": 200.0, "fork": 34_000_000.0}

    def values(cell: CellRecord, block: int, number: int) -> dict[str, float]:
        cost = cpu_ns[cell.levels["call"]] * (1 + block / 1000)
        return {"time": 1000.0 + block, "host_cpu_per_operation": cost}

    run = a_run("cost-2").platforms("native", "docker")
    run = run.benchmark("syscalls", levels={"call": list(cpu_ns)}).metric("time", "ns", "lower")
    run = run.metric("host_cpu_per_operation", "ns/operation", "lower")
    run.blocks(6).values(values).stored(store)
    set_width("180")
    shown = output_of("show", "cost-2")
    assert " ns/operation" in shown
    assert "34.09 ms/operation" in shown
