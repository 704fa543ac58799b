"""Networks of the lab: how a guest's interface is placed in one, whether it is a veth's end or a tap.

A segment is handed an interface and its owner, makes the links, and keeps the hops that packets will cross. The part
outside the guest is the same for every platform: only the last link into the guest differs, and that is the layer
under test.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from vtax.errors import NetworkError
from vtax.host.process import run
from vtax.network.hop import Hop, Kind
from vtax.network.namespace import HOST, Namespace
from vtax.network.plugboard import Interface

_NETBACK = re.compile(r"vif\d+\.\d+")


class Segment(Protocol):
    """One network of a topology. role: who is plugged in (`guest`, `peer`, ...); it names the lab's side."""

    @property
    def namespace(self) -> Namespace:
        """Where the lab's side of its links lives, and taps with it."""
        ...

    @property
    def hops(self) -> Sequence[Hop]:
        """Every interface of it that exists so far."""
        ...

    def plug(self, role: str, interface: Interface, guest: Namespace) -> None:
        """Make the interface appear, down and without addresses, in a guest's namespace."""
        ...

    def plug_tap(self, role: str, interface: Interface, queues: int, device: str = "") -> str:
        """Make a tap for the interface; returns its name in the segment's namespace.

        device: an interface of the host to move there in place of a tap.
        """
        ...

    def plug_uplink(self, port: str, nic: str, *, limits: bool = True) -> None:
        """Make a macvlan that stands in its namespace, on an interface of this host, a port of the network.

        limits: whether its egress is shaped. It is not where the network goes on behind it.
        """
        ...


class BridgeSegment:
    """A Linux bridge in a namespace of the lab."""

    def __init__(
        self,
        namespace: Namespace,
        bridge: str,
        mtu: int,
        *,
        mac: str = "",
        role: str = "",
        routes: bool = False,
        ends: bool = False,
        is_shaped: bool = True,
        queues: int = 1,
    ) -> None:
        """Make the bridge.

        namespace: of the lab.
        bridge: its name.
        mtu: of its links.
        mac, role: of the end whose interface the bridge itself is, if any.
        routes: whether the lab routes through it.
        ends: whether the lab itself is what guests on it talk to.
        is_shaped: whether its links have the rate and delay of the settings.
        queues: of the bridge, when it is an interface.
        """
        self.namespace = namespace
        self.bridge = bridge
        self._limits_entry = bridge if role or ends else ""
        self._is_shaped = is_shaped
        name, counts = f"{role or 'lab'}.{bridge}", bool(role) or routes
        self.hops: list[Hop] = [Hop(name, namespace, bridge, "bridge", role=role, counts=counts)]
        hardware = f"address {mac} " if mac else ""
        namespace.ip(
            f"link add name {bridge} mtu {mtu} {hardware}{queued(queues)} "
            "type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"link set dev {bridge} up",
        )

    def plug(self, role: str, interface: Interface, guest: Namespace) -> None:
        """Make a veth: one end is a port of the bridge, the other the guest's interface."""
        port = port_name(role, interface)
        self.namespace.ip(
            veth(port, interface, guest), f"link set dev {port} master {self.bridge} up"
        )
        entry = self._limits_entry
        self.hops += [
            guest_hop(role, interface, guest, port),
            Hop(
                f"lab.{port}",
                self.namespace,
                port,
                "veth",
                self._is_shaped,
                limits_entry=entry,
                veth_pair=port,
            ),
        ]

    def plug_tap(self, role: str, interface: Interface, queues: int, device: str = "") -> str:
        """Return a tap that is a port of the bridge."""
        port = port_name(role, interface)
        self.namespace.ip(
            *tap(self.namespace, port, interface, queues, device),
            f"link set dev {port} master {self.bridge} up",
        )
        self.hops.append(
            Hop(
                f"lab.{port}",
                self.namespace,
                port,
                kind_of(device),
                self._is_shaped,
                limits_entry=self._limits_entry,
            )
        )
        return port

    def plug_uplink(self, port: str, nic: str, *, limits: bool = True) -> None:
        """Make a port of the bridge."""
        self.namespace.ip(f"link set dev {port} master {self.bridge}")
        self.hops += uplink_hops(self.namespace, port, nic, self._limits_entry, limits=limits)


