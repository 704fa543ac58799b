"""The MTU limits that platforms declare, tried out: the largest one crosses every hop whole, one more does not."""

import pytest
from drivers import RUNTIMES
from lab_guests import LabGuests
from support import needs_program, needs_root, thorough

from vtax.errors import NetworkError
from vtax.network.readback import mtu_of
from vtax.platforms import registry as platforms

pytestmark = [needs_root, needs_program("ip", "nsenter", "ethtool", "tc")]
SMALLEST = 68  # RFC 791
PLATFORMS = ["native", "gvisor-systrap", *thorough(*RUNTIMES)]
MACHINES = {
    "qemu-tcg": "virtio_net",
    "qemu-tcg-e1000": "e1000",
    "qemu-tcg-rtl8139": "8139cp",
    "qemu-tcg-microvm": "virtio_net",
}
"""Machine -> what drives its interface."""


@pytest.fixture
def lab(image, journal, private_home):
    def build(name, **link):
        probe = platforms.get(name).probe(image)
        if not probe.available:
            pytest.skip(f"{name} does not run here: {probe.reason}")
        return LabGuests("point-to-point", name, image, journal, private_home, link)

    return build


def everywhere(at):
    """The MTU of every interface between the ends, as the kernel has it."""
    return {mtu_of(hop.namespace, hop.interface) for hop in at.links.hops}


@pytest.mark.parametrize("name", [*PLATFORMS, *MACHINES])
def test_the_largest_mtu_of_a_platform_crosses_every_hop_in_one_piece(name, lab):
    largest = platforms.get(name).network_limits.mtu
    with lab(name, mtu=largest) as at:
        at.links.verify()
        assert everywhere(at) == {largest}
        if not name.startswith("gvisor"):  # its guests keep the MTU they were started with
            at.apply({"mtu": SMALLEST})
            assert everywhere(at) == {SMALLEST}
            at.apply({"mtu": largest})
            assert at.run("guest", "cat", "/sys/class/net/eth0/mtu").strip() == str(largest)
        for direction in ("send", "receive"):
            assert at.measure("iperf3", duration_s=1, direction=direction).values["throughput"] > 0
        if name in MACHINES:
            assert at.run("guest", "ethtool", "-i", "eth0").startswith(
                f"driver: {MACHINES[name]}\n"
            )
            refused = (NetworkError, AssertionError)  # by the tap, or by the guest's own kernel
            with pytest.raises(refused, match=r"mtu greater than device maximum|Invalid argument"):
                at.apply({"mtu": largest + 1})


@pytest.mark.parametrize("name", ["native", *thorough("qemu-tcg")])
def test_tcp_over_the_smallest_mtu_leaves_nothing_behind_that_a_larger_one_meets(name, lab):
    with lab(name, mtu=SMALLEST) as at:
        server = at.guests["guest"].start(["iperf3", "-s", "-1"])
        at.guests["guest"].wait_port(5201, handle=server)
        at.guests["peer"].run(
            ["iperf3", "-c", at.links.flows[0].client_address, "-t", "1"], timeout_s=30
        )
        at.guests["guest"].stop(server)
        assert "mtu lock" in at.run("peer", "ip", "route", "get", at.links.flows[0].client_address)
        at.apply({"mtu": 9000})
        assert at.measure("iperf3", duration_s=1).effective["mss"] == 8948
