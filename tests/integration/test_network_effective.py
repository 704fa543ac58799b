"""What only a trial can show is on its cell: a warning where less was used than asked, a reason for a failure."""

import pytest
from lab_guests import LabGuests
from support import needs_program, needs_root

from vtax.errors import BenchmarkError, GuestError
from vtax.platforms import registry as platforms

pytestmark = [needs_root, needs_program("ip", "nsenter", "ethtool", "tc"), pytest.mark.root]


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
        assert not [text for text in at.links.warnings if "queues" in text]


def test_queues_that_a_guest_with_one_cpu_does_not_use_are_a_warning(lab):
    with lab("qemu-tcg", queues=2) as at:
        at.apply({"queues": 2})
        assert "guest.eth0: queues requested 2, effective 1" in at.links.warnings


def test_a_netperf_that_misses_its_confidence_says_by_how_much(lab):
    requested = {
        "confidence_percent": 99,
        "confidence_width_percent": 0.001,
        "min_iterations": 3,
        "max_iterations": 3,
    }
    with lab("native") as at:
        outcome = at.measure("netperf", duration_s=1, **requested)
    (warning,) = [text for text in outcome.warnings if "confidence" in text]
    assert "its 99 % interval is" in warning
    assert "after 3 iterations, 0.001 % was requested" in warning


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
            assert any(
                "requested 131072 bytes" in text and "effective 131072" in text for text in warnings
            ), tool


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
            assert not [text for text in outcome.warnings if "buffer" in text]


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
                assert "congestion: requested cubic, effective reno" in outcome.warnings


def test_a_peer_without_the_tool_is_named_with_it(lab):
    with lab("native") as at:
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
