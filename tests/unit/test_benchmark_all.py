"""What every benchmark has: metrics that tables read alike, a version, and parameters that are refused."""

from pathlib import Path

import pytest
from pydantic import ValidationError
from service_reports import version_output

from vtax.benchmarks import registry
from vtax.benchmarks.base import BenchmarkError, Context, Metric, metrics_of
from vtax.errors import BadInput
from vtax.runner import density
from vtax.stats.terms import is_rate, is_time, role_of
from vtax.stats.verdict import Verdict, worded

FIXTURES = Path(__file__).parent / "fixtures"
BENCHMARKS = registry.benchmarks()
RATES_AND_COUNTS = (
    "Mbit/s",
    "1/s",
    "packets/s",
    "segments",
    "transactions",
    "transactions/s",
    "queries/s",
    "requests/s",
    "rows/s",
)
METRICS = [
    (benchmark.name, metric) for benchmark in BENCHMARKS.values() for metric in benchmark.metrics
]


@pytest.mark.parametrize(
    ("benchmark", "metric"), METRICS, ids=lambda value: getattr(value, "name", value)
)
def test_several_flows_together_make_the_sum_of_their_rates_and_the_mean_of_their_delays(
    benchmark, metric
):
    assert metric.over_flows == ("sum" if metric.unit in RATES_AND_COUNTS else "mean")


EVERY_METRIC = [
    (benchmark.name, metric)
    for benchmark in BENCHMARKS.values()
    for own in [metrics_of(benchmark)]
    for metric in (*own, *density.metrics(own))
]
A_VERDICT = Verdict("slower", 0.02, 0.05, 1, 0.01, 1.0, 0, ())


@pytest.mark.parametrize(
    ("benchmark", "metric"), EVERY_METRIC, ids=lambda value: getattr(value, "name", value)
)
def test_only_rates_and_times_are_slower_and_only_what_is_spent_costs_more(benchmark, metric):
    role = metric.effective_role
    word = worded(A_VERDICT, role)
    is_spent = metric.name.startswith(("host_cpu_per_", "energy_per_", "cpu_", "memory_"))
    is_speed = (is_rate(metric.unit) or is_time(metric.unit)) and metric.name != "jitter"
    if is_spent:
        assert (role, word.kind) == ("cost", "costs-more")
    elif is_speed:
        assert (role, word.kind) == ("speed", "slower")
    else:
        assert role in ("size", "count")
        assert word is None
    if metric.primary:
        assert role == "speed"
    stored = role_of(metric.name, metric.unit, metric.better, is_primary=metric.primary)
    assert stored == role  # of a bundle that lacks it


def test_a_metric_of_a_program_may_say_what_it_is():
    assert role_of("score", "points", "higher", is_primary=True) == "speed"
    assert role_of("score", "points", "higher", is_primary=False) == "count"
    assert role_of("memory_bandwidth", "MB/s", "lower", is_primary=False) == "speed"
    assert Metric("score", "points", "lower", role="cost").effective_role == "cost"


VERSIONS = [
    ("bonnie", "bonnie/2.00a-version.txt", "2.00a"),
    ("checkout", "checkout/2.47.3-version.txt", "2.47.3, Python 3.13.5, mypy 1.15.0"),
    ("compile", "compile/gcc-14.2.0-version.txt", "14.2.0-19, newlib 4.5.0.20241231-1"),
    ("dd", "dd/9.7-version.txt", "9.7"),
    ("kernel-paths", "kernel-paths/1.0-version.txt", "1.0 (gcc 14.2.0; -O2 -pthread)"),
    ("loaded-latency", "netperf/version.txt", "2.7.1"),
    ("linpack", "linpack/1.0-version.txt", "1.0 (gcc 14.2.0; -O3)"),
    ("memory-latency", "memory-latency/1.0-version.txt", "1.0 (gcc 14.2.0; -O2)"),
    ("netperf", "netperf/version.txt", "2.7.1"),
    ("pi", "pi/cln-1.3.6-version.txt", "CLN 1.3.6"),
    ("pi", "pi/cln-1.3.7-version.txt", "CLN 1.3.7"),
    ("pi-flint", "pi/flint-3.1.0-version.txt", "1.0 (FLINT 3.1.0; gcc 14.2.0; -O2)"),
    ("python-imports", "python-imports/3.13.5-version.txt", "3.13.5"),
    ("sockperf", "sockperf/trixie-version.txt", "3.7-no.git"),
    (
        "stream",
        "stream/1.0-version.txt",
        "1.0 (gcc 14.2.0; -O3 -fopenmp -fno-tree-loop-distribute-patterns)",
    ),
    ("sysbench-cpu", "sysbench/1.0.20-version.txt", "1.0.20"),
]
PRINTED = [
    ("fio", "fio-3.39\n", "3.39"),
    ("iperf2", "iperf version 2.2.1 (4 Nov 2024) pthreads", "2.2.1"),
    ("iperf3", "iperf 3.18 (cJSON 1.7.15)\nLinux guest 6.18.44", "3.18"),
    *((name, (FIXTURES / file).read_text(), version) for name, file, version in VERSIONS),
]
SERVERS = [
    ("memcached", "memcached", "1.6.18", "1.6.38"),
    ("nginx", "nginx", "1.22.1 with h2load", "1.26.3 with h2load"),
    ("pgbench", "pgbench", "15.20", "17.12"),
    ("redis", "redis-server", "7.0.15", "8.0.2"),
    (
        "sysbench-oltp",
        "mariadbd",
        "10.11.19-MariaDB with sysbench 1.0.20",
        "11.8.6-MariaDB with sysbench 1.0.20",
    ),
]


