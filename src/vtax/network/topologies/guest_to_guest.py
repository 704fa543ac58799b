"""Two guests of the same platform on one network: what neighbours on one machine see of each other."""

from __future__ import annotations

from vtax.network.attach import segment
from vtax.network.end import End
from vtax.network.lab import Lab, make_interface
from vtax.network.links import Flow, Links
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology


def wire(lab: Lab, settings: LinkSettings) -> Links:
    """Return one network, two guests; the second one serves."""
    network = segment(lab.namespace("lab"), 0, settings)
    peer = End("peer", [(make_interface(0, 0, 1, settings), network)], under_test=True)
    guest = End("guest", [(make_interface(0, 0, 2, settings), network)], under_test=True)
    return Links(lab, settings, [peer, guest], [Flow("guest", "peer", guest.address(), peer.address())])


TOPOLOGY = Topology(
    "guest-to-guest",
    "two guests of the platform on one network",
    wire,
    guests=lambda settings: 2,
    natives=(),
    attachments=("bridge", "veth"),
)
