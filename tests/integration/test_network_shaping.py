"""Links between native guests as wires: packets of the size that was asked for, and what a shaped link carries."""

import math
import threading

import pytest
from lab_guests import LabGuests
from support import needs_program, needs_root, undisturbed

from vtax.network import wire

pytestmark = [needs_root, needs_program("ip", "nsenter", "ethtool", "tc")]
RATE_MBIT_S = 100
ETHERNET, CHECKSUM = 14, 4  # bytes of a frame: a queueing discipline counts the first alone
SEGMENTS = {"mtu": 116, "packet_bytes": 116, "offloads": False}
netem = pytest.mark.skipif(not wire.has_netem(), reason="this host's kernel has no netem")
bucket = pytest.mark.skipif(wire.has_netem(), reason="this host's kernel has netem")


@pytest.fixture
def lab(image, journal, private_home):
    return lambda topology="point-to-point", **link: LabGuests(
        topology, "native", image, journal, private_home, link
    )


def rates(at, *sizes):
    """Size of both messages -> transactions a second over what a wire carries, and the codes of the warnings."""
    found, rate = {}, at.links.settings.rate_mbit_s
    for size in sizes:
        trial = at.trial(
            "netperf", test="tcp_rr", request_size=size, response_size=size, duration_s=1
        )
        assert trial.error == ""
        carried = wire.transactions_per_s(rate, at.links.settings.mtu, size, size)
        found[size] = (
            trial.outcome.values["transactions"] / carried,
            {note.code for note in trial.warnings},
        )
    return found


def most_of_a_bucket(settings, payload, *, header, rest):
    """How many times as many ping-pongs as a wire a bucket of one frame lets through, with vtax's tolerance.

    While a message waits for its answer the bucket fills, so the first frame of each message goes at once. Of the
    others the bucket counts neither preamble nor checksum nor gap.

    payload: bytes of each message. header: of a packet, beside its part of the message. rest: of a frame on a wire.
    """
    frames = math.ceil(payload / (settings.mtu - header))
    on_wire = payload + frames * (header + rest)
    counted = payload + frames * (header + ETHERNET)
    held_back = counted - wire.burst_bytes(settings.rate_mbit_s, settings.mtu)
    return (1 + wire.TOLERANCE) * on_wire / held_back


def _of_buckets(warnings):
    """Rates of the warning that a link is a bucket, which may stand in that of an echo that was too quick."""
    inner = [note.data["what"] if note.code == "link-echo" else note for note in warnings]
    return [note.data["rate"] for note in inner if note.code == "token-bucket"]


@pytest.mark.parametrize(
    ("topology", "attachment"),
    [("point-to-point", "veth"), ("guest-to-host", "bridge")],
)
def test_segments_of_64_bytes_are_of_64_bytes(topology, attachment, lab):
    """Also at a bridge that receives them, which counts them without the Ethernet header."""
    link = {**SEGMENTS, "attachment": attachment}
    with lab(topology, **link) as at:
        at.apply(link)
        trial = at.trial("iperf2", length=64, no_delay=True, duration_s=1)
        assert trial.outcome.values["packet_bytes"] == pytest.approx(116, rel=0.02)
        assert "packet-size" not in {note.code for note in trial.warnings}


@pytest.mark.parametrize("topology", ["point-to-point", "router"])
def test_packets_of_1500_bytes_are_so_only_without_offloads(topology, lab):
    link = {"packet_bytes": 1500, "attachment": "veth"}
    with lab(topology, **link) as at:
        at.apply(link)
        joined = at.trial("iperf2", duration_s=1)
        assert joined.outcome.values["packet_bytes"] > 10_000
        assert "packet-size" in {note.code for note in joined.warnings}
        at.apply({**link, "offloads": False})
        single = at.trial("iperf2", duration_s=1)
        assert single.outcome.values["packet_bytes"] == pytest.approx(1500, rel=0.03)
        assert "packet-size" not in {note.code for note in single.warnings}


