"""iperf3: what its commands ask for and what its real reports mean."""

import json
import re
from pathlib import Path

import pytest

from vtax.benchmarks.base import Context
from vtax.benchmarks.iperf3 import Iperf3, Iperf3Parameters
from vtax.guest.results import CommandResult
from vtax.messages import Note

BENCHMARK = Iperf3()

FIXTURES = Path(__file__).parent / "fixtures" / "iperf3"
CONTEXT = Context(1, 2**29, guest_address="198.18.0.2", peer_address="198.18.0.1")


def parse(fixture, context=CONTEXT, status=0, **parameters):
    stdout = (FIXTURES / f"{fixture}.json").read_text()
    result = CommandResult(("iperf3",), status, stdout, "", 2.1, 2.1)
    return BENCHMARK.parse(Iperf3Parameters(**parameters), context, {"client": result})


def client_argv(**parameters):
    return BENCHMARK.commands(Iperf3Parameters(**parameters), CONTEXT)[1].argv


def test_the_server_runs_on_the_peer_and_is_waited_for():
    server, client = BENCHMARK.commands(Iperf3Parameters(), CONTEXT)
    assert (server.role, server.place, server.ready_port) == ("server", "peer", 5201)
    assert (client.role, client.place) == ("client", "guest")
    assert client.argv[:3] == ("iperf3", "-c", "198.18.0.1")


def test_flows_at_once_use_ports_of_their_own():
    server, client = BENCHMARK.commands(
        Iperf3Parameters(), Context(1, 1, peer_address="198.18.0.1", flow=3)
    )
    assert server.ready_port == 5204
    assert "5204" in server.argv
    assert "5204" in client.argv


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"direction": "receive"}, "-R"),
        ({"direction": "both"}, "--bidir"),
        ({"duration_s": 3, "omit_s": 1, "parallel": 2}, "-t 3 -i 0.3 -O 1 -P 2"),
        ({"length": "4KiB", "window": "64KiB", "mss": 1000}, "-l 4096 -w 65536 -M 1000"),
        ({"protocol": "udp"}, "-u -b 0"),  # as fast as it goes
        ({"no_delay": True}, "-N"),
        *(
            ({"duration_s": s}, f"-t {s} -i {tenth}")
            for s, tenth in ((1, "0.1"), (10, "1"), (86400, "60"))
        ),
    ],
)
def test_parameters_reach_the_command_and_nothing_that_was_not_requested(given, words):
    argv = " ".join(client_argv(**given))
    assert all(f" {part.strip()} " in f"{argv} " for part in re.findall(r"--?\w+[^-]*", words))
    assert not {"-R", "--bidir", "-u", "-N", "-w", "-M"} & {*argv.split()} - {*words.split()}


@pytest.mark.parametrize("version", ["3.12", "3.18"])
def test_tcp_send_is_the_rate_at_the_receiver(version):
    expected = {"3.12": 11123.007688617722, "3.18": 17384.294493000324}[version]
    values = parse(f"{version}-tcp-send").values
    assert values["throughput"] == pytest.approx(expected)
    assert values["throughput_send"] == values["throughput"]
    assert "throughput_receive" not in values
    assert values["sent"] > values["throughput"]


@pytest.mark.parametrize("version", ["3.12", "3.18"])
def test_tcp_receive_is_named_for_the_guest(version):
    values = parse(f"{version}-tcp-receive", direction="receive").values
    assert values["throughput_receive"] == values["throughput"]
    assert "throughput_send" not in values


def test_both_directions_add_up_and_stay_apart():
    outcome = parse("3.18-tcp-both", direction="both")
    values = outcome.values
    assert values["throughput_send"] == pytest.approx(22669.50149591635)
    assert values["throughput_receive"] == pytest.approx(28268.4786393522)
    assert values["throughput"] == pytest.approx(
        values["throughput_send"] + values["throughput_receive"]
    )
    assert values["retransmits"] == 6
    assert values["cpu_guest"] == pytest.approx(93.13188095836483)


@pytest.mark.parametrize("fixture", ["3.12-udp-both", "3.18-udp-both"])
def test_udp_both_takes_each_rate_at_its_own_end(fixture):
    values = parse(fixture, protocol="udp", direction="both", rate_mbit_s=20).values
    assert values["sent"] > values["throughput"] > 35
    assert "retransmits" not in values


def test_udp_loss_and_jitter_are_the_receivers():
    values = parse("3.18-udp-overload", protocol="udp", length=64).values
    assert values["loss"] == pytest.approx(54.90148882503673)
    assert values["throughput"] == pytest.approx(23.00516291613334)
    assert values["sent"] == pytest.approx(51.0117799412252)
    assert values["jitter"] > 0


def test_samples_are_the_throughput_of_the_intervals():
    samples = parse("3.18-tcp-receive", direction="receive").samples
    assert samples == {"throughput": pytest.approx([13475.30313471632, 12473.563435278986])}
    both = parse("3.18-tcp-both", direction="both")
    assert both.samples["throughput"][0] == pytest.approx(21879.078470649883 + 27048.74332947276)
    assert sum(both.samples["throughput"]) / 2 == pytest.approx(both.values["throughput"], rel=0.01)


