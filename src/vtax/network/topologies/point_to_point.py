"""Guest and native peer on one network: the path of most published measurements.

guest interface - bridge of the lab - veth - peer. Everything but the last link into the guest is the same on every
platform, native included. Instead of the bridge: nothing at all (`veth`), a macvlan on the peer's veth pair
(`macvtap`), or two bridges with the lab routing between them and hiding the guest's address (`nat`). With `peer`, the
bridge has an interface of this host as its other port, and the peer is on the machine that this interface leads to.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from vtax.errors import BadInput
from vtax.network.attach import segment
from vtax.network.end import End
from vtax.network.lab import Lab, address, make_interface
from vtax.network.links import Flow, Links
from vtax.network.plugboard import Machine
from vtax.network.segment import BridgeSegment
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology
from vtax.network.uplink import attach_uplink, check_nic

_PEER, _GUEST, _GATEWAY = 1, 2, 254
_NIC = r"^[^\s/]{0,15}$"  # names that Linux allows
_REMOTE = ("peer", "nic", "peer_nic")


class PointToPointSettings(LinkSettings):
    """Link settings of `point-to-point`."""

    ABSENT = (*LinkSettings.ABSENT, *_REMOTE)

    peer: str = Field("", description="another machine for the other end: ssh:HOST, or a [[platform]] of driver ssh")
    nic: str = Field("", pattern=_NIC, description="with peer: the network interface of this host that leads to it")
    peer_nic: str = Field("", pattern=_NIC, description="with peer: the network interface of that machine")

    @property
    def machine(self) -> Machine | None:
        """The machine of the other end; None when that is this host."""
        return Machine(self.peer, self.peer_nic) if self.peer else None

    @model_validator(mode="after")
    def _a_peer_has_two_interfaces(self) -> Self:
        if self.peer and not (self.nic and self.peer_nic):
            raise ValueError(
                "with peer, both nic and peer_nic name the network interfaces that join the two machines"
            )
        if not self.peer and (self.nic or self.peer_nic):
            raise ValueError("nic and peer_nic belong to peer, which is not set")
        return self


def check_remote_peer(settings: PointToPointSettings) -> None:
    """Raise BadInput unless a peer on another machine, if there is one, can be reached as the settings ask."""
    if not settings.peer:
        return
    if settings.attachment != "bridge":
        raise BadInput(
            f"link setting attachment: {settings.attachment} does not lead to another machine", hint="use bridge"
        )
    check_nic(settings.nic, settings.mtu)


def wire(lab: Lab, settings: PointToPointSettings) -> Links:
    """One network, or two with a translating router between them, or one that spans two machines."""
    if settings.peer:
        return _two_machines(lab, settings)
    return _translated(lab, settings) if settings.attachment == "nat" else _one_network(lab, settings)


def _two_machines(lab: Lab, settings: PointToPointSettings) -> Links:
    network = BridgeSegment(lab.namespace("lab"), "br0", settings.mtu)
    attach_uplink(lab, network, settings.nic, settings.mtu)
    peer = End("peer", [(make_interface(0, 0, _PEER, settings), network)], under_test=False, machine=settings.machine)
    guest = End("guest", [(make_interface(0, 0, _GUEST, settings), network)], under_test=True)
    note = f"the peer is {settings.peer}: {settings.nic} of this host leads to its {settings.peer_nic}"
    return Links(lab, settings, [peer, guest], [Flow("guest", "peer", guest.address(), peer.address())], notes=[note])


def _one_network(lab: Lab, settings: LinkSettings) -> Links:
    network = segment(lab.namespace("lab"), 0, settings)
    peer = End("peer", [(make_interface(0, 0, _PEER, settings), network)], under_test=False)
    guest = End("guest", [(make_interface(0, 0, _GUEST, settings), network)], under_test=True)
    return Links(lab, settings, [peer, guest], [Flow("guest", "peer", guest.address(), peer.address())])


def _translated(lab: Lab, settings: LinkSettings) -> Links:
    """The lab forwards between its two bridges and gives the guest's packets its own address (RFC 3022)."""
    namespace = lab.namespace("lab")
    inner, outer = (BridgeSegment(namespace, f"br{number}", settings.mtu, routes=True) for number in (0, 1))
    namespace.ip(*(f"address add {address(number, _GATEWAY)}/24 dev br{number}" for number in (0, 1)))
    namespace.set("ipv4/ip_forward", "1")
    namespace.run(["iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "br1", "-j", "MASQUERADE"])
    route = (f"{address(1, 0)}/24", address(0, _GATEWAY))
    peer = End("peer", [(make_interface(0, 1, _PEER, settings), outer)], under_test=False)
    guest = End("guest", [(make_interface(0, 0, _GUEST, settings, (route,)), inner)], under_test=True)
    return Links(lab, settings, [peer, guest], [Flow("guest", "peer", guest.address(), peer.address(), hidden=True)])


TOPOLOGY = Topology(
    "point-to-point",
    "guest and native peer on one network",
    wire,
    PointToPointSettings,
    machine=lambda settings: settings.machine,
    attachments=("bridge", "veth", "macvtap", "nat"),
    check_settings=check_remote_peer,
)
