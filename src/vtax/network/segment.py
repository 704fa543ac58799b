"""Networks of the lab: how a guest's card comes to stand in one, whether it is a veth's end or a tap.

A segment is handed a card and where it belongs, makes the links, and returns the hops that packets will cross. The
part outside the guest is the same for every platform: only the last link into the guest differs, and that is the
layer under test.
"""

from __future__ import annotations

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

    def plug(self, role: str, card: Card, guest: Namespace) -> list[Hop]:
        """Make the card appear, down and without addresses, in a guest's namespace."""
        ...

    def plug_tap(self, role: str, card: Card, queues: int) -> list[Hop]:
        """Make a tap for the card; the first hop is the tap."""
        ...


class BridgeSegment:
    """A Linux bridge in a namespace of the lab."""

    def __init__(self, namespace: Namespace, bridge: str, mtu: int) -> None:
        self.namespace = namespace
        self.bridge = bridge
        namespace.ip(
            f"link add name {bridge} mtu {mtu} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"link set dev {bridge} up",
        )

    def plug(self, role: str, card: Card, guest: Namespace) -> list[Hop]:
        """A veth: one end is a port of the bridge, the other the guest's card."""
        port = f"{role}-{card.interface}"
        self.namespace.ip(veth(port, card, guest), f"link set dev {port} master {self.bridge} up")
        return [
            Hop(f"{role}.{card.interface}", guest, card.interface, "veth"),
            Hop(f"lab.{port}", self.namespace, port, "veth", limits=True),
        ]

    def plug_tap(self, role: str, card: Card, queues: int) -> list[Hop]:
        """A tap that is a port of the bridge."""
        port = f"{role}-{card.interface}"
        self.namespace.ip(*tap(port, card, queues), f"link set dev {port} master {self.bridge} up")
        return [Hop(f"lab.{port}", self.namespace, port, "tap", limits=True)]

    @property
    def hop(self) -> Hop:
        """The bridge itself, whose MTU bounds what it forwards."""
        return Hop(f"lab.{self.bridge}", self.namespace, self.bridge, "bridge")


def veth(port: str, card: Card, guest: Namespace, queues: int = 1) -> str:
    """The ip command that makes a veth pair: `port` here, the card in the guest's namespace."""
    size = f"mtu {card.mtu} numtxqueues {queues} numrxqueues {queues}"
    inner = f"peer name {card.interface} {size} address {card.mac} netns {guest.path}"
    return f"link add name {port} {size} type veth {inner}"


def tap(port: str, card: Card, queues: int) -> list[str]:
    """The ip commands that make a tap; one with several queues must be opened as multi-queue."""
    several = " multi_queue" if queues > 1 else ""
    return [f"tuntap add dev {port} mode tap{several}", f"link set dev {port} mtu {card.mtu}"]