def test_what_a_udp_sender_reports_is_no_sample_of_what_arrived():
    assert parse("3.18-udp-overload", protocol="udp", length=64).samples == {}
    assert parse("3.18-udp-both", protocol="udp", direction="both").samples == {}
    assert (
        len(parse("3.18-udp-receive", protocol="udp", direction="receive").samples["throughput"])
        == 2
    )


def test_omitted_intervals_and_remainders_are_no_samples():
    report = json.loads((FIXTURES / "3.18-tcp-receive.json").read_text())
    first, second = report["intervals"]

    def samples(*intervals):
        stdout = json.dumps({**report, "intervals": intervals})
        result = CommandResult(("iperf3",), 0, stdout, "", 2.1, 2.1)
        return BENCHMARK.parse(
            Iperf3Parameters(direction="receive"), CONTEXT, {"client": result}
        ).samples

    omitted = {**first, "sum": {**first["sum"], "omitted": True}}
    remainder = {**first, "sum": {**first["sum"], "seconds": 0.01}}
    assert samples(omitted, second) == {}
    assert samples(omitted, first, second, remainder) == samples(first, second) != {}


def test_what_was_really_used_is_kept():
    used = parse("3.18-tcp-parallel", parallel=3, window=65536, mss=1000, length=4096).effective
    assert used["send_buffer"] == 131072
    assert used["mss"] == 1000
    assert used["congestion"] == "bbr"
    assert used["streams"] == 3


def test_a_doubled_buffer_is_as_requested_and_a_capped_one_is_a_warning():
    assert parse("3.18-tcp-parallel", window=65536, mss=1000).warnings == ()
    capped = parse("3.18-tcp-parallel", window=262144, mss=1000).warnings
    assert [warning.code for warning in capped] == ["buffer-not-as-requested"] * 2
    assert capped[0].data == {"name": "send buffer", "requested": 262144, "found": 131072}


def test_an_mss_that_was_not_granted_is_a_warning():
    warnings = parse("3.18-tcp-parallel", mss=1400).warnings
    assert Note("not-as-requested", name="mss", requested=1400, found=1000) in warnings


def test_both_directions_may_each_fill_the_link():
    limited = Context(1, 1, peer_address="198.18.0.1", link_mbit_s=19.7)
    values = parse("3.18-udp-both", context=limited, protocol="udp", direction="both").values
    assert values["throughput"] > 19.7


def gvisor(**link):
    return parse(
        "3.18-gvisor-tcp-send", context=Context(1, 2**29, peer_address="198.18.0.1", **link)
    )


def test_another_congestion_control_than_the_links_is_a_warning():
    assert gvisor(congestion="cubic").warnings == (
        Note("not-as-requested", name="congestion", requested="cubic", found="reno"),
    )
    assert gvisor(congestion="reno").warnings == (
        Note("not-as-requested", name="receiver_congestion", requested="reno", found="cubic"),
    )
    assert gvisor().warnings == ()


@pytest.mark.parametrize(
    ("mtu", "mss"),
    [(500, "not reported"), (575, "not reported"), (576, 536), (588, 536), (1500, "not reported")],
)
def test_a_segment_size_that_cannot_be_in_use_is_not_reported(mtu, mss):
    assert gvisor(mtu=mtu).effective["mss"] == mss


def test_a_segment_size_that_fits_the_mtu_or_was_requested_for_is_reported():
    assert parse("3.18-tcp-send", context=Context(1, 1, mtu=1500)).effective["mss"] == 1448
    requested = parse("3.18-gvisor-tcp-send", context=Context(1, 1, mtu=1500), mss=536)
    assert (requested.effective["mss"], requested.warnings) == (536, ())
    untold = parse("3.18-gvisor-tcp-send", context=Context(1, 1, mtu=1500), mss=1000)
    assert (untold.effective["mss"], untold.warnings) == ("not reported", ())


def test_a_udp_rate_that_was_not_reached_is_a_warning_in_its_direction():
    requested = {"protocol": "udp", "direction": "both"}
    assert parse("3.18-udp-both", rate_mbit_s=20.5, **requested).warnings == ()
    warnings = parse("3.18-udp-both", rate_mbit_s=22, **requested).warnings
    assert {warning.code for warning in warnings} == {"sender-slower"}
    assert [warning.data["direction"] for warning in warnings] == ["send", "receive"]
    for warning in warnings:
        assert warning.data["requested"] == 22
        assert warning.data["found"] == pytest.approx(20.0, rel=1e-3)
    (several,) = parse("3.18-udp-send", protocol="udp", rate_mbit_s=50, parallel=2).warnings
    assert (several.code, several.data["requested"]) == ("sender-slower", 100)


def test_min_and_max_of_intervals_leave_out_omitted_ones():
    report = json.loads((FIXTURES / "3.18-tcp-receive.json").read_text())
    slow = {**report["intervals"][0]["sum"], "omitted": True, "bits_per_second": 1.0}
    report["intervals"].insert(0, {**report["intervals"][0], "sum": slow})
    result = CommandResult(("iperf3",), 0, json.dumps(report), "", 2.1, 2.1)
    used = BENCHMARK.parse(
        Iperf3Parameters(direction="receive", omit_s=1), CONTEXT, {"client": result}
    ).effective
    assert used["interval_min_mbit_s"] == pytest.approx(12473.563435278986)
    assert used["interval_max_mbit_s"] == pytest.approx(13475.30313471632)
