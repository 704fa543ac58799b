"""A guest that routes between two networks: generator - guest - receiver (mauricio2013).

Both ends are native, so only the router is under test. The client of a benchmark runs at the generator. Several
guests route at once, each between two networks of its own, where both ends have an interface.
"""

from __future__ import annotations

from vtax.network.attach import segment
from vtax.network.end import NetworkEnd
from vtax.network.lab import Lab, address, address6, make_interface, numbered
from vtax.network.links import Flow, Links
from vtax.network.settings import Elsewhere, LinkSettings
from vtax.network.topology import Topology, register_topology

_END, _ROUTER = 1, 2
_DRAWING = """
bridge  generator eth0 ── bridge ── eth0 guest eth1 ── bridge ── eth0 receiver
veth    generator eth0 ──────────── eth0 guest eth1 ──────────── eth0 receiver

with guests = [2], both at once:
generator eth0 ── bridge ── eth0 guest  eth1 ── bridge ── eth0 receiver
          eth1 ── bridge ── eth0 guest2 eth1 ── bridge ── eth1
"""


class RouterSettings(LinkSettings):
    """Link settings of topologies with a generator and a receiver."""

    ABSENT = (*LinkSettings.ABSENT, "generator", "receiver")

    generator: Elsewhere = ""
    receiver: Elsewhere = ""


def sides(number: int) -> tuple[int, int]:
    """Return the networks of the router of a number: of the generator, and of the receiver."""
    return 2 * number, 2 * number + 1


def through(network: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the routes of the end in a network to the network on the router's other side, by IPv4 and IPv6."""
    other = network ^ 1
    return (
        (f"{address(other, 0)}/24", address(network, _ROUTER)),
        (f"{address6(other, 0)}/64", address6(network, _ROUTER)),
    )


def wire(lab: Lab, settings: LinkSettings) -> Links:
    """Make two networks for each guest, which forwards between them; each native end has an interface in one of them."""
    namespace = lab.namespace("lab")
    networks = [segment(namespace, number, settings) for number in range(2 * lab.guests)]
    generators, receivers, routers = [], [], []
    for n in range(lab.guests):
        left_network, right_network = sides(n)
        generator = make_interface(n, left_network, _END, settings, through(left_network))
        receiver = make_interface(n, right_network, _END, settings, through(right_network))
        plugs = [
            (make_interface(0, left_network, _ROUTER, settings), networks[left_network]),
            (make_interface(1, right_network, _ROUTER, settings), networks[right_network]),
        ]
        generators.append((generator, networks[left_network]))
        receivers.append((receiver, networks[right_network]))
        routers.append(NetworkEnd(numbered("guest", n), plugs, under_test=True, forwards=True))
    generator_end = NetworkEnd("generator", generators, under_test=False)
    receiver_end = NetworkEnd("receiver", receivers, under_test=False)
    flows = [
        Flow("generator", "receiver", generator_end.address(n), receiver_end.address(n))
        for n in range(lab.guests)
    ]
    return Links(lab, settings, [generator_end, receiver_end, *routers], flows)


register_topology(
    Topology(
        "router",
        "native generator, guest with two interfaces routing, native receiver",
        wire,
        RouterSettings,
        interfaces=lambda settings: 2,
        natives=("generator", "receiver"),
        forwards=True,
        joins_several=True,
        attachments=("bridge", "veth"),
        drawing=_DRAWING,
    )
)
