"""How a platform joins its guest to the topology without knowing which topology it is.

The topology hands each guest a plugboard with the network interfaces it must have. A driver whose guest lives in a
network namespace calls `plug_namespace` once that namespace exists; one whose guest has emulated or paravirtual
interfaces calls `taps` before it starts and runs its process inside `lab_namespace`; one whose hypervisor makes the
host's side of the interfaces by itself moves that there (`plug_devices`); one whose guest stands on another machine
names the uplinks that lead to it (`plug_uplinks`). Then the runner configures the addresses from inside the guest
(`configure_commands`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Interface:
    """One network interface that a guest must have.

    name: in the guest (`eth0`, ...).
    mac: its MAC address.
    addresses: IPv4 and IPv6, with prefix length.
    mtu: of the link.
    offloads: whether checksum and segmentation offloads stay on.
    queues: of a multi-queue interface.
    routes: (destination, gateway) pairs that lead through this interface.
    engine: the address of the gateway that a platform with a NAT engine of its own plays on it; empty when the
        interface is to be joined to the lab. A driver without such an engine ignores it.
    """

    name: str
    mac: str
    addresses: tuple[str, ...]
    mtu: int = 1500
    offloads: bool = True
    queues: int = 1
    routes: tuple[tuple[str, str], ...] = ()
    engine: str = ""


@dataclass(frozen=True)
class Uplink:
    """Connection of this host to another machine, directly or by a switch: the names of an interface of either."""

    here: str
    there: str


class Plugboard(Protocol):
    """The side of a topology that one guest's driver sees."""

    @property
    def interfaces(self) -> Sequence[Interface]:
        """The interfaces, in order."""
        ...

    @property
    def lab_namespace(self) -> str:
        """Name (under /run/netns) of the namespace where taps live and QEMU must run."""
        ...

    def plug_namespace(self, netns: Path, *, own_stack: bool = False) -> None:
        """Make every interface appear, named, addressed and up, inside a network namespace (e.g. /proc/PID/ns/net).

        own_stack: the guest will take the addresses over into a network stack of its own, in user space.
        """
        ...

    def taps(self, queues: int = 1) -> Sequence[str]:
        """Make one tap per interface in the lab namespace, joined to the topology; returns their names, in order.

        queues: of each tap; with more than one it is made multi-queue, and must be opened that way.
        """
        ...

    def plug_devices(self, devices: Sequence[str]) -> Sequence[str]:
        """Move interfaces of this host, one each in order, to where taps would be; returns their names there.

        For a hypervisor that makes the host's side of a guest's interfaces by itself.
        """
        ...

    def plug_engine(self, netns: Path | None = None) -> None:
        """Say that the guest's interfaces lead to its platform's own NAT engine, which runs in `lab_namespace`.

        netns: the network namespace where the engine has made them, without addresses; None: inside the guest.
        """
        ...

    def plug_uplinks(self, uplinks: Sequence[Uplink]) -> None:
        """Join what the uplinks carry, one for each interface in order, to the topology.

        For a guest on another machine, which has its interfaces there, each on the far end of its uplink.
        """
        ...

    def configure_commands(self) -> Sequence[Sequence[str]]:
        """Return what to run inside a guest with taps, so that its interfaces are named, addressed and up."""
        ...
