"""Two guests of the same platform on one network: what neighbours on one machine see of each other."""

from __future__ import annotations

from vtax.network import translation
from vtax.network.attach import segment
from vtax.network.end import End
from vtax.network.lab import Lab, make_interface
from vtax.network.links import Flow, Links
from vtax.network.segment import Segment
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology


def wire(lab: Lab, settings: LinkSettings) -> Links:
    """Return one network, two guests; the second serves. By translation, only the first is behind it."""
    inner: Segment
    outer: Segment
    is_hidden = settings.attachment in translation.ATTACHMENTS
    if is_hidden:
        between = translation.translation(lab, settings)
        inner, outer = between.inner, between.outer
        interface = translation.guest_interface(0, settings)
    else:
        inner = outer = segment(lab.namespace("lab"), 0, settings)
        interface = make_interface(0, 0, 2, settings)
    peer = End("peer", [(make_interface(0, int(is_hidden), 1, settings), outer)], under_test=True)
    guest = End("guest", [(interface, inner)], under_test=True)
    return Links(lab, settings, [peer, guest], [Flow("guest", "peer", guest.address(), peer.address(), is_hidden)])


TOPOLOGY = Topology(
    "guest-to-guest",
    "two guests of the platform on one network",
    wire,
    guests=lambda settings: 2,
    natives=(),
    attachments=("bridge", "veth", *translation.ATTACHMENTS),
)
