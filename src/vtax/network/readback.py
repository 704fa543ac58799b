"""State of an interface, read from the kernel after every change: MTU, offloads, queues."""

from __future__ import annotations

import fcntl
import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from vtax.foreign_data import parse_json
from vtax.messages import Note
from vtax.network.namespace import Namespace, inside
from vtax.network.settings import LinkSettings

_SIOCGIFMTU = 0x8921  # linux/sockios.h
_FEATURES = {
    "tx-checksumming": "tx",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
}


@dataclass(frozen=True)
class InterfaceState:
    """One interface as its kernel has it.

    offloads: by their short names in ethtool(8), as far as they can be read.
    queues: that receive; None when unknown.
    """

    mtu: int
    offloads: Mapping[str, bool]
    queues: int | None = None

    def differences(self, name: str, settings: LinkSettings) -> list[Note]:
        """Return notes on what differs from the settings. name: of the interface, for the notes.

        Offloads that are on need no receive offload, since a veth is made without it.
        """
        requested = "on" if settings.offloads else "off"
        notes = []
        if self.mtu != settings.mtu:
            notes.append(Note("link-mtu", name=name, requested=settings.mtu, found=self.mtu))
        if self.queues is not None and self.queues != settings.queues:
            notes.append(
                Note("link-queues", name=name, requested=settings.queues, found=self.queues)
            )
        for feature, on in self.offloads.items():
            if on != settings.offloads and (feature != "gro" or on):
                notes.append(Note("link-offload", name=name, feature=feature, requested=requested))
        return notes


def features(ethtool_text: str) -> dict[str, bool]:
    """Return short name -> state of the offloads in the output of `ethtool -k`."""
    lines = dict(re.findall(r"^([a-z-]+): (on|off)", ethtool_text, re.MULTILINE))
    return {short: lines[long] == "on" for long, short in _FEATURES.items() if long in lines}


def from_outside(namespace: Namespace, interface: str) -> InterfaceState:
    """Return the state of an interface in a namespace."""
    ethtool = namespace.run(["ethtool", "-k", interface], check=False).stdout
    (link,) = parse_json(namespace.run(["ip", "-j", "-d", "link", "show", "dev", interface]).stdout)
    return InterfaceState(link["mtu"], features(ethtool), link.get("num_rx_queues"))


def mtu_of(namespace: Namespace, interface: str) -> int:
    """Return the MTU of an interface (netdevice(7), SIOCGIFMTU). Raises OSError when it is gone."""

    def ask() -> int:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            reply = fcntl.ioctl(
                any_socket, _SIOCGIFMTU, struct.pack("16si20x", interface.encode(), 0)
            )
        mtu: int = struct.unpack_from("i", reply, 16)[0]
        return mtu

    return inside(namespace.path, ask)
