"""Guest and native peer on one network: the path of most published measurements.

guest interface - bridge of the lab - veth - peer. Everything but the last link into the guest is the same on every
platform, native included. Instead of the bridge: nothing at all (`veth`), a macvlan on the peer's veth pair
(`macvtap`), or two bridges with the lab routing between them and hiding the guest's address (`nat`).
"""

from __future__ import annotations

from vtax.network.attach import segment
from vtax.network.end import End
from vtax.network.lab import Lab, address, make_interface, numbered
from vtax.network.links import Flow, Links
from vtax.network.segment import BridgeSegment, Segment
from vtax.network.settings import Elsewhere, LinkSettings
from vtax.network.topology import Topology

_PEER, _GUEST, _GATEWAY = 1, 2, 254


class PointToPointSettings(LinkSettings):
    """Link settings of `point-to-point`."""

    ABSENT = (*LinkSettings.ABSENT, "peer")

    peer: Elsewhere = ""


def wire(lab: Lab, settings: PointToPointSettings) -> Links:
    """One network, or two with a translating router between them."""
    return _translated(lab, settings) if settings.attachment == "nat" else _one_network(lab, settings)


def _one_network(lab: Lab, settings: LinkSettings) -> Links:
    network = segment(lab.namespace("lab"), 0, settings)
    peer = End("peer", [(make_interface(0, 0, _PEER, settings), network)], under_test=False)
    guests = [_guest(number, network, settings) for number in range(lab.guests)]
    return Links(lab, settings, [peer, *guests], [_flow(guest, peer) for guest in guests])


def _guest(number: int, network: Segment, settings: LinkSettings, routes: tuple[tuple[str, str], ...] = ()) -> End:
    interface = make_interface(0, 0, _GUEST + number, settings, routes)
    return End(numbered("guest", number), [(interface, network)], under_test=True)


def _flow(guest: End, peer: End, *, hidden: bool = False) -> Flow:
    return Flow(guest.role, peer.role, guest.address(), peer.address(), hidden)


def _translated(lab: Lab, settings: LinkSettings) -> Links:
    """The lab forwards between its two bridges and gives the guest's packets its own address (RFC 3022)."""
    namespace = lab.namespace("lab")
    inner, outer = (BridgeSegment(namespace, f"br{number}", settings.mtu, routes=True) for number in (0, 1))
    namespace.ip(*(f"address add {address(number, _GATEWAY)}/24 dev br{number}" for number in (0, 1)))
    namespace.set("ipv4/ip_forward", "1")
    namespace.run(["iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "br1", "-j", "MASQUERADE"])
    route = (f"{address(1, 0)}/24", address(0, _GATEWAY))
    peer = End("peer", [(make_interface(0, 1, _PEER, settings), outer)], under_test=False)
    guests = [_guest(number, inner, settings, (route,)) for number in range(lab.guests)]
    return Links(lab, settings, [peer, *guests], [_flow(guest, peer, hidden=True) for guest in guests])


TOPOLOGY = Topology(
    "point-to-point",
    "guest and native peer on one network",
    wire,
    PointToPointSettings,
    joins_several=True,
    attachments=("bridge", "veth", "macvtap", "nat"),
)
