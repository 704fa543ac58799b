"""A process of QEMU: the monitor that answers while it runs, the macvtaps that it is handed open, and how it crashed.

A tap is opened by QEMU by its name; a macvtap is a character device. Its device number is asked of the namespace it
lives in: the node that the kernel makes in /dev is named after an interface index, which is not unique across
namespaces. A host's KVM that cannot do what it promises shows as an assertion of QEMU (`kvm_buf_set_msrs`). What QEMU
writes then is a line of its source, of no use to a reader.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import stat
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from vtax.errors import PlatformError
from vtax.host.process import run
from vtax.messages import Note


class Monitor:
    """A monitor on a connected socket. timeout_s: for each answer. Every call raises PlatformError."""

    def __init__(self, connection: socket.socket, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._buffer = b""
        self._next("QMP")
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: object) -> Any:
        """Return the result of a command, without events in between. arguments: `-` in their names is `_` here."""
        qmp_arguments = {name.replace("_", "-"): value for name, value in arguments.items()}
        try:
            self._connection.sendall(
                json.dumps({"execute": command, "arguments": qmp_arguments}).encode() + b"\n"
            )
        except OSError as error:
            raise PlatformError(Note("monitor-refuses", command=command, error=error)) from error
        return self._next("return", command)

    def vcpu_threads(self) -> list[int]:
        """Thread ids of the virtual CPUs, in their order."""
        cpus = self.execute("query-cpus-fast")
        return [
            int(cpu["thread-id"]) for cpu in sorted(cpus, key=lambda cpu: int(cpu["cpu-index"]))
        ]

    def _next(self, key: str, command: str = "greeting") -> Any:
        deadline = time.monotonic() + self._timeout_s
        while True:
            message = self._message(deadline, command)
            if key in message:
                return message[key]
            if "error" in message:
                raise PlatformError(
                    f"QEMU refused {command}: {message['error'].get('desc', message['error'])}"
                )

    def _message(self, deadline: float, command: str) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            self._connection.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                part = self._connection.recv(65536)
            except OSError as error:
                raise PlatformError(Note("monitor-silent", command=command, error=error)) from error
            if not part:
                raise PlatformError(Note("qemu-ended-starting"))
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise PlatformError(Note("monitor-no-json", value=f"{line[:80]!r}")) from error
        return message


def open_macvtaps(
    namespace: str, taps: Sequence[str], queues: int, directory: Path, fds: ExitStack
) -> dict[str, tuple[int, ...]]:
    """Open those of the taps that are macvtaps, once per queue: name -> descriptors, closed by fds.

    directory: a private one, for a moment. Raises CommandFailed or OSError.
    """
    listing = run(["ip", "-json", "-details", "link", "show"], network_namespace=namespace).stdout
    kinds = {
        link["ifname"]: link.get("linkinfo", {}).get("info_kind") for link in json.loads(listing)
    }
    indices = {link["ifname"]: link["ifindex"] for link in json.loads(listing)}
    fds_by_tap = {}
    for tap in taps:
        if kinds.get(tap) == "macvtap":
            numbers = Path("/sys/class/net", tap, "macvtap", f"tap{indices[tap]}", "dev")
            major, minor = run(["ip", "netns", "exec", namespace, "cat", numbers]).stdout.split(":")
            fds_by_tap[tap] = _open_queues(
                directory / tap, os.makedev(int(major), int(minor)), queues, fds
            )
    return fds_by_tap


def _open_queues(node: Path, device: int, queues: int, fds: ExitStack) -> tuple[int, ...]:
    os.mknod(node, stat.S_IFCHR | 0o600, device)
    try:
        descriptors = []
        for _ in range(queues):
            descriptors.append(os.open(node, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
            fds.callback(os.close, descriptors[-1])
        return tuple(descriptors)
    finally:
        node.unlink()


# glibc: `FILE:LINE: FUNCTION: Assertion ... failed.`; glib: `ERROR:FILE:LINE:FUNCTION: assertion failed: ...`
_ASSERTION = re.compile(r":\d+: ?(?:[^:\n]*\W)?(\w+)(?:\([^:\n]*\))?: [Aa]ssertion ")
_CRASH = re.compile(r"QEMU (?:aborted in \w+|was ended by SIG\w+)")
_SHELLS_OFFSET = 128
"""Status of a program that a signal ended, less the signal, where a script wraps QEMU (sh(1))."""


def crash(status: int | None, stderr: str) -> str:
    """Return `QEMU aborted in FUNCTION` or `QEMU was ended by SIGNAL`; empty when QEMU runs or ended by itself.

    status: of the process as subprocess gives it; None while it runs, which it does a moment longer after it wrote of
    a failed assertion.
    """
    assertion = _ASSERTION.search(stderr)
    if assertion:
        return f"QEMU aborted in {assertion[1]}"
    if status is not None:
        with suppress(ValueError):
            number = -status if status < 0 else status - _SHELLS_OFFSET
            return f"QEMU was ended by {signal.Signals(number).name}"
    return ""


def crash_in(text: str) -> str:
    """Return the text of `crash` in a longer text that contains it; empty when it does not."""
    crashed = _CRASH.search(text)
    return crashed[0] if crashed else ""


def leave_no_core() -> None:
    """Between fork and exec: a crash writes no core file into the working directory."""
    _, maximum = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, maximum))
