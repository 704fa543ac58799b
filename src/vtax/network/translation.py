"""Address translation between the guests of a topology and what they talk to (RFC 3022).

`nat` is the kernel's: two bridges, the lab routes between them and gives the guests' packets its own address; what
Docker, LXC and the default network of libvirt are. `own-nat` is the platform's own: an engine in user space of a
hypervisor that has one (QEMU's `user` network, VirtualBox's NAT), which runs in the lab and opens the connections
there; the kernel's for every other platform.
"""

from __future__ import annotations

from vtax.network.attach import segment
from vtax.network.end import NetworkEnd
from vtax.network.lab import Lab, address, make_interface, numbered
from vtax.network.plugboard import Interface
from vtax.network.segment import BridgeSegment, Segment
from vtax.network.settings import Attachment, LinkSettings

ATTACHMENTS: tuple[Attachment, ...] = ("nat", "own-nat")
INNER, OUTER = 0, 1
"""The networks of the guests and of what they talk to."""
GATEWAY, FIRST_GUEST = 2, 15
"""Hosts of the inner network: where engines have their gateway and their first guest by default."""
_GUEST = 2  # the first one on the network of its peer
_ROUTER = 254
OUTER_HOP = "lab.br1"
"""Where the traffic of a guest behind an engine is counted: the lab's side of the outer network."""


def networks(lab: Lab, settings: LinkSettings) -> tuple[Segment, Segment]:
    """Return the network of the guests and that of what they talk to: one, or two that the lab translates between.

    Raises NetworkError or CommandFailed.
    """
    if settings.attachment not in ATTACHMENTS:
        network = segment(lab.namespace("lab"), 0, settings)
        return network, network
    namespace, by_engine = lab.namespace("lab"), settings.attachment == "own-nat"
    inner = BridgeSegment(namespace, "br0", settings.mtu, routes=True, is_shaped=not by_engine)
    outer = BridgeSegment(namespace, "br1", settings.mtu, routes=True, ends=by_engine)
    namespace.ip(
        f"address add {address(INNER, GATEWAY)}/24 dev br0",
        f"address add {address(OUTER, _ROUTER)}/24 dev br1",
    )
    namespace.set("ipv4/ip_forward", "1")
    namespace.set("ipv4/ping_group_range", "0 0")  # an engine sends a guest's echo as its own
    namespace.run(["iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "br1", "-j", "MASQUERADE"])
    return inner, outer


def guest_interface(number: int, settings: LinkSettings) -> Interface:
    """Return the interface of a guest, by its number from 0: behind translation where there is one."""
    if settings.attachment not in ATTACHMENTS:
        return make_interface(0, 0, _GUEST + number, settings)
    gateway = address(INNER, GATEWAY)
    engine = gateway if settings.attachment == "own-nat" else ""
    return make_interface(
        0, INNER, FIRST_GUEST + number, settings, ((f"{address(OUTER, 0)}/24", gateway),), engine
    )


def guest_ends(lab: Lab, settings: LinkSettings, network: Segment) -> list[NetworkEnd]:
    """Return the guests of a lab, each with one interface in their network."""
    guests = []
    for number in range(lab.guests):
        interface = guest_interface(number, settings)
        guests.append(
            NetworkEnd(numbered("guest", number), [(interface, network)], under_test=True)
        )
    return guests
