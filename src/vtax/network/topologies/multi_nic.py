"""One guest with several cards, each in a network of its own, and the peer with as many: throughput against cards."""

from __future__ import annotations

from vtax.network.attach import segment
from vtax.network.end import End
from vtax.network.lab import Lab, make_card
from vtax.network.links import Flow, Links
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology

_PEER, _GUEST = 1, 2


def wire(lab: Lab, settings: LinkSettings) -> Links:
    """As many networks as cards, and a flow over each."""
    namespace = lab.namespace("lab")
    networks = [(number, segment(namespace, number, settings)) for number in range(settings.cards)]
    peer = End("peer", [(make_card(n, n, _PEER, settings), network) for n, network in networks], under_test=False)
    guest = End("guest", [(make_card(n, n, _GUEST, settings), network) for n, network in networks], under_test=True)
    flows = [Flow("guest", "peer", guest.address(n), peer.address(n)) for n, _ in networks]
    return Links(lab, settings, [peer, guest], flows)


TOPOLOGY = Topology(
    "multi-nic",
    "guest and native peer with several cards, a flow over each",
    wire,
    cards=lambda settings: settings.cards,
    attachments=("bridge", "veth"),
)