class VethSegment:
    """Two ends and nothing between them: one veth pair, or a tap whose packets are redirected to the other end.

    The first end is one side of a veth pair whose other side waits in the lab. A second end in a namespace becomes
    that other side; a tap is joined to it by redirecting what enters the one to the other (tc-mirred(8)), which is
    as direct as a tap can be. Each direction is shaped once: at both ends in namespaces, or at both sides in the lab.
    """

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.hops: list[Hop] = []
        self._first_port: str | None = None

    def plug(self, role: str, interface: Interface, guest: Namespace) -> None:
        """Attach the first end, or the second one."""
        port = port_name(role, interface)
        first_port = self._first_port
        if first_port is not None and not self._is_tap(first_port):
            self.namespace.ip(
                f"link set dev {first_port} down",
                f"link set dev {first_port} mtu {interface.mtu} address {interface.mac}",
                f"link set dev {first_port} netns {guest.path} name {interface.name}",
            )
            hops = [hop for hop in self.hops if hop.interface != first_port or hop.role]
            self.hops = [replace(hop, limits=True) for hop in hops]
            self.hops.append(guest_hop(role, interface, guest, first_port, limits=True))
            return
        self.namespace.ip(veth(port, interface, guest), f"link set dev {port} up")
        self.hops += [
            guest_hop(role, interface, guest, port),
            Hop(f"lab.{port}", self.namespace, port, "veth", limits=True, veth_pair=port),
        ]
        self._redirect(port)

    def plug_tap(self, role: str, interface: Interface, queues: int, device: str = "") -> str:
        """Return a tap, joined by redirection to the side that waits when there is one."""
        port = port_name(role, interface)
        self.namespace.ip(
            *tap(self.namespace, port, interface, queues, device), f"link set dev {port} up"
        )
        self.hops.append(Hop(f"lab.{port}", self.namespace, port, kind_of(device), limits=True))
        self._redirect(port)
        return port

    def plug_uplink(self, port: str, nic: str, *, limits: bool = True) -> None:
        """Raise NetworkError: only a bridge or a switch has a port for another machine."""
        raise no_uplink(nic)

    def _redirect(self, port: str) -> None:
        if self._first_port is None:
            self._first_port = port
        else:
            self.namespace.redirect(self._first_port, port)

    def _is_tap(self, port: str) -> bool:
        return any(hop.interface == port and hop.kind in ("tap", "netback") for hop in self.hops)


def port_name(role: str, interface: Interface) -> str:
    """Return the lab's side of an interface; Linux allows 15 characters."""
    return f"{role[:10]}-{interface.name}"


def guest_hop(
    role: str, interface: Interface, guest: Namespace, pair: str, *, limits: bool = False
) -> Hop:
    """Return the guest's end of a veth pair as a hop.

    role, interface, guest: the role of the end, its interface, and the namespace of the guest.
    pair: name of the veth pair.
    limits: whether its egress is shaped.
    """
    name = f"{role}.{interface.name}"
    return Hop(name, guest, interface.name, "veth", limits, role=role, veth_pair=pair)


def uplink_hops(
    namespace: Namespace, port: str, nic: str, limits_entry: str = "", *, limits: bool = True
) -> list[Hop]:
    """Return two hops: an interface of this host that leads to another machine, and the macvlan on it.

    namespace, port: where the macvlan is, and its name there.
    nic: the interface.
    limits_entry, limits: of the macvlan, as in Hop.
    """
    return [
        Hop(f"nic.{nic}", HOST, nic, "nic"),
        Hop(f"lab.{port}", namespace, port, "macvlan", limits=limits, limits_entry=limits_entry),
    ]


def no_uplink(nic: str) -> NetworkError:
    """Return the error of a network that cannot have a port for another machine."""
    return NetworkError(
        f"this attachment leads to no machine behind {nic}", hint="use the attachment bridge"
    )


def veth(port: str, interface: Interface, guest: Namespace) -> str:
    """Return the ip command that makes a veth pair: `port` here, the interface in the guest's namespace."""
    size = f"mtu {interface.mtu} {queued(interface.queues)}"
    inner = f"peer name {interface.name} {size} address {interface.mac} netns {guest.path}"
    return f"link add name {port} {size} type veth {inner}"


def queued(queues: int) -> str:
    """Return the words that make a link with so many queues each way."""
    return f"numtxqueues {queues} numrxqueues {queues}"


def kind_of(device: str) -> Kind:
    """Return the kind of an interface that is made, or moved, to where a tap would be.

    device: the name that it had on this host; empty for a tap. Xen names the host's side of a paravirtual interface
    after the domain and the number of the interface, and a tap of its device model `vif7.0-emu`.
    """
    return "netback" if _NETBACK.fullmatch(device) else "tap"


def tap(
    namespace: Namespace, port: str, interface: Interface, queues: int, device: str = ""
) -> list[str]:
    """Return the ip commands that make a tap in a namespace; one with several queues must be opened as multi-queue.

    namespace, port: where it is made, and its name there.
    interface: of the guest.
    queues: of the tap.
    device: an interface of the host that is moved there in place of a tap.

    Raises CommandFailed.
    """
    if device:
        run(["ip", "link", "set", "dev", device, "down"])
        run(["ip", "link", "set", "dev", device, "netns", str(namespace.path), "name", port])
        return [f"link set dev {port} mtu {interface.mtu}"]
    several = " multi_queue" if queues > 1 else ""
    return [f"tuntap add dev {port} mode tap{several}", f"link set dev {port} mtu {interface.mtu}"]
