"""Networks of rootless containers: a program in user space, outside of the container, with sockets of its own.

It makes a tap in the container's network namespace and opens the container's connections in the lab, as QEMU's `user`
network does (see network.translation). It runs beside the runtime: outside of the guest's limits, in its CPU time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_interface
from pathlib import Path
from typing import Literal

from vtax.counters.layer import Part
from vtax.errors import PlatformError
from vtax.host import namespaces
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.process import run, spawn
from vtax.host.resources import NetworkNamespace
from vtax.host.waiting import wait_until
from vtax.messages import Note
from vtax.network.namespace import NAMES, Namespace
from vtax.network.plugboard import Interface
from vtax.platforms.base import GuestSpec, NetworkLimits
from vtax.platforms.stdio import StdioGuest, describe

Network = Literal["kernel", "pasta", "slirp4netns"]
PACKAGES = {"pasta": "passt", "slirp4netns": "slirp4netns"}
"""Debian package of each program."""
PART = Part("network", "pas(ta|st).*|slirp4netns")
_MAX_MTU = 65520
_START_S = 10.0


def programs(network: Network) -> dict[str, str]:
    """Return what must be installed, with its package."""
    return {network: PACKAGES[network]} if network in PACKAGES else {}


def limited(limits: NetworkLimits, network: Network) -> NetworkLimits:
    """Return what is left of the limits of a container: one interface, joined by `own-nat`."""
    if network not in PACKAGES:
        return limits
    return replace(
        limits,
        interfaces=1,
        queues=1,
        engine_mtu=_MAX_MTU,
        forwards=False,
        not_attached=("bridge", "veth", "macvtap", "nat"),
        links_change=False,
    )


def is_wanted(network: Network, spec: GuestSpec) -> bool:
    """Return whether the program carries this guest's packets: in guest-to-guest the lab carries those of one."""
    board = spec.plugboard
    return (
        network in PACKAGES
        and board is not None
        and all(interface.engine for interface in board.interfaces)
    )


def connect(network: Network, spec: GuestSpec, guest: StdioGuest, pid: int, subgroup: str) -> None:
    """Start the program for the network namespace of a process, and configure the interface that it makes there.

    subgroup: of the guest's cgroup, for the program. Raises PlatformError, NetworkError or CommandFailed.
    """
    assert spec.plugboard is not None
    (interface,) = spec.plugboard.interfaces
    log = spec.directory / "network.log"
    guest.claim.before.append(spec.journal.register(NetworkNamespace(spec.name)))
    run(["ip", "netns", "attach", spec.name, str(pid)])  # pasta may not open /proc/PID/ns/net
    netns = NAMES / spec.name
    Namespace(netns).suppress_background_traffic()
    argv = command_line(network, interface, netns, _uplink_interface(spec.plugboard.lab_namespace))
    with log.open("wb") as errors, guest.group.child(subgroup).procs_file() as join:
        process = spawn(
            ["nsenter", f"--net=/run/netns/{spec.plugboard.lab_namespace}", "--", *argv],
            tag=guest.claim.tag,
            stderr=errors.fileno(),
            before_exec=namespaces.private(join=join),
        )
    guest.claim.beside.append(process)
    deadline = time.monotonic() + _START_S * timeout_factor()

    def failed() -> PlatformError:
        return PlatformError(
            Note("network-not-started", network=network), where=describe(process, log)
        )

    def is_there() -> bool:
        if process.poll() is not None:
            raise failed()
        return f"{interface.name}:" in Path(f"/proc/{pid}/net/dev").read_text()

    wait_until(is_there, deadline - time.monotonic(), 0.002, max_interval_s=0.01, otherwise=failed)
    spec.plugboard.plug_engine(netns)
    guest.parts = (PART, *guest.parts)
    guest.notes += (Note("user-network", network=network),)


def command_line(
    network: Network, interface: Interface, netns: Path, lab_interface: str
) -> Sequence[str]:
    """Return the command, as Podman gives it. lab_interface: of the lab, that pasta needs to name."""
    network_address = ip_interface(interface.addresses[0])
    if network == "slirp4netns":
        return [
            "slirp4netns",
            "--disable-host-loopback",
            "--disable-dns",
            f"--mtu={interface.mtu}",
            "--enable-sandbox",
            "--enable-seccomp",
            f"--cidr={network_address.network}",
            "--netns-type=path",
            str(netns),
            interface.name,
        ]
    return [
        "pasta",
        "--foreground",
        "--runas=0",
        "--netns-only",
        f"--netns={netns}",
        f"--ns-ifname={interface.name}",
        f"--address={network_address.ip}",
        f"--netmask={network_address.network.prefixlen}",
        f"--gateway={interface.engine}",
        f"--mtu={interface.mtu}",
        f"--interface={lab_interface}",
        "--ipv4-only",
        "--tcp-ports=none",
        "--udp-ports=none",
        "--tcp-ns=none",
        "--udp-ns=none",
        "--no-map-gw",
        "--no-dhcp",
    ]


def _uplink_interface(namespace: str) -> str:
    """Return an interface by which the lab reaches what guests talk to: the last one that has an address."""
    listing = Namespace.named(namespace).run(["ip", "-json", "-4", "address", "show", "up"]).stdout
    return str(
        [link["ifname"] for link in json.loads(listing) if link.get("ifname", "lo") != "lo"][-1]
    )
