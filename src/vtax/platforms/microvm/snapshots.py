"""Snapshots of microVMs, kept by all that decides them, and requests to a monitor, HTTP over a unix socket."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtax.errors import PlatformError
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.removal import remove_tree
from vtax.host.resources import Tree
from vtax.host.waiting import wait_until
from vtax.messages import Note

SOCKET = "api.sock"
_KEPT = 8
_CONNECT_S, _ANSWER_S = 10.0, 60.0
_CHANGING = ("cpu MHz", "bogomips")
_SHOWN = 200


@dataclass(frozen=True)
class Api:
    """Requests to a monitor that serves SOCKET in its directory."""

    directory: Path
    product: str

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        """Send a request. Raises PlatformError when it is refused or not answered."""
        connection = _Connection(self.directory, _ANSWER_S * timeout_factor())
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise PlatformError(
                Note("vmm-silent", product=self.product, path=path, error=error)
            ) from error
        finally:
            connection.close()
        if answer.status >= http.client.MULTIPLE_CHOICES:
            raise PlatformError(
                Note("vmm-refused", product=self.product, path=path), where=said[:_SHOWN]
            )


class _Connection(http.client.HTTPConnection):
    """Connects to SOCKET by a descriptor of its directory, whose path may be longer than an address."""

    def __init__(self, directory: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._directory = directory

    def connect(self) -> None:
        directory = os.open(self._directory, os.O_PATH | os.O_DIRECTORY)
        try:
            self.sock = wait_until(
                lambda: _connected(directory), _CONNECT_S * timeout_factor(), 0.001
            )
        finally:
            os.close(directory)
        if self.sock is None:
            raise FileNotFoundError(f"{SOCKET} does not answer")
        self.sock.settimeout(self.timeout)


def _connected(directory: int) -> socket.socket | None:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.connect(f"/proc/self/fd/{directory}/{SOCKET}")
    except OSError:
        found.close()
        return None
    return found


def key(*decides: object) -> str:
    """Return a name of what decides a snapshot: this, the host's kernel and its processor."""
    cpu = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    host = [os.uname().release, *(line for line in cpu if not line.startswith(_CHANGING))]
    return hashlib.sha256(repr((*decides, *host)).encode()).hexdigest()[:16]


def ensure(name: str, make: Callable[[Path], None], journal: Journal) -> tuple[Path, bool]:
    """Return the directory of a snapshot, and whether it was made now, by `make`. The oldest of many go."""
    kept = Home.from_environment().root / "cache" / "snapshots"
    kept.mkdir(parents=True, exist_ok=True)
    final, partial = kept / name, kept / f"{name}.partial"
    with _alone(kept):
        if final.is_dir():
            os.utime(final)
            return final, False
        registered = journal.register(Tree(str(partial)))
        try:
            partial.mkdir()
            make(partial)
            partial.rename(final)
        finally:
            registered.release()
        others = sorted(
            kept.glob("[0-9a-f]" * 16), key=lambda path: path.stat().st_mtime, reverse=True
        )
        for path in others[_KEPT:]:
            remove_tree(path)
    return final, True


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Let one process at a time make snapshots. The kernel frees the lock when it dies."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
