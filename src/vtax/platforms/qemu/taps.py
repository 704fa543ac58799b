"""Macvtaps for QEMU. A tap is opened by its name; a macvtap is a character device, and is handed over open.

Its device number is asked of the namespace it lives in: the node that the kernel makes in /dev is named after an
interface index, which is not unique across namespaces.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from vtax.host.process import run


def open_macvtaps(
    namespace: str, taps: Sequence[str], queues: int, directory: Path, fds: ExitStack
) -> dict[str, tuple[int, ...]]:
    """Open those of the taps that are macvtaps, once per queue: name -> descriptors, closed by fds.

    directory: a private one, for a moment. Raises CommandFailed or OSError.
    """
    shown = run(["ip", "-json", "-details", "link", "show"], network_namespace=namespace).stdout
    kinds = {
        link["ifname"]: link.get("linkinfo", {}).get("info_kind") for link in json.loads(shown)
    }
    indices = {link["ifname"]: link["ifindex"] for link in json.loads(shown)}
    opened = {}
    for tap in taps:
        if kinds.get(tap) == "macvtap":
            numbers = Path("/sys/class/net", tap, "macvtap", f"tap{indices[tap]}", "dev")
            major, minor = run(["ip", "netns", "exec", namespace, "cat", numbers]).stdout.split(":")
            opened[tap] = _open(directory / tap, os.makedev(int(major), int(minor)), queues, fds)
    return opened


def _open(node: Path, device: int, queues: int, fds: ExitStack) -> tuple[int, ...]:
    os.mknod(node, stat.S_IFCHR | 0o600, device)
    try:
        found = []
        for _ in range(queues):
            found.append(os.open(node, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
            fds.callback(os.close, found[-1])
        return tuple(found)
    finally:
        node.unlink()
