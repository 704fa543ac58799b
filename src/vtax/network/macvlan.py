"""Guests as macvlans on one lower interface: the kernel switches by address, without a bridge.

The first native end is the far end of the lower interface's veth pair, as a machine on the wire would be; every other
end in a namespace is a macvlan on it, and a guest that opens a character device is a macvtap.
"""

from __future__ import annotations

from vtax.errors import NetworkError
from vtax.network.hop import Hop
from vtax.network.namespace import Namespace
from vtax.network.plugboard import Interface
from vtax.network.segment import guest_hop, no_uplink, port_name, queued, veth


class MacvlanSegment:
    """A network of macvlans on one lower interface, which exists once the first end is plugged."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.hops: list[Hop] = []
        self._lower: str | None = None

    def plug(self, role: str, interface: Interface, guest: Namespace) -> None:
        """Give the far end of the veth pair for the first, a macvlan for the others."""
        if self._lower is None:
            port = self._lower = port_name(role, interface)
            self.namespace.ip(veth(port, interface, guest), f"link set dev {port} up")
            self.hops += [
                Hop(f"lab.{port}", self.namespace, port, "veth", limits=True, veth_pair=port),
                guest_hop(role, interface, guest, port, limits=True),
            ]
            return
        self.namespace.ip(
            f"link add link {self._lower} name {interface.name} address {interface.mac} mtu {interface.mtu} "
            f"{queued(interface.queues)} netns {guest.path} type macvlan mode bridge"
        )
        self.hops.append(
            Hop(f"{role}.{interface.name}", guest, interface.name, "macvlan", role=role)
        )

    def plug_uplink(self, port: str, nic: str, *, limits: bool = True) -> None:
        """Raise NetworkError: a macvlan leads to no other machine."""
        raise no_uplink(nic)

    def plug_tap(self, role: str, interface: Interface, queues: int, device: str = "") -> str:
        """Return a macvtap; what opens it uses /dev/tapINDEX, not /dev/net/tun."""
        if device:
            raise NetworkError(
                f"{device} cannot be a macvtap", hint="use the attachment bridge, veth or nat"
            )
        if self._lower is None:
            raise NetworkError("a guest was attached before the native end of its link")
        port = port_name(role, interface)
        self.namespace.ip(
            f"link add link {self._lower} name {port} address {interface.mac} mtu {interface.mtu} "
            f"{queued(queues)} type macvtap mode bridge",
            f"link set dev {port} up",
        )
        self.hops.append(Hop(f"lab.{port}", self.namespace, port, "macvlan"))
        return port