@bucket
@pytest.mark.push
def test_a_bucket_of_one_frame_is_near_a_wire_for_messages_of_several_frames_and_says_what_it_is(
    lab,
):
    link = {"rate_mbit_s": RATE_MBIT_S, "offloads": False}
    with lab(**link) as at:
        at.apply(link)
        assert _of_buckets(at.links.warnings) == [RATE_MBIT_S]

        def exchange():
            return at.trial("netperf", test="tcp_rr", duration_s=1).outcome.values["wire_share"]

        most = most_of_a_bucket(at.links.settings, 8192 + 8, header=20, rest=ETHERNET + CHECKSUM)
        assert 50 < undisturbed(exchange, reaches=lambda found: found > 50) <= 100 * most
        for size in (8192, 65536):
            share, codes = undisturbed(
                lambda size=size: rates(at, size)[size], reaches=lambda found: found[0] > 0.6
            )
            most = most_of_a_bucket(at.links.settings, size, header=52, rest=38)
            assert 0.6 < share <= most, size
            assert ("not-a-wire" in codes) == (share > 1 + wire.TOLERANCE)  # it says what it is
        at.apply(
            {**link, "rate_mbit_s": 10}
        )  # one frame of each message passes at once, however busy the host is
        share, codes = undisturbed(
            lambda: rates(at, 1024)[1024], reaches=lambda found: found[0] > 1.3
        )
        assert share > 1.3
        assert "not-a-wire" in codes


@netem
@pytest.mark.parametrize("attachment", ["bridge", "veth"])
@pytest.mark.push
def test_a_link_with_netem_is_a_wire_in_both_directions(attachment, lab):
    link = {"rate_mbit_s": RATE_MBIT_S, "offloads": False, "attachment": attachment}
    with lab(**link) as at:
        at.apply(link)
        assert at.links.warnings == ()
        assert at.links.wire_share is not None
        assert at.links.wire_share <= 1 / (1 - wire.TOLERANCE)
        found = rates(at, 512, 1024, 8192, 65536)
        assert not any("not-a-wire" in codes for _, codes in found.values()), found
        shares = [share for share, _ in found.values()]
        assert shares[-1] > shares[0]  # the wire's rate is approached with the size


def test_a_peer_that_disappears_in_a_trial_fails_it_and_gives_no_figure(lab):
    with lab() as at:
        at.apply({})
        ending = threading.Timer(1.0, at.endpoints["peer"].running.process.kill)
        ending.start()
        trial = at.trial("netperf", test="tcp_rr", duration_s=3)
        ending.join()
        assert trial.outcome.values == {}
        assert trial.error.startswith(
            "the peer of the trial disappeared: the guest closed its channel"
        )


@netem
def test_delay_and_loss_are_those_of_netem(lab):
    with lab(offloads=False) as at:
        at.apply({"offloads": False, "delay_us": 5000})
        trial = at.trial("netperf", test="tcp_rr", duration_s=1)
        assert 10_000 < trial.outcome.values["latency_mean"] < 30_000
        at.apply({"offloads": False, "loss": 50})
        lost = at.trial("iperf2", protocol="udp", rate_mbit_s=1, duration_s=2)
        assert 25 < lost.outcome.values["loss"] < 75


def test_requests_wait_for_a_stream_that_fills_the_link(lab):
    with lab(rate_mbit_s=RATE_MBIT_S) as at:
        alone, beside = (
            at.trial("loaded-latency", load=load, duration_s=1) for load in ("none", "send")
        )
        assert (alone.error, beside.error) == ("", "")
        rate = beside.outcome.values["stream_rate"]
        assert 0.5 * RATE_MBIT_S < rate < RATE_MBIT_S
        frame_us = 1500 * 8 / RATE_MBIT_S
        waits_us = beside.outcome.values["latency_mean"] - alone.outcome.values["latency_mean"]
        assert waits_us > frame_us / 2
        assert "stream_rate" not in alone.outcome.values


def test_datagrams_of_18_bytes_are_packets(lab):
    with lab() as at:
        trial = at.trial("netperf", test="udp_stream", message_size=18, duration_s=1)
        assert trial.error == ""
        assert trial.outcome.values["packet_bytes"] == pytest.approx(46, abs=2)
        received = trial.outcome.values["packets"]
        assert 1000 < received <= trial.counters["link", "lab.guest-eth0.rx_packets"]
