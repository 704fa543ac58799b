"""Redis: server and client, and real reports of redis-benchmark."""

import pytest
from service_reports import CONTEXT, client, commands, read

from vtax.benchmarks.histograms import count_requests, percentile
from vtax.benchmarks.redis import Redis, RedisParameters

BENCHMARK = Redis()


def parse(text, *, outside_s=10.0, cpu_s=0.0, status=0, stderr="", **parameters):
    results = client(text, outside_s=outside_s, cpu_s=cpu_s, status=status, stderr=stderr)
    return BENCHMARK.parse(RedisParameters(**{"requests": 20_000, **parameters}), CONTEXT, results)


@pytest.mark.parametrize(
    ("version", "rates"), [("7.0", (19493.18, 21929.82)), ("8.0", (43103.45, 41493.78))]
)
def test_both_tests_have_a_rate_and_latencies(version, rates):
    outcome = parse(read(f"redis/{version}.txt"))
    assert (outcome.values["set"], outcome.values["get"]) == rates
    assert outcome.values["set_latency_p50"] < outcome.values["set_latency_max"]
    assert outcome.warnings == ()


@pytest.mark.parametrize("version", ["7.0", "8.0"])
@pytest.mark.parametrize("test", ["set", "get"])
def test_all_requests_are_counted_by_latency_and_give_the_percentiles_that_it_prints(version, test):
    outcome = parse(read(f"redis/{version}.txt"))
    counted = outcome.histograms[test]
    assert count_requests(counted) == 20_000
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)):
        assert percentile(counted, share) == outcome.values[f"{test}_latency_{name}"]


def test_rates_of_the_intervals_after_the_first_line_of_a_test_are_samples():
    outcome = parse(read("redis/7.0.txt"))
    assert outcome.samples == {
        "set": [21665.3, 17909.8, 25600.8, 12386.5],
        "get": [13232.3, 22559.5],
    }
    assert outcome.effective["interval_s"] == 0.25
    assert "interval_s" not in parse(read("redis/8.0.txt")).effective  # too short: one line


def test_a_saturated_client_is_a_warning():
    (warning,) = parse(read("redis/7.0.txt"), cpu_s=1.92).warnings
    assert (warning.code, warning.data["tool"]) == ("client-saturated", "redis-benchmark")
    assert warning.data["count"] == 1
    assert warning.data["share"] == pytest.approx(0.99, abs=0.005)
    assert parse(read("redis/7.0.txt"), cpu_s=1.92, client="guest").warnings != ()


def test_the_server_keeps_nothing_unless_requested():
    server, remote = commands(BENCHMARK, pipeline=4)
    assert server.argv[-6:] == (
        "--dir",
        "/scratch/vtax-redis-3",
        "--save",
        "",
        "--appendonly",
        "no",
    )
    assert (server.ready_port, remote.place) == (6382, "peer")
    assert remote.argv[remote.argv.index("-P") : remote.argv.index("-P") + 2] == ("-P", "4")
    assert commands(BENCHMARK, append_only=True)[0].argv[-1] == "yes"


def test_several_clients_of_one_thread_share_requests_and_connections():
    _, alone = commands(BENCHMARK, requests=1000, clients=10)
    assert alone.argv[0] == "redis-benchmark"
    _, several = commands(BENCHMARK, requests=1000, clients=10, threads=3)
    assert several.argv[3:5] == ("set,get", "333:3,333:3,334:4")
    assert "--threads" not in several.argv


def test_a_rate_of_several_clients_is_over_the_time_of_the_longest():
    once = read("redis/7.0.txt")
    slower = once.replace("19493.18 requests", "9746.59 requests")
    set_reports, get_reports = zip(*(split_tests(text) for text in (once, slower)), strict=True)
    whole = "".join((*set_reports, *get_reports))
    outcome = parse(whole, requests=40_000, threads=2)
    assert outcome.values["set"] == pytest.approx(2 * 9746.59)
    assert outcome.values["get"] == pytest.approx(2 * 21929.82)
    assert count_requests(outcome.histograms["set"]) == 40_000
    assert outcome.samples == {}


def split_tests(text):
    """A report's part of SET, and that of GET."""
    at = text.index("====== GET")
    return text[:at], text[at:]


def test_a_rate_is_known_as_finely_as_its_time_in_milliseconds():
    outcome = parse(read("redis/7.0.txt"))
    time_s = 20_000 / outcome.values["set"]
    assert outcome.resolutions["set"] / outcome.values["set"] == pytest.approx(0.001 / time_s)
