"""sockperf: what its commands ask for and what its real output means."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from vtax.benchmarks.base import Context
from vtax.benchmarks.histograms import count_requests, percentile
from vtax.benchmarks.sockperf import Sockperf, SockperfParameters
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

BENCHMARK = Sockperf()

FIXTURES = Path(__file__).parent / "fixtures" / "sockperf"
CONTEXT = Context(1, 2**29, guest_address="198.18.0.2", peer_address="198.18.0.1")
SUITES = ["bookworm", "trixie"]


def parse(fixture, context=CONTEXT, **parameters):
    return BENCHMARK.parse(SockperfParameters(**parameters), context, {"client": printed(fixture)})


def printed(fixture):
    return CommandResult(("sockperf",), 0, (FIXTURES / f"{fixture}.txt").read_text(), "", 2.1, 2.1)


def at_both_ends(fixture, **parameters):
    results = {role: printed(f"{fixture}.{role}") for role in ("client", "server")}
    return BENCHMARK.parse(
        SockperfParameters(messages_per_second=500, **parameters), CONTEXT, results
    )


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize(
    "kind", ["udp-under-load", "tcp-under-load", "udp-ping-pong", "tcp-ping-pong"]
)
def test_percentiles_rise_and_the_load_is_what_was_sent(suite, kind):
    protocol, _, mode = kind.partition("-")
    outcome = parse(f"{suite}-{kind}", protocol=protocol, mode=mode, messages_per_second=2000)
    v = outcome.values
    assert (
        0
        < v["latency_p50"]
        <= v["latency_p90"]
        <= v["latency_p99"]
        <= v["latency_p999"]
        <= v["latency_max"]
    )
    assert outcome.effective["observations"] > 1000
    if mode == "under-load":
        assert v["messages"] == pytest.approx(2000, rel=0.15)
        assert parse(f"{suite}-{kind}", protocol=protocol, messages_per_second=1500).warnings == ()


@pytest.mark.parametrize("suite", SUITES)
def test_a_load_that_was_not_reached_is_a_warning(suite):
    outcome = parse(f"{suite}-udp-overload", messages_per_second=1_000_000)
    (low,) = (warning for warning in outcome.warnings if warning.code == "load-lower")
    assert low.data["requested"] == 1_000_000


def test_parameters_reach_both_ends():
    server, client = BENCHMARK.commands(
        SockperfParameters(protocol="tcp", socket_buffer=65536), CONTEXT
    )
    for command in (server, client):
        assert "-i 198.18.0.1 -p 11111 --tcp --buffer-size 65536" in " ".join(command.argv)
    assert server.ready_port == 11111
    assert "--mps 1000 --reply-every 1" in " ".join(client.argv)


BUFFERS = ("send_buffer", "receive_buffer", "peer_send_buffer", "peer_receive_buffer")


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_the_buffers_of_both_ends_are_reported_and_doubled_as_requested(suite, protocol):
    outcome = at_both_ends(f"{suite}-{protocol}-buffer", protocol=protocol, socket_buffer=65536)
    assert {outcome.effective[name] for name in BUFFERS} == {131072}
    assert outcome.warnings == ()


@pytest.mark.parametrize("suite", SUITES)
def test_a_capped_buffer_is_a_warning_at_its_end(suite):
    outcome = at_both_ends(f"{suite}-tcp-capped", protocol="tcp", socket_buffer=9_000_000)
    assert outcome.effective["peer_receive_buffer"] == 8388608
    ends = [text.partition(":")[0] for text in outcome.warnings]
    assert ends == ["send buffer", "receive buffer", "peer send buffer", "peer receive buffer"]


def test_buffers_that_nobody_requested_for_are_not_reported():
    used = parse("trixie-tcp-under-load", protocol="tcp", messages_per_second=1500).effective
    assert {used[name] for name in BUFFERS} == {"not reported"}


def test_more_messages_than_the_link_carries_fail_the_trial():
    def at(link_mbit_s, **requested):
        context = Context(1, 1, link_mbit_s=link_mbit_s)
        return parse(
            "trixie-tcp-under-load", context, protocol="tcp", messages_per_second=1500, **requested
        )

    mbit_s = 3949 * 1000 * 8 / 1e6 / 2.257  # answers, bytes, and the time of the test with its tail
    assert at(mbit_s, message_size=1000).values["messages"] > 1500
    with pytest.raises(BenchmarkError, match="impossible"):
        at(mbit_s / 1.1, message_size=1000)
    with pytest.raises(BenchmarkError, match="impossible"):
        at(mbit_s, message_size=1000, reply_every=2)


def test_logged_answers_are_counted_and_give_the_percentiles_that_it_prints():
    outcome = parse("bookworm-udp-logged", duration_s=1, messages_per_second=2000)
    counted = outcome.histograms["latency"]
    assert count_requests(counted) == outcome.effective["observations"] == 1099
    for name, share in (("p50", 0.5), ("p90", 0.9)):
        assert percentile(counted, share) == pytest.approx(
            outcome.values[f"latency_{name}"], rel=0.01
        )
    assert outcome.samples == {"latency_p50": [69.25, 429.0, 83.75, 71.25, 65.75]}
    assert outcome.effective["interval_s"] == 0.1
    without = parse("bookworm-udp-under-load", messages_per_second=2000)
    assert without.histograms == {"latency": [without.effective["observations"]]}


def test_the_log_is_counted_beside_the_tool_unless_it_would_be_large(tmp_path):
    lines = [f"{n}, {1 + n / 100:.9f}, 9.000000000, {100 + n:.3f}" for n in range(11)]
    (tmp_path / "lines").write_text("\n".join(["packet, txTime(sec)", *lines, ""]))
    tool = tmp_path / "tool"
    tool.write_text(f'#!/bin/sh\ncp {tmp_path}/lines "$3"\nexit 3\n')
    tool.chmod(0o755)
    client = BENCHMARK.commands(
        SockperfParameters(duration_s=1), replace(CONTEXT, scratch=str(tmp_path))
    )[1]
    before = client.argv[: client.argv.index("sockperf")]
    done = subprocess.run([*before, str(tool), "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert (
        sum(
            int(line.split()[-1])
            for line in done.stdout.splitlines()
            if line.startswith("interval")
        )
        == 11
    )
    assert {"interval 0 109.25 1", "interval 1 110.25 1", "logged 0.1 s"} <= set(
        done.stdout.splitlines()
    )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lines", "tool"]
    assert (
        BENCHMARK.commands(SockperfParameters(messages_per_second=100_000), CONTEXT)[1].argv[0]
        == "sockperf"
    )
