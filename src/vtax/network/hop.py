"""One interface on the way of the packets, and what can be set on it from outside while guests live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vtax.errors import CommandFailed
from vtax.network.namespace import Namespace
from vtax.network.settings import LinkSettings

_OFFLOADS = ("tx", "tso", "gso", "gro")
_TICK_S = 0.004  # the coarsest kernel timer in use (HZ=250): a token bucket must hold what flows between two ticks
_ETHERNET_HEADER = 14  # bytes, IEEE 802.3
_QUEUE_S = 0.05  # longest a packet waits in a rate limiter, as in tc-tbf(8)'s own example


@dataclass(frozen=True)
class Hop:
    """An interface that packets of the test cross.

    name: as counters call it (`guest.eth0`, `lab.guest-0`). limits: whether this hop's egress carries the rate limit.
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
        """Go from the settings in force to others: MTU, offloads, rate limit.

        Raises NetworkError or CommandFailed.
        """
        if before.mtu != settings.mtu:
            self.namespace.ip(f"link set dev {self.interface} mtu {settings.mtu}")
        if settings.offloads != before.offloads:
            self._set_offloads(settings.offloads)
        if self.limits and _limit_of(settings) != _limit_of(before):
            self._limit(settings)

    def _set_offloads(self, on: bool) -> None:
        # A veth's receive offload is off from birth: turning it "back" on would change how it polls.
        features = _OFFLOADS if self.kind in ("tap", "nic") or not on else _OFFLOADS[:3]
        pairs = [part for feature in features for part in (feature, "on" if on else "off")]
        result = self.namespace.run(["ethtool", "-K", self.interface, *pairs], check=False)
        if result.status not in (0, 1):  # 1: some feature is fixed, which reading back will show
            raise CommandFailed(f"ethtool -K {self.interface} failed: {result.stderr.strip()}")

    def _limit(self, settings: LinkSettings) -> None:
        if self.limits_entry:
            self._limit_entry(settings)
        if settings.rate_mbit_s is None:
            self.namespace.run(["tc", "qdisc", "del", "dev", self.interface, "root"], check=False)
        else:
            self._bucket(self.interface, settings, settings.rate_mbit_s)

    def _limit_entry(self, settings: LinkSettings) -> None:
        """Between port and bridge a veth, whose way to the bridge has the token bucket; without a limit, none."""
        near, far = f"n-{self.interface}"[:15], f"f-{self.interface}"[:15]
        self.namespace.run(["tc", "qdisc", "del", "dev", self.interface, "ingress"], check=False)
        self.namespace.run(["ip", "link", "del", near], check=False)
        if settings.rate_mbit_s is None:
            self.namespace.ip(f"link set dev {self.interface} master {self.limits_entry}")
            return
        self.namespace.ip(
            f"link set dev {self.interface} nomaster",
            f"link add name {near} mtu {settings.mtu} type veth peer name {far} mtu {settings.mtu}",
            f"link set dev {near} up",
            f"link set dev {far} master {self.limits_entry} up",
        )
        self.namespace.redirect(self.interface, near)
        self._bucket(near, settings, settings.rate_mbit_s)

    def _bucket(self, interface: str, settings: LinkSettings, rate_mbit_s: float) -> None:
        burst = burst_bytes(rate_mbit_s, settings.mtu)
        queue = max(round(rate_mbit_s * 1e6 / 8 * _QUEUE_S), 2 * burst)
        self.namespace.run(
            ["tc", "qdisc", "replace", "dev", interface, "root", "tbf",
             "rate", f"{round(rate_mbit_s * 1e6)}bit", "burst", str(burst), "limit", str(queue)]
        )  # fmt: skip


def burst_bytes(rate_mbit_s: float, mtu: int) -> int:
    """What a link with a rate lets through at once, on top of its rate."""
    return max(round(rate_mbit_s * 1e6 / 8 * _TICK_S), 2 * (mtu + _ETHERNET_HEADER))


def _limit_of(settings: LinkSettings) -> tuple[float, int] | None:
    """What a rate limiter depends on; None without a limit."""
    return None if settings.rate_mbit_s is None else (settings.rate_mbit_s, settings.mtu)
