"""Requests beside streams on the same link: the commands, and real reports of netperf."""

import subprocess
from dataclasses import replace

import pytest
from tool_under_test import FIXTURES

from vtax.benchmarks.base import Context
from vtax.benchmarks.loaded_latency import LoadedLatency, LoadedLatencyParameters
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

BENCHMARK = LoadedLatency()
CONTEXT = Context(1, 2**29, guest_address="198.18.0.2", peer_address="198.18.0.1", flow=1)


def read(file):
    return (FIXTURES / "loaded-latency" / file).read_text()


def parse(text, *, status=0, stderr="", context=CONTEXT, **given):
    result = CommandResult(("sh",), status, text, stderr, 3.2, 3.2)
    given = {"duration_s": 1, **given}
    return BENCHMARK.parse(LoadedLatencyParameters(**given), context, {"client": result})


@pytest.mark.parametrize(
    ("file", "given", "rates"),
    [
        ("2.7.1-none.txt", {"load": "none"}, []),
        ("2.7.1-both.txt", {"load": "both"}, [3404.69, 2429.30]),
        ("2.7.1-send-2-streams.txt", {"load": "send", "streams": 2}, [5050.57, 4872.23]),
    ],
)
def test_latencies_are_of_the_requests_and_the_rate_is_of_all_streams(file, given, rates):
    outcome = parse(read(file), **given)
    values = outcome.values
    assert 0 < values["latency_p50"] <= values["latency_p90"] <= values["latency_p99"]
    assert values["latency_p99"] <= values["latency_max"]
    assert values.get("stream_rate", 0) == pytest.approx(sum(rates))
    assert outcome.effective["streams"] == len(rates)
    assert outcome.effective["request_size"] == 64
    assert set(values) <= {metric.name for metric in BENCHMARK.metrics}


def test_streams_are_around_the_requests_between_the_same_ends():
    server, client = BENCHMARK.commands(
        LoadedLatencyParameters(load="both", streams=2, duration_s=3), CONTEXT
    )
    assert (server.argv[0], server.place, server.ready_port) == ("netserver", "peer", 12866)
    scratch, seconds, host, port, tests = client.argv[4:9]
    assert scratch == "/scratch/vtax-loaded-latency-1"
    assert (seconds, host, port) == ("5", "198.18.0.1", "12866")
    assert tests == "TCP_STREAM TCP_MAERTS TCP_STREAM TCP_MAERTS"
    requests = client.argv[9:]
    assert requests[:2] == ("netperf", "-H")
    assert requests[requests.index("-t") + 1] == "TCP_RR"
    assert requests[requests.index("-l") + 1] == "3"
    assert requests[requests.index("-r") + 1] == "64,64"
    _, alone = BENCHMARK.commands(LoadedLatencyParameters(load="none"), CONTEXT)
    assert alone.argv[8] == ""


def test_the_script_ends_with_the_status_of_the_requests_and_leaves_no_file(tmp_path):
    netperf = tmp_path / "netperf"
    netperf.write_text("#!/bin/sh\necho THROUGHPUT=7\n")
    netperf.chmod(0o755)
    files = tmp_path / "files"
    files.mkdir()
    context = replace(CONTEXT, scratch=str(files))
    _, client = BENCHMARK.commands(LoadedLatencyParameters(load="both"), context)
    argv = (*client.argv[:9], "sh", "-c", "echo requests; exit 3")
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(argv, env={"PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    reports = "".join(f"== stream {number}\nTHROUGHPUT=7\n" for number in (1, 2))
    assert done.stdout == f"requests\n{reports}"
    assert list(files.iterdir()) == []


REFUSED = [
    ({"load": "receive"}, read("2.7.1-none.txt"), "0 streams reported a rate where 1 were"),
    ({"load": "both"}, read("2.7.1-both.txt").replace("THROUGHPUT=3404", "R=3404"), "1 streams"),
    ({"load": "both"}, read("2.7.1-both.txt").replace("=3404.69", "=fast"), "not understood"),
    ({"load": "none"}, "", "netperf failed"),
    ({"load": "none"}, read("2.7.1-none.txt").replace("P99_LATENCY", "P98"), "not understood"),
]


@pytest.mark.parametrize(("given", "text", "words"), REFUSED)
def test_what_is_no_report_of_the_requests_and_of_every_stream_is_refused(given, text, words):
    with pytest.raises(BenchmarkError, match=words):
        parse(text, **given)


def test_without_a_server_the_trial_fails_in_netperfs_words():
    with pytest.raises(BenchmarkError, match="could not establish the control connection"):
        parse(
            read("2.7.1-refused.txt"),
            status=255,
            stderr=(FIXTURES / "loaded-latency/2.7.1-refused.err").read_text(),
        )


def test_streams_faster_than_the_link_are_refused():
    slow = replace(CONTEXT, link_mbit_s=1000.0, mtu=1500)
    with pytest.raises(BenchmarkError, match="impossible"):
        parse(read("2.7.1-both.txt"), load="both", context=slow)
