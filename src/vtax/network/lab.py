"""The lab of one topology: its namespaces, made and removed as one, with no way out.

Nothing in it is connected to the host, but for an unused interface that a study names (uplink): every link is made
inside a namespace with both ends in namespaces, so not even for a moment does an interface appear on the host. Two
labs never see each other and may use equal addresses; those whose uplinks lead to one switch collide.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from vtax.host.journal import Journal, Registration
from vtax.host.process import run
from vtax.host.resources import NetworkNamespace, Resource
from vtax.network.namespace import Namespace
from vtax.network.plugboard import Interface
from vtax.network.settings import LinkSettings


class Lab:
    """Namespaces named `vtax-XXXX-ROLE`, journalled before they are made."""

    def __init__(self, journal: Journal, guests: int = 1) -> None:
        """guests: how many of the platform under test its topology joins side by side, where it can join several."""
        self.journal = journal
        self.guests = guests
        self.token = secrets.token_hex(2)
        self._registered: list[Registration] = []
        self._closers: list[Callable[[], object]] = []

    def namespace(self, role: str) -> Namespace:
        """Make a namespace without background traffic. Raises CommandFailed."""
        name = self._claim(role)
        run(["ip", "netns", "add", name])
        namespace = Namespace.named(name)
        namespace.suppress_background_traffic()
        return namespace

    def name(self, role: str, netns: Path) -> Namespace:
        """Make a name under /run/netns for the namespace of a living process (netns: /proc/PID/ns/net)."""
        name = self._claim(role)
        run(["ip", "netns", "attach", name, netns.parts[2]])
        return Namespace.named(name)

    def register(self, resource: Resource) -> None:
        """Enter what is about to be made or changed for this lab in the journal; it is undone when the lab closes."""
        self._registered.append(self.journal.register(resource))

    def before_close(self, closer: Callable[[], object]) -> None:
        """Have something in the lab ended before its namespaces go; last registered, first called."""
        self._closers.append(closer)

    def close(self) -> None:
        """Remove every namespace and with it every link. May be called twice."""
        while self._closers:
            self._closers[-1]()
            self._closers.pop()
        while self._registered:
            self._registered[-1].release()
            self._registered.pop()

    def _claim(self, role: str) -> str:
        name = f"vtax-{self.token}-{role}"
        self.register(NetworkNamespace(name))
        return name


def numbered(role: str, number: int) -> str:
    """Return the role of an end among several of its kind, by its number from 0: `guest`, `guest2` and so on."""
    return role if number == 0 else f"{role}{number + 1}"


def address(network: int, host: int) -> str:
    """Return the IPv4 address of a host in one of the lab's networks: 198.18.0.0/15 is for benchmarks (RFC 2544)."""
    return f"198.{18 + network // 256}.{network % 256}.{host}"


def address6(network: int, host: int) -> str:
    """Return the IPv6 address of a host in one of the lab's networks: 2001:2::/48 is for benchmarks (RFC 5180)."""
    return f"2001:2:0:{network:x}::{host:x}"


def mac(network: int, host: int, index: int) -> str:
    """Return the local MAC address of the interface of that index of a host in one of the lab's networks."""
    return f"02:76:74:{network:02x}:{host:02x}:{index:02x}"


def make_interface(
    index: int,
    network: int,
    host: int,
    settings: LinkSettings,
    routes: tuple[tuple[str, str], ...] = (),
    engine: str = "",
) -> Interface:
    """Return the interface `eth{index}` of a host in a network, with addresses made of the numbers of both.

    index: of the interface, from 0.
    network, host: numbers in the lab.
    settings: of the link.
    routes: (destination, gateway) pairs.
    engine: address of the gateway that a NAT engine of the platform plays.
    """
    return Interface(
        name=f"eth{index}",
        mac=mac(network, host, index),
        addresses=(f"{address(network, host)}/24", f"{address6(network, host)}/64"),
        mtu=settings.mtu,
        offloads=settings.offloads,
        queues=settings.queues,
        routes=routes,
        engine=engine,
    )
