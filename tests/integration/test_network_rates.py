"""A rate holds on every topology and attachment in both directions, whatever the last link into the guest is."""

import json

import pytest
from lab_guests import LabGuests
from support import needs_program, needs_root, thorough, undisturbed

from vtax.host.process import find_program
from vtax.image import build as images
from vtax.image.recipe import DEFAULT
from vtax.network import registry
from vtax.platforms import registry as platforms

pytestmark = [needs_root, needs_program("ip", "nsenter", "ethtool", "tc")]
RATE_MBIT_S = 4
ROOM = 1.25  # for the tools' clocks within one second; a link without a limit carries many times the rate
OPEN_VSWITCH = ("router-openflow", "vlan-pairs")
CASES = [  # that of every topology and every attachment stays without --thorough: the first first
    (name, attachment)
    for name, each in sorted(
        registry.topologies().items(), key=lambda found: found[0] != "point-to-point"
    )
    for attachment in each.attachments
    if (name, attachment) != ("guest-to-host", "own-nat")  # no link: refused, see tests/unit
]


@pytest.fixture
def lab(image, shared_home, journal, private_home):
    def build(platform, topology, **link):
        if topology in OPEN_VSWITCH and find_program("ovs-vswitchd") is None:
            pytest.skip("Open vSwitch is not installed")
        if not (probe := platforms.get(platform).probe(image)).available:
            pytest.skip(f"{platform} does not run here: {probe.reason}")
        packages = registry.get(topology).packages
        image_with = (
            images.ensure(shared_home, DEFAULT.with_packages(packages)) if packages else image
        )
        return LabGuests(topology, platform, image_with, journal, private_home, link)

    return build


@pytest.mark.one_at_a_time
@pytest.mark.parametrize(("topology", "attachment"), CASES)
@pytest.mark.parametrize("platform", ["native", *thorough("qemu-tcg")])
def test_a_rate_holds_in_both_directions_and_can_be_lifted(platform, topology, attachment, lab):
    with lab(platform, topology, attachment=attachment, rate_mbit_s=RATE_MBIT_S) as at:
        at.links.verify()
        drawn = registry.get(topology).drawing
        for end in at.links.ends:
            assert {end.role, *(each.name for each in end.interfaces)} <= set(drawn.split())
        for direction in ("send", "receive"):

            def throughput(direction=direction):
                return at.measure("iperf3", duration_s=1, direction=direction).values["throughput"]

            effective = undisturbed(throughput, reaches=lambda found: found > 0.1 * RATE_MBIT_S)
            assert 0.1 * RATE_MBIT_S < effective < ROOM * RATE_MBIT_S, direction
        at.apply({"attachment": attachment})
        assert (
            undisturbed(throughput, reaches=lambda found: found > 2 * RATE_MBIT_S) > 2 * RATE_MBIT_S
        )


def test_a_rate_that_changes_leaves_the_bridge_to_an_openflow_controller_its_address(lab):
    """Else the guest goes on sending to the old one, and the controller is silent for a minute."""
    with lab("native", "router-openflow") as at:
        (bridge,) = [hop for hop in at.links.hops if hop.name == "lab.control"]

        def address():
            return json.loads(bridge.namespace.run(["ip", "-j", "link", "show", "control"]).stdout)[
                0
            ]["address"]

        before = address()
        for rate, mtu in ((10, 1500), (10, 1400), (None, 1500)):
            at.apply({"rate_mbit_s": rate, "mtu": mtu})
            assert address() == before


def test_a_rate_can_be_set_and_changed_with_the_mtu_where_the_host_is_an_end(lab):
    with lab("native", "guest-to-host") as at:
        for rate, mtu in ((10, 1500), (20, 9000), (10, 600)):
            at.apply({"rate_mbit_s": rate, "mtu": mtu})
            for direction in ("send", "receive"):
                assert (
                    at.measure("iperf3", duration_s=1, direction=direction).values["throughput"]
                    < ROOM * rate
                )