@pytest.mark.parametrize(("name", "printed", "version"), PRINTED)
def test_the_version_is_read_from_what_the_tool_prints(name, printed, version):
    assert BENCHMARKS[name].version_of(printed) == version


@pytest.mark.parametrize(("name", "program", "bookworm", "trixie"), SERVERS)
def test_the_version_is_that_of_server_and_client(name, program, bookworm, trixie):
    for suite, version in (("bookworm", bookworm), ("trixie", trixie)):
        assert BENCHMARKS[name].version_of(version_output(program, suite)).startswith(version)


OTHER_OUTPUT = [
    *((name, "sh: 1: it: not found\n") for name in BENCHMARKS if name not in ("start",)),
    ("compile", "gcc-14 (Debian 14.2.0-19) 14.2.0\n"),
    ("dd", "dd 0.0.30\n"),
    ("sysbench-oltp", "sh: 1: mariadbd: not found\nsysbench 1.0.20\n"),
]


@pytest.mark.parametrize(("name", "printed"), OTHER_OUTPUT)
def test_another_output_has_no_version(name, printed):
    with pytest.raises(BenchmarkError):
        BENCHMARKS[name].version_of(printed)


SENSELESS = {
    "bonnie": [{"size": 2**20 + 1}],
    "checkout": [{"files": 1}],
    "compile": [{"files": 0}, {"files": 466}, {"jobs": 0}],
    "dd": [
        ({"file_size": 1000, "block_size": 300}, "whole number of blocks"),
        ({"file_size": 10_000, "block_size": 1000, "cache": "direct"}, "multiple of 512"),
        ({"file_size": "1KiB", "block_size": "1MiB"}, "whole number of blocks"), ({"direction": "sideways"}, "write"),
        ({"direction": "write", "cache": "cold"}, "belongs to reads"), ({"file_size": 0}, "greater"),
    ],
    "fio": [
        ({"size": 10_000, "block_size": 4096}, "whole number of blocks"), ({"iodepth": 2}, "one request in flight"),
        ({"direct": True, "engine": "mmap"}, "no engine 'mmap'"), ({"fsync": 1}, "fsync belongs to writes"),
    ],
    "iperf2": [
        ({"no_delay": True, "protocol": "udp"}, "no_delay belongs to tcp"), {"rate_mbit_s": 5}, {"direction": "up"},
        *({"protocol": "udp", "rate_mbit_s": rate} for rate in (float("inf"), float("nan"), 1e7)),
    ],
    "iperf3": [
        ({"no_delay": True, "protocol": "udp"}, "no_delay belongs to tcp"),
        *({"rate_mbit_s": rate} for rate in (float("inf"), float("nan"), -1, 1e7)),
    ],
    "kernel-paths": [{"operation": "sleep"}, {"loops": 0}],
    "linpack": [{"order": 1}, {"precision": "half"}, {"repetitions": 0}, {"threads": 2}],
    "loaded-latency": [{"load": "up"}, {"streams": 0}, {"duration_s": 0.5}, {"request_size": 0}],
    "memory-latency": [{"working_set": 64}, {"working_set": 1000}, {"loads": 1}, {"pages": "1G"}],
    "netperf": [
        {"test": "tcp_rr", "message_size": 64}, {"test": "udp_stream", "confidence_percent": 95},
        {"min_iterations": 5, "max_iterations": 4}, {"test": "sctp_stream"},
        {"test": "udp_stream", "count": 30}, {"test": "tcp_rr", "count": 30, "duration_s": 5},
        {"test": "tcp_rr", "count": 30, "confidence_percent": 95}, {"test": "tcp_rr", "count": 0},
        *({"confidence_percent": 95, "confidence_width_percent": width} for width in (float("inf"), float("nan"), 0)),
    ],
    "pgbench": [({"threads": 2}, "more than clients"), ({"connection": "socket"}, "'tcp' only")],
    "pi": [{"digits": 99}, {"digits": 1000, "x": 1}],
    "pi-flint": [{"digits": 99}, {"digits": 1000, "x": 1}],
    "python-imports": [{"starts": 0}, {"starts": 10_001}, {"modules": "re"}],
    "sockperf": [{"message_size": 13}, {"message_size": 65508}, {"mode": "throughput"}],
    "stream": [{"array_size": 8}, {"repetitions": 1}, {"threads": 0}],
    "sysbench-oltp": [({"client": "peer"}, "by connection = 'tcp' only")],
    "sysbench-cpu": [{"threads": 0}, {"cpu_max_prime": 2}, {"duration_s": 0}, {"events": 0}, {"x": 1}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (name, *(each if isinstance(each, tuple) else (each, None)))
        for name, rows in SENSELESS.items()
        for each in rows
    ],
)
def test_what_a_tool_cannot_do_is_refused_before_the_run(name, given, message):
    with pytest.raises(ValidationError, match=message):
        BENCHMARKS[name].Parameters(**given)


