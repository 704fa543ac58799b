"""memcached: server and client, and real reports of memcaslap."""

import pytest
from service_reports import CONTEXT, client, commands, read

from vtax.benchmarks.memcached import Memcached, MemcachedParameters
from vtax.errors import BadInput

BENCHMARK = Memcached()


def parse(text, *, outside_s=2.1, cpu_s=0.0, status=0, **parameters):
    results = client(text, outside_s=outside_s, cpu_s=cpu_s, status=status)
    return BENCHMARK.parse(MemcachedParameters(duration_s=2, **parameters), CONTEXT, results)


@pytest.mark.parametrize(
    ("suite", "values"),
    [("bookworm", (44548.0, 0.179, 9.594)), ("trixie", (51278.0, 0.155, 8.372))],
)
def test_requests_have_a_rate_and_a_latency(suite, values):
    outcome = parse(read(f"memcached/{suite}.txt"))
    assert (
        tuple(outcome.values[name] for name in ("requests", "latency_avg", "latency_max")) == values
    )


def test_a_saturated_client_is_a_warning():
    (warning,) = parse(read("memcached/trixie.txt"), cpu_s=2.05).warnings
    assert (warning.code, warning.data["tool"]) == ("client-saturated", "memcaslap")
    assert warning.data["count"] == 1
    assert warning.data["share"] == pytest.approx(0.98, abs=0.005)


def test_the_cache_is_in_the_guests_memory():
    server, remote = commands(BENCHMARK, cache="100MiB", workers=2)
    assert (
        " ".join(server.argv) == "memcached -u memcache -l 198.18.0.2 -p 11214 -m 100 -t 2 -c 4096"
    )
    assert (remote.place, remote.argv[1]) == ("peer", "--servers=198.18.0.2:11214")
    with pytest.raises(BadInput, match=r"cache is 1 GiB, .*guest has 1 GiB"):
        commands(BENCHMARK, cache="1GiB")
