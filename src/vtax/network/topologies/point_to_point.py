"""Guest and native peer on one network: the path of most published measurements.

guest interface - bridge of the lab - veth - peer. Everything but the last link into the guest is the same on every
platform, native included. Instead of the bridge: nothing at all (`veth`), a macvlan on the peer's veth pair
(`macvtap`), or two networks with address translation between them (`nat`, `own-nat`; see `translation`).
"""

from __future__ import annotations

from vtax.network import translation
from vtax.network.end import NetworkEnd
from vtax.network.lab import Lab, make_interface
from vtax.network.links import Flow, Links
from vtax.network.settings import Elsewhere, LinkSettings
from vtax.network.topology import Topology, register_topology

_PEER = 1
_DRAWING = """
bridge         guest eth0 ── bridge ── eth0 peer
veth, macvtap  guest eth0 ──────────── eth0 peer
nat, own-nat   guest eth0 ── bridge ── NAT ── bridge ── eth0 peer
"""


class PointToPointSettings(LinkSettings):
    """Link settings of `point-to-point`."""

    ABSENT = (*LinkSettings.ABSENT, "peer")

    peer: Elsewhere = ""


def wire(lab: Lab, settings: PointToPointSettings) -> Links:
    """Make one network, or two with a translating router between them."""
    inner, outer = translation.networks(lab, settings)
    is_hidden = settings.attachment in translation.ATTACHMENTS
    peer_interface = make_interface(0, int(is_hidden), _PEER, settings)
    peer = NetworkEnd("peer", [(peer_interface, outer)], under_test=False)
    guests = translation.guest_ends(lab, settings, inner)
    flows = [
        Flow(guest.role, "peer", guest.address(), peer.address(), is_hidden) for guest in guests
    ]
    return Links(lab, settings, [peer, *guests], flows)


register_topology(
    Topology(
        "point-to-point",
        "guest and native peer on one network",
        wire,
        PointToPointSettings,
        joins_several=True,
        attachments=("bridge", "veth", "macvtap", *translation.ATTACHMENTS),
        drawing=_DRAWING,
    )
)
