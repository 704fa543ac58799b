"""Redis: server and client, and real reports of redis-benchmark."""

import pytest
from service_reports import CONTEXT, client, commands, read

from vtax.benchmarks.redis import BENCHMARK, RedisParameters
from vtax.errors import BadInput, BenchmarkError


def parse(text, *, outside_s=10.0, cpu_s=0.0, status=0, stderr="", **parameters):
    results = client(text, outside_s=outside_s, cpu_s=cpu_s, status=status, stderr=stderr)
    return BENCHMARK.parse(RedisParameters(requests=20_000, **parameters), CONTEXT, results)


@pytest.mark.parametrize(("version", "rates"), [("7.0", (35971.22, 33222.59)), ("8.0", (42194.09, 38610.04))])
def test_both_tests_have_a_rate_and_latencies(version, rates):
    outcome = parse(read(f"redis/{version}.csv"))
    assert (outcome.values["set"], outcome.values["get"]) == rates
    assert outcome.values["set_latency_p50"] < outcome.values["set_latency_max"]
    assert outcome.warnings == ()


def test_a_saturated_client_is_a_warning():
    (warning,) = parse(read("redis/7.0.csv"), cpu_s=1.15).warnings
    assert warning.startswith("the client redis-benchmark used 99 % of its 1 CPU")
    assert parse(read("redis/7.0.csv"), cpu_s=1.15, client="guest", threads=4).warnings != ()


def test_a_refused_client_fails_the_trial():
    with pytest.raises(BenchmarkError, match="status 1: Could not connect to Redis"):
        parse("", status=1, stderr=read("redis/8.0-refused.err"))


def test_another_or_an_impossible_report_fails_the_trial():
    for text in ("", read("redis/8.0-set-only.csv"), read("redis/7.0.csv").replace("rps", "rate")):
        with pytest.raises(BenchmarkError, match="no CSV that vtax knows"):
            parse(text)
    with pytest.raises(BenchmarkError, match="but it ran for"):
        parse(read("redis/7.0.csv"), outside_s=0.5)


def test_the_server_keeps_nothing_unless_requested():
    server, remote = commands(BENCHMARK, pipeline=4)
    assert server.argv[-6:] == ("--dir", "/scratch/vtax-redis-3", "--save", "", "--appendonly", "no")
    assert (server.ready_port, remote.place) == (6382, "peer")
    assert remote.argv[remote.argv.index("-P") : remote.argv.index("-P") + 2] == ("-P", "4")
    assert commands(BENCHMARK, append_only=True)[0].argv[-1] == "yes"


def test_values_beyond_the_memory_of_the_guest_are_refused_with_both_numbers():
    with pytest.raises(
        BadInput,
        match=r"values of about 63212 different keys that 100000 requests set need about 61.7 GiB of memory",
    ):
        commands(BENCHMARK, value_size=2**20)
    commands(BENCHMARK, value_size=2**20, requests=100)
