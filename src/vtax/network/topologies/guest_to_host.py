"""Guest and the host side of its own link: what a container or a virtual machine sees of its host (trindade2018).

The peer's namespace plays the host: the bridge that the guest's link is a port of stands in it, and the peer is
reached at the bridge's own address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from pydantic import model_validator

from vtax.errors import NetworkError
from vtax.network import translation
from vtax.network.end import NetworkEnd
from vtax.network.hop import Hop
from vtax.network.lab import Lab, address, make_interface
from vtax.network.links import Flow, Links
from vtax.network.namespace import Namespace
from vtax.network.plugboard import Interface
from vtax.network.segment import BridgeSegment
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology, register_topology
from vtax.network.wire import is_shaped

_PEER = 1
_DRAWING = """
bridge        guest eth0 ── eth0 (a bridge) peer
nat, own-nat  guest eth0 ── eth0 (a bridge) peer, NAT to an address beyond
"""


class GuestToHostSettings(LinkSettings):
    """Link settings of `guest-to-host`."""

    @model_validator(mode="after")
    def _shapes_what_it_can(self) -> Self:
        if self.attachment == "own-nat" and is_shaped(self):
            raise ValueError(
                "own-nat ends in the host itself here, where no link has a rate, delay or loss"
            )
        return self


class HostSegment:
    """A bridge that is itself the interface of the first end; the others are its ports."""

    def __init__(self, lab: Lab, *, translates: bool = False) -> None:
        """Make no bridge yet. translates: whether the host translates connections of its guests that leave it."""
        self._lab, self._translates = lab, translates
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
        """Return its hops; there are none before the first end is plugged."""
        return self._made.hops if self._made else []

    def plug(self, role: str, interface: Interface, guest: Namespace) -> None:
        """Make the first end the host, and a later one a port of its bridge."""
        if self._made is None:
            host = self._lab.name("host", guest.path)
            self._made = BridgeSegment(
                host,
                interface.name,
                interface.mtu,
                mac=interface.mac,
                role=role,
                queues=interface.queues,
            )
            if self._translates:
                host.set("ipv4/ping_group_range", "0 0")  # see translation
                host.run(
                    [
                        "iptables",
                        "-t",
                        "nat",
                        "-A",
                        "POSTROUTING",
                        "!",
                        "-o",
                        interface.name,
                        "-j",
                        "MASQUERADE",
                    ]
                )
        else:
            self._made.plug(role, interface, guest)

    def plug_tap(self, role: str, interface: Interface, queues: int, device: str = "") -> str:
        """Make a tap that is a port of the host's bridge."""
        return self._bridge.plug_tap(role, interface, queues, device)

    def plug_uplink(self, port: str, nic: str, *, limits: bool = True) -> None:
        """Make an interface of the host a port of the host's bridge."""
        self._bridge.plug_uplink(port, nic, limits=limits)


def wire(lab: Lab, settings: LinkSettings) -> Links:
    """Make the peer the host, with the guests behind it. By translation they reach it at its address outside."""
    is_translated = settings.attachment in translation.ATTACHMENTS
    by_engine = settings.attachment == "own-nat"
    network = HostSegment(lab, translates=is_translated)
    if is_translated:
        peer_address = address(translation.OUTER, _PEER)
        gateway = make_interface(0, translation.INNER, translation.GATEWAY, settings)
        peer_interface = replace(gateway, addresses=(*gateway.addresses, f"{peer_address}/24"))
    else:
        peer_address = address(0, _PEER)
        peer_interface = make_interface(0, 0, _PEER, settings)
    peer = NetworkEnd("peer", [(peer_interface, network)], under_test=False)
    guests = translation.guest_ends(lab, settings, network)
    flows = [Flow(guest.role, "peer", guest.address(), peer_address, by_engine) for guest in guests]
    return Links(lab, settings, [peer, *guests], flows)


register_topology(
    Topology(
        "guest-to-host",
        "guest and the host side of its own link",
        wire,
        GuestToHostSettings,
        attachments=("bridge", *translation.ATTACHMENTS),
        joins_several=True,
        drawing=_DRAWING,
    )
)
