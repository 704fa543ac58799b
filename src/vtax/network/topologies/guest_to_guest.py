"""Two guests of the same platform on one network: what neighbours on one machine, or on two, see of each other."""

from __future__ import annotations

from vtax.network import translation
from vtax.network.end import NetworkEnd
from vtax.network.lab import Lab, make_interface
from vtax.network.links import Flow, Links
from vtax.network.segment import BridgeSegment, Segment
from vtax.network.settings import Elsewhere, LinkSettings
from vtax.network.topology import Topology, register_topology

_DRAWING = """
bridge        guest eth0 ── bridge ── eth0 peer
veth          guest eth0 ──────────── eth0 peer
nat, own-nat  guest eth0 ── bridge ── NAT ── bridge ── eth0 peer

with peer, on two machines:
guest eth0 ── bridge ── uplink ── uplink ── bridge ── eth0 peer
"""


class GuestToGuestSettings(LinkSettings):
    """Link settings of `guest-to-guest`."""

    ABSENT = (*LinkSettings.ABSENT, "peer")

    peer: Elsewhere = ""


def wire(lab: Lab, settings: GuestToGuestSettings) -> Links:
    """Make one network with two guests, of which the second serves. By translation, only the first is behind it."""
    inner, outer = translation.networks(lab, settings)
    interface = translation.guest_interface(0, settings)
    is_hidden = settings.attachment in translation.ATTACHMENTS
    peer = _peer(settings, outer, is_there=bool(settings.peer))
    guest = NetworkEnd("guest", [(interface, inner)], under_test=True)
    flows = [Flow("guest", "peer", guest.address(), peer.address(), is_hidden)]
    return Links(lab, settings, [peer, guest], flows, trunks=[outer] if settings.peer else [])


def wire_there(lab: Lab, settings: GuestToGuestSettings) -> Links:
    """Make the half of that network with the serving guest."""
    network = BridgeSegment(lab.namespace("lab"), "br0", settings.mtu)
    return Links(lab, settings, [_peer(settings, network)], [], trunks=[network])


def _peer(
    settings: GuestToGuestSettings, network: Segment, *, is_there: bool = False
) -> NetworkEnd:
    interface = make_interface(0, int(settings.attachment in translation.ATTACHMENTS), 1, settings)
    return NetworkEnd("peer", [(interface, network)], under_test=True, is_there=is_there)


register_topology(
    Topology(
        "guest-to-guest",
        "two guests of the platform on one network",
        wire,
        GuestToGuestSettings,
        guests=lambda settings: 2,
        natives=(),
        attachments=("bridge", "veth", *translation.ATTACHMENTS),
        wire_there=wire_there,
        drawing=_DRAWING,
    )
)
