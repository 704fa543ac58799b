"""One byte stream to a guest: file descriptors with deadlines, nothing more. Framing lives in guest.protocol."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from vtax.errors import GuestError

_CHUNK = 1 << 16


class Channel:
    """A byte stream over one or two file descriptors.

    diagnose: called when the stream ends or falls silent, to say what the platform knows of it (a console's last
    lines, a process's exit status); its text goes into the error.
    """

    def __init__(self, read_fd: int, write_fd: int, diagnose: Callable[[], str] = lambda: "") -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._diagnose = diagnose
        self._closed = False
        for fd in {read_fd, write_fd}:
            os.set_blocking(fd, False)

    @classmethod
    def to_unix_socket(cls, path: Path, *, timeout_s: float, diagnose: Callable[[], str] = lambda: "") -> Self:
        """Connect to a unix stream socket that may not exist yet. Raises GuestError after timeout_s."""
        deadline = time.monotonic() + timeout_s
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(path))
            except OSError as error:
                connection.close()
                if time.monotonic() > deadline:
                    raise GuestError(f"no connection to {path} within {timeout_s:g} s: {error}") from error
                time.sleep(0.005)
            else:
                fd = connection.detach()
                return cls(fd, fd, diagnose)

    def read(self, size: int, deadline: float) -> bytes:
        """Exactly size bytes. deadline: on time.monotonic(). Raises GuestError when it passes or the stream ends."""
        parts: list[bytes] = []
        missing = size
        while missing:
            self._wait(self._read_fd, select.POLLIN, deadline)
            try:
                part = os.read(self._read_fd, min(missing, _CHUNK))
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._broken(f"reading from the guest failed: {error}") from error
            if not part:
                raise self._broken("the guest closed its channel")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def write(self, data: bytes, deadline: float) -> None:
        """All of data. Raises GuestError when the deadline passes or the stream is closed."""
        view = memoryview(data)
        while view:
            self._wait(self._write_fd, select.POLLOUT, deadline)
            try:
                view = view[os.write(self._write_fd, view[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._broken(f"writing to the guest failed: {error}") from error

    def close(self) -> None:
        """Close the descriptors. May be called twice."""
        if not self._closed:
            self._closed = True
            for fd in {self._read_fd, self._write_fd}:
                with suppress(OSError):
                    os.close(fd)

    def _wait(self, fd: int, event: int, deadline: float) -> None:
        if self._closed:
            raise GuestError("the channel to the guest is closed")
        poll = select.poll()
        poll.register(fd, event)
        remaining_ms = (deadline - time.monotonic()) * 1000
        if remaining_ms <= 0 or not poll.poll(remaining_ms):
            raise self._broken("the guest fell silent")

    def _broken(self, what: str) -> GuestError:
        told = self._diagnose().strip()
        return GuestError(what, where=told[-400:])
