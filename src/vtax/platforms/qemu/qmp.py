"""The few requests of QEMU's machine protocol that vtax needs (QMP: one JSON object a line)."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from vtax.errors import PlatformError
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
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        try:
            self._connection.sendall(
                json.dumps({"execute": command, "arguments": named}).encode() + b"\n"
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

    def _next(self, wanted: str, command: str = "greeting") -> Any:
        deadline = time.monotonic() + self._timeout_s
        while True:
            message = self._message(deadline, command)
            if wanted in message:
                return message[wanted]
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
