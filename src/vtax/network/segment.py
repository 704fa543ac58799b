"""Networks of the lab: how a guest's card comes to stand in one, whether it is a veth's end or a tap.

A segment is handed a card and whose it is, makes the links, and keeps the hops that packets will cross. The part
outside the guest is the same for every platform: only the last link into the guest differs, and that is the layer
under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from vtax.network.hop import Hop
from vtax.network.namespace import Namespace
from vtax.network.plugboard import Card


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

    def plug(self, role: str, card: Card, guest: Namespace) -> None:
        """Make the card appear, down and without addresses, in a guest's namespace."""
        ...

    def plug_tap(self, role: str, card: Card, queues: int) -> str:
        """Make a tap for the card; returns its name in the segment's namespace."""
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
        queues: int = 1,
    ) -> None:
        """mac, role: of the end whose card the bridge itself is, when it is one. routes: the lab does through it.
        ends: the lab is itself what guests on it talk to. queues: of the bridge, when it is a card."""
        self.namespace = namespace
        self.bridge = bridge
        self._limits_entry = bridge if role or ends else ""
        self.hops: list[Hop] = [
            Hop(f"{role or 'lab'}.{bridge}", namespace, bridge, "bridge", role=role, counts=bool(role) or routes)
        ]
        hardware = f"address {mac} " if mac else ""
        namespace.ip(
            f"link add name {bridge} mtu {mtu} {hardware}{queued(queues)} "
            "type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"link set dev {bridge} up",
        )

    def plug(self, role: str, card: Card, guest: Namespace) -> None:
        """A veth: one end is a port of the bridge, the other the guest's card."""
        port = port_name(role, card)
        self.namespace.ip(veth(port, card, guest), f"link set dev {port} master {self.bridge} up")
        entry = self._limits_entry
        self.hops += [
            Hop(f"{role}.{card.interface}", guest, card.interface, "veth", role=role, cable=port),
            Hop(f"lab.{port}", self.namespace, port, "veth", limits=True, limits_entry=entry, cable=port),
        ]

    def plug_tap(self, role: str, card: Card, queues: int) -> str:
        """A tap that is a port of the bridge."""
        port = port_name(role, card)
        self.namespace.ip(*tap(port, card, queues), f"link set dev {port} master {self.bridge} up")
        self.hops.append(
            Hop(f"lab.{port}", self.namespace, port, "tap", limits=True, limits_entry=self._limits_entry)
        )
        return port


class CableSegment:
    """Two ends and nothing between them: one veth, or a tap whose packets are redirected to the other end.

    The first end is plugged to a cable whose loose end waits in the lab. A second end in a namespace is given the
    loose end itself; a tap is tied to it by redirecting what enters the one to the other (tc-mirred(8)), which is
    as direct as a tap can be.
    """

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.hops: list[Hop] = []
        self._loose: str | None = None

    def plug(self, role: str, card: Card, guest: Namespace) -> None:
        """The first end, or the second one."""
        port = port_name(role, card)
        joins = self._loose is not None and not self._is_tap(self._loose)
        cable = self._loose if joins and self._loose else port
        end = Hop(f"{role}.{card.interface}", guest, card.interface, "veth", limits=True, role=role, cable=cable)
        if joins:
            self.namespace.ip(
                f"link set dev {self._loose} down",
                f"link set dev {self._loose} mtu {card.mtu} address {card.mac}",
                f"link set dev {self._loose} netns {guest.path} name {card.interface}",
            )
            self.hops = [hop for hop in self.hops if hop.interface != self._loose or hop.role] + [end]
            return
        self.namespace.ip(veth(port, card, guest), f"link set dev {port} up")
        self.hops += [end, Hop(f"lab.{port}", self.namespace, port, "veth", limits=True, cable=port)]
        self._tie(port)

    def plug_tap(self, role: str, card: Card, queues: int) -> str:
        """A tap, tied to the loose end when there is one."""
        port = port_name(role, card)
        self.namespace.ip(*tap(port, card, queues), f"link set dev {port} up")
        self.hops.append(Hop(f"lab.{port}", self.namespace, port, "tap", limits=True))
        self._tie(port)
        return port

    def _tie(self, port: str) -> None:
        if self._loose is None:
            self._loose = port
        else:
            self.namespace.tie(self._loose, port)

    def _is_tap(self, port: str) -> bool:
        return any(hop.interface == port and hop.kind == "tap" for hop in self.hops)


def port_name(role: str, card: Card) -> str:
    """The lab's side of a card; Linux allows 15 characters."""
    return f"{role[:10]}-{card.interface}"


def veth(port: str, card: Card, guest: Namespace) -> str:
    """The ip command that makes a veth pair: `port` here, the card in the guest's namespace."""
    size = f"mtu {card.mtu} {queued(card.queues)}"
    inner = f"peer name {card.interface} {size} address {card.mac} netns {guest.path}"
    return f"link add name {port} {size} type veth {inner}"


def queued(queues: int) -> str:
    """The words that make a link with so many queues each way."""
    return f"numtxqueues {queues} numrxqueues {queues}"


def tap(port: str, card: Card, queues: int) -> list[str]:
    """The ip commands that make a tap; one with several queues must be opened as multi-queue."""
    several = " multi_queue" if queues > 1 else ""
    return [f"tuntap add dev {port} mode tap{several}", f"link set dev {port} mtu {card.mtu}"]
