"""What only a trial can show is on its cell: a warning where less was used than asked, a reason for a failure."""

import pytest
from lab_guests import LabGuests
from support import needs_program, needs_root

from vtax.errors import BenchmarkError, GuestError
from vtax.platforms import registry as platforms

pytestmark = [needs_root, needs_program("ip", "nsenter", "ethtool", "tc")]


@pytest.fixture
def lab(image, journal, private_home):
    def build(name, topology="point-to-point", **link):
        probe = platforms.get(name).probe(image)
        if not probe.available:
            pytest.skip(f"{name} does not run here: {probe.reason}")
        return LabGuests(topology, name, image, journal, private_home, link)

    return build


@pytest.mark.parametrize(
    ("topology", "attachment"),
    [
        ("point-to-point", "bridge"),
        ("point-to-point", "veth"),
        ("point-to-point", "macvtap"),
        ("point-to-point", "nat"),
        ("guest-to-host", "bridge"),
    ],
)
def test_every_interface_has_the_queues_that_were_requested_for(topology, attachment, lab):
    link = {"attachment": attachment, "queues": 2}
    with lab("native", topology, **link) as at:
        at.apply(link)
        assert {
            name: state["queues"] for name, state in at.links.effective["interfaces"].items()
        } == {
            "peer.eth0": 2,
            "guest.eth0": 2,
        }
        assert "link-queues" not in {note.code for note in at.links.warnings}


def test_queues_that_a_guest_with_one_cpu_does_not_use_are_a_warning(lab):
    with lab("qemu-tcg", queues=2) as at:
        at.apply({"queues": 2})
        (warning,) = [note for note in at.links.warnings if note.code == "link-queues"]
        assert warning.data == {"name": "guest.eth0", "requested": 2, "found": 1}


def test_a_netperf_that_misses_its_confidence_says_by_how_much(lab):
    requested = {
        "confidence_percent": 99,
        "confidence_width_percent": 0.001,
        "min_iterations": 3,
        "max_iterations": 3,
    }
    with lab("native") as at:
        outcome = at.measure("netperf", duration_s=1, **requested)
    (warning,) = [note for note in outcome.warnings if note.code == "confidence-missed"]
    assert (warning.data["percent"], warning.data["requested"]) == (99, 0.001)
    assert int(warning.data["iterations"]) == 3
    assert warning.data["found"] > 0.001


def test_a_buffer_that_a_guests_kernel_cuts_is_a_warning_with_both_sizes(lab):
    with lab("qemu-tcg") as at:
        for limit in ("wmem_max", "rmem_max"):
            at.run("guest", "sh", "-c", f"echo 65536 >/proc/sys/net/core/{limit}")
        for tool, parameter in (
            ("iperf3", "window"),
            ("netperf", "socket_buffer"),
            ("sockperf", "socket_buffer"),
        ):
            warnings = at.measure(tool, duration_s=1, **{parameter: 131072}).warnings
            buffers = [note.data for note in warnings if note.code == "buffer-not-as-requested"]
            assert {each["requested"] for each in buffers} == {131072}, tool
            assert 131072 in {each["found"] for each in buffers}, tool


def test_sockperf_tells_the_buffers_of_both_ends(lab):
    with lab("native") as at:
        for protocol in ("tcp", "udp"):
            outcome = at.measure("sockperf", duration_s=1, protocol=protocol, socket_buffer=65536)
            for name in (
                "send_buffer",
                "receive_buffer",
                "peer_send_buffer",
                "peer_receive_buffer",
            ):
                assert outcome.effective[name] == 131072
            assert "buffer-not-as-requested" not in {note.code for note in outcome.warnings}


@pytest.mark.parametrize(
    ("platform", "used", "mss"),
    [("native", "cubic", 1448), ("gvisor-systrap", "reno", "not reported")],
)
def test_the_congestion_control_and_the_segment_size_are_those_of_the_guests_kernel(
    platform, used, mss, lab
):
    with lab(platform) as at:
        for tool in ("iperf3", "netperf"):
            outcome = at.measure(tool, duration_s=1)
            assert (outcome.effective["congestion"], outcome.effective["mss"]) == (used, mss)
            if platform == "native":
                both = [
                    value
                    for name, value in outcome.effective.items()
                    if name.endswith("congestion")
                ]
                assert both == ["cubic", "cubic"]
                assert outcome.warnings == ()
            else:
                notes = [note for note in outcome.warnings if note.code == "not-as-requested"]
                given = {"name": "congestion", "requested": "cubic", "found": "reno"}
                assert given in [note.data for note in notes]


def test_a_peer_without_the_tool_is_named_with_it(lab):
    with lab("podman", "guest-to-guest") as at:
        at.run("peer", "rm", "/usr/bin/iperf3")  # of its own overlay
        with pytest.raises(GuestError, match="iperf3"):
            at.measure("iperf3", duration_s=1)


def test_a_peer_that_cannot_be_reached_fails_the_trial_with_the_tools_own_words(lab):
    with lab("native") as at:
        at.links.end("guest").namespace.ip("link set dev eth0 down")
        with pytest.raises(
            BenchmarkError, match=r"iperf3 (failed|ended) with status 1.*unreachable"
        ):
            at.measure("iperf3", duration_s=1)