BEYOND = [
    ("bonnie", {"size": "1GiB"}, {"size": "2GiB"}, "size is 2 GiB, and the disk of the guests has 1 GiB free"),
    ("compile", {"jobs": 8}, {"jobs": 32}, "32 compilers need about 1.56 GiB of memory, and the guest has 512 MiB"),
    ("dd", {"file_size": "1GiB"}, {"file_size": "2GiB"}, "file_size is 2 GiB, and the disk of the guests has 1 GiB"),
    ("fio", {"size": "512MiB", "jobs": 2}, {"size": "1GiB", "jobs": 2}, "2 × size is 2 GiB, and the disk"),
    ("linpack", {"order": 7000}, {"order": 9000}, "order 9000 is 618 MiB, and the guest has 512 MiB"),
    ("memory-latency", {"working_set": "256MiB"}, {"working_set": "512MiB"}, "need about 520 MiB of memory, and the"),
    ("pgbench", {}, {"shared_buffers": "2GiB"}, "shared_buffers is 2 GiB, and the guest has 512 MiB"),
    ("pi", {}, {"digits": 10**8}, "100000000 digits of pi need about 960 MiB of memory"),
    ("pi-flint", {}, {"digits": 5 * 10**8}, "digits of pi need about 7 GiB of memory, and the guest has 512 MiB"),
    ("pi-flint", {"threads": 2000}, {"threads": 4096}, "4096 threads are more than the 3686 that a kernel allows"),
    ("redis", {}, {"value_size": "1MiB"}, "of about 63212 different keys that 100000 requests set need about 61.7"),
    ("stream", {"threads": 2000}, {"threads": 4096}, "4096 threads are more than the 3686 that a kernel allows"),
    ("stream", {"array_size": "32MiB"}, {"array_size": "200MiB"}, "three arrays of 200MiB do not fit a guest"),
    ("sysbench-cpu", {"threads": 2000}, {"threads": 4096}, "4096 threads are more than the 3686"),
    ("sysbench-oltp", {}, {"buffer_pool": "1GiB"}, "buffer_pool is 1 GiB, and the guest has 512 MiB of memory"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "within", "beyond", "message"), BEYOND)
def test_what_the_guest_does_not_hold_is_refused_with_both_numbers(
    name, within, beyond, message, free_disk
):
    """A guest of 512 MiB, and 1 GiB of disk."""
    free_disk(2**30)
    benchmark, context = BENCHMARKS[name], Context(vcpus=2, memory_bytes=2**29)
    assert tuple(benchmark.commands(benchmark.Parameters(**within), context))
    with pytest.raises(BadInput, match=message) as refused:
        tuple(benchmark.commands(benchmark.Parameters(**beyond), context))
    assert refused.value.where in ("", *benchmark.Parameters.model_fields)
    assert "threads" not in message or "[guest] to 602 MiB" in refused.value.hint
