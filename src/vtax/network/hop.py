"""One interface on the way of the packets, and what can be set on it from outside while guests live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vtax.errors import CommandFailed
from vtax.network.namespace import Namespace
from vtax.network.settings import LinkSettings
from vtax.network.wire import is_shaped, queueing, read_queueing

_OFFLOADS = ("tx", "tso", "gso", "gro")


@dataclass(frozen=True)
class Hop:
    """An interface that packets of the test cross.

    name: as counters call it (`guest.eth0`, `lab.guest-0`). limits: whether its egress is shaped (`wire`).
    limits_entry: the bridge that it is a port of, when what enters by it has to be limited too: the bridge is itself
    an end of the traffic, so on that way there is no other egress.
    role: of the end whose interface it is, empty for the lab's own. veth_pair: the same at both ends of one.
    counts: whether what crosses it is counted there; the kernel counts at a bridge only what is its own.
    """

    name: str
    namespace: Namespace
    interface: str
    kind: Literal["veth", "tap", "bridge", "macvlan", "nic"]
    limits: bool = False
    limits_entry: str = ""
    role: str = ""
    veth_pair: str = ""
    counts: bool = True

    def apply(self, settings: LinkSettings, before: LinkSettings) -> None:
        """Go from the settings in force to others: MTU, offloads, rate, delay and loss.

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
        features = _OFFLOADS if self.kind in ("tap", "nic") or not on else _OFFLOADS[:3]
        pairs = [part for feature in features for part in (feature, "on" if on else "off")]
        result = self.namespace.run(["ethtool", "-K", self.interface, *pairs], check=False)
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
        """Between port and bridge a veth, whose way to the bridge is shaped; without anything to shape, none."""
        near, far = self._entry, f"f-{self.interface}"[:15]
        self.namespace.run(["tc", "qdisc", "del", "dev", self.interface, "ingress"], check=False)
        self.namespace.run(["ip", "link", "del", near], check=False)
        if not is_shaped(settings):
            self.namespace.ip(f"link set dev {self.interface} master {self.limits_entry}")
            return
        self.namespace.ip(
            f"link set dev {self.interface} nomaster",
            f"link add name {near} mtu {settings.mtu} type veth peer name {far} mtu {settings.mtu}",
            f"link set dev {near} up",
            f"link set dev {far} master {self.limits_entry} up",
        )
        self.namespace.redirect(self.interface, near)
        self._queue(near, settings)

    @property
    def _entry(self) -> str:
        return f"n-{self.interface}"[:15]

    def _queue(self, interface: str, settings: LinkSettings) -> None:
        self.namespace.run(
            ["tc", "qdisc", "replace", "dev", interface, "root", *queueing(settings)]
        )

    def shaped(self) -> list[dict[str, float | str]]:
        """Return what shapes its packets, as the kernel has it: of each direction that passes here; see
        `read_queueing`."""
        interfaces = (
            [self.interface, *([self._entry] if self.limits_entry else [])] if self.limits else []
        )
        return [
            read_queueing(
                self.namespace.run(["tc", "-j", "qdisc", "show", "dev", name, "root"]).stdout
            )
            for name in interfaces
        ]


def _shape_of(settings: LinkSettings) -> tuple[float | int | None, ...] | None:
    """Return settings that shaping depends on; None without any."""
    if not is_shaped(settings):
        return None
    return settings.rate_mbit_s, settings.delay_us, settings.jitter_us, settings.loss, settings.mtu
