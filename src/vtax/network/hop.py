"""One interface on the way of the packets, and what can be set on it from outside while guests live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vtax.counters.packets import ETHERNET_HEADER
from vtax.counters.table import RX_BYTES, RX_PACKETS
from vtax.errors import CommandFailed
from vtax.network.namespace import Namespace
from vtax.network.settings import LinkSettings
from vtax.network.wire import is_shaped, queueing, read_queueing

OFFLOADS = ("tx", "tso", "gso", "gro")
"""Offloads of an interface that are switched on or off, by their names in ethtool(8)."""
Kind = Literal["veth", "tap", "bridge", "macvlan", "nic", "netback"]
"""`netback`: the host's side of an interface of a paravirtual Xen domain (`vif7.0`)."""
RECEIVE_WITHOUT_HEADER: tuple[Kind, ...] = ("bridge", "netback")
"""Kinds that count received packets without their Ethernet header: the kernel has taken it off by then."""


@dataclass(frozen=True)
class Hop:
    """An interface that packets of the test cross.

    name: as counters call it (`guest.eth0`, `lab.guest-0`).
    namespace, interface: where it is, and its name there.
    kind: of the interface.
    limits: whether its egress is shaped (`wire`).
    limits_entry: the bridge that it is a port of, where its ingress has to be shaped too. That is so where the bridge is
        itself an end of the traffic: no other egress is on that way.
    role: of the end whose interface it is; empty for the lab's own.
    veth_pair: name of the pair, the same at both of its ends; empty for any other interface.
    counts: whether packets are counted at it. The kernel counts at a bridge only those to and from the bridge itself.
    """

    name: str
    namespace: Namespace
    interface: str
    kind: Kind
    limits: bool = False
    limits_entry: str = ""
    role: str = ""
    veth_pair: str = ""
    counts: bool = True

    def counters(self, traffic: Mapping[str, int]) -> dict[str, float]:
        """Return its counters by their names in table.HOP, bytes with the Ethernet header in both directions.

        traffic: what the kernel counted at the interface, by the same names.
        """
        counters = {name: float(value) for name, value in traffic.items()}
        if self.kind in RECEIVE_WITHOUT_HEADER:
            counters[RX_BYTES.name] += ETHERNET_HEADER * counters[RX_PACKETS.name]
        return counters

    def apply(self, settings: LinkSettings, before: LinkSettings) -> None:
        """Change MTU, offloads, rate, delay and loss. before: the effective settings.

        Raises NetworkError or CommandFailed.
        """
        if before.mtu != settings.mtu:
            self.namespace.ip(f"link set dev {self.interface} mtu {settings.mtu}")
        if settings.offloads != before.offloads:
            self._set_offloads(settings.offloads)
        if self.limits and _shape_of(settings) != _shape_of(before):
            self._shape(settings)

    def _set_offloads(self, on: bool) -> None:
        # A veth's receive offload is off from birth: turning it "back" on would change how it polls.
        features = OFFLOADS if self.kind in ("tap", "nic", "netback") or not on else OFFLOADS[:3]
        command = ["ethtool", "-K", self.interface, *offload_words(features, on)]
        result = self.namespace.run(command, check=False)
        if result.status not in (0, 1):  # 1: some feature is fixed, which reading back will show
            raise CommandFailed(f"ethtool -K {self.interface} failed: {result.stderr.strip()}")

    def _shape(self, settings: LinkSettings) -> None:
        if self.limits_entry:
            self._shape_entry(settings)
        if is_shaped(settings):
            self._queue(self.interface, settings)
        else:
            self.namespace.run(["tc", "qdisc", "del", "dev", self.interface, "root"], check=False)

    def _shape_entry(self, settings: LinkSettings) -> None:
        """Put a veth pair between port and bridge, and shape its way to the bridge; remove it without shaping."""
        entry, entry_peer = self._entry, f"f-{self.interface}"[:15]
        self.namespace.run(["tc", "qdisc", "del", "dev", self.interface, "ingress"], check=False)
        self.namespace.run(["ip", "link", "del", entry], check=False)
        if not is_shaped(settings):
            self.namespace.ip(f"link set dev {self.interface} master {self.limits_entry}")
            return
        self.namespace.ip(
            f"link set dev {self.interface} nomaster",
            f"link add name {entry} mtu {settings.mtu} type veth peer name {entry_peer} mtu {settings.mtu}",
            f"link set dev {entry} up",
            f"link set dev {entry_peer} master {self.limits_entry} up",
        )
        self.namespace.redirect(self.interface, entry)
        self._queue(entry, settings)

    @property
    def _entry(self) -> str:
        return f"n-{self.interface}"[:15]

    def _queue(self, interface: str, settings: LinkSettings) -> None:
        self.namespace.run(
            ["tc", "qdisc", "replace", "dev", interface, "root", *queueing(settings)]
        )

    def shaped(self) -> list[dict[str, float | str]]:
        """Return the effective shaping of each direction that passes here, as `read_queueing` reads it."""
        interfaces = []
        if self.limits:
            interfaces.append(self.interface)
        if self.limits and self.limits_entry:
            interfaces.append(self._entry)
        directions = []
        for name in interfaces:
            listing = self.namespace.run(["tc", "-j", "qdisc", "show", "dev", name, "root"])
            directions.append(read_queueing(listing.stdout))
        return directions


def offload_words(features: Sequence[str], on: bool) -> list[str]:
    """Return the words of ethtool(8) that switch offloads on or off: `tso off gso off`."""
    return " ".join(f"{feature} {'on' if on else 'off'}" for feature in features).split()


def _shape_of(settings: LinkSettings) -> tuple[float | int | None, ...] | None:
    """Return the settings that shaping depends on; None where a link is not shaped."""
    if not is_shaped(settings):
        return None
    return settings.rate_mbit_s, settings.delay_us, settings.jitter_us, settings.loss, settings.mtu
