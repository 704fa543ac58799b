"""Guest and native peer on one network: the path of most published measurements.

guest card - bridge of the lab - veth - peer. Everything but the last link into the guest is the same on every
platform, native included.
"""

from __future__ import annotations

from vtax.network.end import End
from vtax.network.lab import Lab, make_card
from vtax.network.links import Flow, Links
from vtax.network.segment import BridgeSegment
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology

_PEER, _GUEST = 1, 2


def wire(lab: Lab, settings: LinkSettings) -> Links:
    """One bridge, two ends."""
    segment = BridgeSegment(lab.namespace("lab"), "br0", settings.mtu)
    peer_card = make_card(0, 0, _PEER, mtu=settings.mtu, offloads=settings.offloads)
    guest_card = make_card(0, 0, _GUEST, mtu=settings.mtu, offloads=settings.offloads)
    peer = End("peer", [(peer_card, segment)], under_test=False)
    guest = End("guest", [(guest_card, segment)], under_test=True)
    flow = Flow("guest", "peer", guest.address(), peer.address())
    return Links(lab, settings, [peer, guest], [flow], [segment.hop])


TOPOLOGY = Topology("point-to-point", "guest and native peer on one bridge", wire)
