"""Guest and the host side of its own link: what a container or a virtual machine sees of its host (trindade2018).

The peer's namespace plays the host: the bridge that the guest's link is a port of stands in it, and the peer is
reached at the bridge's own address.
"""

from __future__ import annotations

from collections.abc import Sequence

from vtax.errors import NetworkError
from vtax.network.end import End
from vtax.network.hop import Hop
from vtax.network.lab import Lab, make_interface, numbered
from vtax.network.links import Flow, Links
from vtax.network.namespace import Namespace
from vtax.network.plugboard import Interface
from vtax.network.segment import BridgeSegment
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology

_PEER, _GUEST = 1, 2


class HostSegment:
    """A bridge that is itself the interface of the first end; the others are its ports."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._made: BridgeSegment | None = None

    @property
    def _bridge(self) -> BridgeSegment:
        if self._made is None:
            raise NetworkError("a guest was attached before the host end of its link")
        return self._made

    @property
    def namespace(self) -> Namespace:
        """The namespace of the first end, by the name that the lab gave it."""
        return self._bridge.namespace

    @property
    def hops(self) -> Sequence[Hop]:
        """See Segment.hops."""
        return self._made.hops if self._made else []

    def plug(self, role: str, interface: Interface, guest: Namespace) -> None:
        """The first end becomes the host; a later one is a port of its bridge."""
        if self._made is None:
            host = self._lab.name("host", guest.path)
            self._made = BridgeSegment(
                host, interface.name, interface.mtu, mac=interface.mac, role=role, queues=interface.queues
            )
        else:
            self._made.plug(role, interface, guest)

    def plug_tap(self, role: str, interface: Interface, queues: int, device: str = "") -> str:
        """A tap that is a port of the host's bridge."""
        return self._bridge.plug_tap(role, interface, queues, device)

    def plug_uplink(self, port: str, nic: str) -> None:
        """See Segment.plug_uplink: a port of the host's bridge."""
        self._bridge.plug_uplink(port, nic)


def wire(lab: Lab, settings: LinkSettings) -> Links:
    """The peer plays the host; the guest hangs on it."""
    network = HostSegment(lab)
    peer = End("peer", [(make_interface(0, 0, _PEER, settings), network)], under_test=False)
    guests = [
        End(numbered("guest", n), [(make_interface(0, 0, _GUEST + n, settings), network)], under_test=True)
        for n in range(lab.guests)
    ]
    flows = [Flow(guest.role, "peer", guest.address(), peer.address()) for guest in guests]
    return Links(lab, settings, [peer, *guests], flows)


TOPOLOGY = Topology("guest-to-host", "guest and the host side of its own link", wire, joins_several=True)
