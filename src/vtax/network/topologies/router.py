"""A guest that routes between two networks: generator - guest - receiver (mauricio2013).

Both ends are native, so only the router is under test. The client of a benchmark runs at the generator.
"""

from __future__ import annotations

from vtax.network.attach import segment
from vtax.network.end import End
from vtax.network.lab import Lab, address, address6, make_interface
from vtax.network.links import Flow, Links
from vtax.network.settings import Elsewhere, LinkSettings
from vtax.network.topology import Topology

_END, _ROUTER = 1, 2


class RouterSettings(LinkSettings):
    """Link settings of topologies with a generator and a receiver."""

    ABSENT = (*LinkSettings.ABSENT, "generator", "receiver")

    generator: Elsewhere = ""
    receiver: Elsewhere = ""


def through(network: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """Routes of the end in this network to the other one, IPv4 and IPv6, through the router."""
    other = 1 - network
    return (
        (f"{address(other, 0)}/24", address(network, _ROUTER)),
        (f"{address6(other, 0)}/64", address6(network, _ROUTER)),
    )


def wire(lab: Lab, settings: LinkSettings) -> Links:
    """Two networks; the guest has an interface in each and forwards."""
    namespace = lab.namespace("lab")
    left, right = (segment(namespace, number, settings) for number in (0, 1))
    generator = End("generator", [(make_interface(0, 0, _END, settings, through(0)), left)], under_test=False)
    receiver = End("receiver", [(make_interface(0, 1, _END, settings, through(1)), right)], under_test=False)
    interfaces = [(make_interface(0, 0, _ROUTER, settings), left), (make_interface(1, 1, _ROUTER, settings), right)]
    guest = End("guest", interfaces, under_test=True, forwards=True)
    flow = Flow("generator", "receiver", generator.address(), receiver.address())
    return Links(lab, settings, [generator, receiver, guest], [flow])


TOPOLOGY = Topology(
    "router",
    "native generator, guest with two interfaces routing, native receiver",
    wire,
    RouterSettings,
    interfaces=lambda settings: 2,
    natives=("generator", "receiver"),
    forwards=True,
    attachments=("bridge", "veth"),
)
