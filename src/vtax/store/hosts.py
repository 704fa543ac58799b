"""Which host a session was measured on, and with which files: facts that say so, and what two of them mean together.

A host is what machine-id(5) and the firmware say of it, never what was measured of it: calibrated figures differ from
boot to boot.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

MACHINE_ID = "machine_id"
"""The fact of a host that is a hash of its machine-id(5)."""
HARDWARE_ID = "hardware_id"
"""The fact that is a hash of its DMI UUID and its board's serial number; absent where the firmware says neither."""
IMAGE_DIGEST = "image_digest"
"""The fact that is the SHA-256 of the files of the image that its guests started from."""
PEERS = "peers"
"""The fact that maps platforms to the identities of the machines that they are, where uplinks join them."""
_DIGITS = 12


def host_id(host: Mapping[str, Any]) -> str:
    """Return the identity of a host from its facts: a hash of machine-id, DMI UUID and board serial.

    That of the machine-id alone where the firmware says nothing; empty where neither is known.
    """
    machine, hardware = str(host.get(MACHINE_ID, "")), str(host.get(HARDWARE_ID, ""))
    if not machine or not hardware:
        return machine or hardware
    return hashlib.sha256(f"vtax {machine} {hardware}".encode()).hexdigest()[:_DIGITS]


def shared_machines(hosts: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return machines that some hosts have in common: one was measured with both, or with the other. hosts: facts.

    Nothing where all hosts were measured with the same machines, which then add to every one of them alike.
    """
    peers: dict[str, set[str]] = {}
    for host in hosts:
        peers_of_host = peers.setdefault(host_id(host), set())
        peers_known = host.get(PEERS)
        if isinstance(peers_known, Mapping):
            peers_of_host.update(map(str, peers_known.values()))
    if len(set(map(frozenset, peers.values()))) <= 1:
        return ()
    uses: Counter[str] = Counter()
    for name, peers_of_host in peers.items():
        uses.update({name, *peers_of_host} - {""})
    return tuple(sorted(machine for machine, count in uses.items() if count > 1))


def cloned(hosts: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return machine ids that several machines have: one was copied from the other. hosts: their facts."""
    hardware: dict[str, set[str]] = {}
    for host in hosts:
        if host.get(MACHINE_ID) and host.get(HARDWARE_ID):
            hardware.setdefault(str(host[MACHINE_ID]), set()).add(str(host[HARDWARE_ID]))
    return tuple(machine for machine, ids in hardware.items() if len(ids) > 1)


def half_known(hosts: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return machine ids that stand with a hash of the hardware and without one. hosts: their facts."""
    has_hardware: dict[str, set[bool]] = {}
    for host in hosts:
        if host.get(MACHINE_ID):
            has_hardware.setdefault(str(host[MACHINE_ID]), set()).add(bool(host.get(HARDWARE_ID)))
    return tuple(machine for machine, answers in has_hardware.items() if len(answers) > 1)


def digests(hosts: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the digests of the images that they had; an empty one where that is not known. hosts: their facts."""
    return frozenset(str(host.get(IMAGE_DIGEST, "")) for host in hosts)
