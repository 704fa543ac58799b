"""iperf 2: what its commands ask for and what the real reports of both ends mean."""

from pathlib import Path

import pytest

from vtax.benchmarks.base import Context
from vtax.benchmarks.iperf2 import Iperf2, Iperf2Parameters
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

BENCHMARK = Iperf2()

FIXTURES = Path(__file__).parent / "fixtures" / "iperf2"
CONTEXT = Context(1, 2**29, guest_address="198.18.0.2", peer_address="198.18.0.1")
VERSIONS = ["2.1.8", "2.2.1"]


def parse(name, context=CONTEXT, **parameters):
    return outcome(name, context, **parameters).values


def outcome(name, context=CONTEXT, **parameters):
    results = {
        role: CommandResult(
            ("iperf",), 0, (FIXTURES / f"{name}.{role}.csv").read_text(), "", 1.1, 1.1
        )
        for role in ("client", "server")
    }
    return BENCHMARK.parse(Iperf2Parameters(**parameters), context, results)


def rate(name, role, line):
    return int((FIXTURES / f"{name}.{role}.csv").read_text().splitlines()[line].split(",")[8]) / 1e6


def client(**parameters):
    return BENCHMARK.commands(Iperf2Parameters(**parameters), CONTEXT)[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_rate_comes_from_the_end_it_belongs_to(version):
    sent = parse(f"{version}-tcp_send")
    assert sent["throughput"] == rate(f"{version}-tcp_send", "server", 0)
    assert sent["sent"] == rate(f"{version}-tcp_send", "client", 0)
    received = parse(f"{version}-tcp_receive", direction="receive")
    assert received["throughput_receive"] == rate(f"{version}-tcp_receive", "client", 0)
    assert received["sent"] == rate(f"{version}-tcp_receive", "server", 0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_both_directions_add_up(version, protocol):
    values = parse(f"{version}-{protocol}_both", direction="both", protocol=protocol)
    assert values["throughput"] == pytest.approx(
        values["throughput_send"] + values["throughput_receive"]
    )
    assert values["throughput_send"] == rate(f"{version}-{protocol}_both", "server", 0)
    report = (FIXTURES / f"{version}-{protocol}_both.client.csv").read_text().splitlines()
    line = next(number for number, text in enumerate(report) if text.split(",")[2] == "5001")
    assert values["throughput_receive"] == rate(f"{version}-{protocol}_both", "client", line)


@pytest.mark.parametrize("version", VERSIONS)
def test_parallel_streams_add_up_without_their_sum_line(version):
    values = parse(f"{version}-tcp_parallel", parallel=2)
    name = f"{version}-tcp_parallel"
    assert values["throughput"] == pytest.approx(rate(name, "server", 0) + rate(name, "server", 1))


@pytest.mark.parametrize("version", VERSIONS)
def test_udp_loss_and_jitter_are_the_receivers(version):
    values = parse(f"{version}-udp_overload", protocol="udp", length=64)
    assert 50 < values["loss"] < 100
    assert values["sent"] > values["throughput"]
    received = parse(f"{version}-udp_receive", protocol="udp", direction="receive")
    assert 0 <= received["loss"] < 10
    assert received["throughput"] == pytest.approx(received["sent"], rel=0.1)


def test_a_missing_stream_fails_the_trial():
    with pytest.raises(BenchmarkError, match="not 3"):
        parse("2.2.1-tcp_parallel", parallel=3)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refused_connection_is_an_error_although_the_exit_status_is_0(version):
    message = (FIXTURES / f"{version}-refused.txt").read_text()
    results = {
        "client": CommandResult(("iperf",), 0, "", message, 0, 0),
        "server": CommandResult((), -15, "", "", 0, 0),
    }
    with pytest.raises(BenchmarkError, match="Connection refused"):
        BENCHMARK.parse(Iperf2Parameters(), CONTEXT, results)


def test_a_rate_above_the_link_fails_the_trial():
    with pytest.raises(BenchmarkError, match="impossible"):
        parse("2.2.1-tcp_send", context=Context(1, 1, link_mbit_s=100))


def test_parameters_reach_both_ends():
    server, sender = BENCHMARK.commands(
        Iperf2Parameters(length=4096, window=65536, mss=1000), CONTEXT
    )
    for command in (server, sender):
        assert "-w 65536 -M 1000" in " ".join(command.argv)
    assert "-l 4096" in " ".join(sender.argv)
    assert (server.place, server.ready_port) == ("peer", 5001)


def test_a_tcp_server_is_given_no_length_below_that_of_iperfs_header():
    """The client tells it; with -l 64 iperf 2.1.8 ended with "read tcp header too large"."""
    server, sender = BENCHMARK.commands(Iperf2Parameters(length=64, direction="receive"), CONTEXT)
    assert "-l" not in server.argv
    assert "-l" in sender.argv
    server, sender = BENCHMARK.commands(Iperf2Parameters(length=64, protocol="udp"), CONTEXT)
    assert "-l" in server.argv
    assert "-l" in sender.argv


def test_udp_is_as_fast_as_it_goes_unless_reported_otherwise():
    assert client(protocol="udp").argv[-2:] == ("-b", "100g")
    assert client(protocol="udp", rate_mbit_s=50).argv[-2:] == ("-b", "50m")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_udp_rate_that_was_not_reached_is_a_warning_in_its_direction(version):
    def warnings(rate_mbit_s):
        requested = {"protocol": "udp", "direction": "both", "rate_mbit_s": rate_mbit_s}
        return outcome(f"{version}-udp_both", **requested).warnings

    assert warnings(50) == ()
    found = [(note.code, note.data["requested"], note.data["direction"]) for note in warnings(60)]
    assert found == [("sender-slower", 60, "send"), ("sender-slower", 60, "receive")]


def test_what_its_reports_do_not_say_is_called_so():
    requested = outcome("2.2.1-tcp_send", window=65536, mss=1000)
    assert {
        requested.effective[name] for name in ("send_buffer", "receive_buffer", "mss", "congestion")
    } == {"not reported"}


def test_small_writes_are_not_kept_for_the_next_one_where_requested():
    assert "-N" in client(no_delay=True, length=64).argv
    assert "-N" not in client(length=64).argv
