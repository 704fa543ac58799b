"""One byte stream to a guest: file descriptors with deadlines, nothing more. Framing lives in guest.protocol.

Waiting is one poll(2) that sleeps until something happens, so a controller costs no CPU while a trial runs.
"""

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
from vtax.host.waiting import wait_until

_CHUNK = 1 << 18
_MAX_WAIT_MS = 86_400_000
_SHOWN_TAIL = 400


class Channel:
    """A byte stream over one or two file descriptors, used from one thread.

    diagnose: called when the stream ends or falls silent; its text, such as a console's last lines or the exit status
        of a process, goes into the error.
    has_data: whether anything ever came.
    agent: the agent to send into it, as guest.bootstrap does; its source when empty.
    silence_hint: of the error when nothing ever came.
    """

    def __init__(
        self, read_fd: int, write_fd: int, diagnose: Callable[[], str] = lambda: ""
    ) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self.diagnose = diagnose
        self._closed = False
        self.has_data = False
        self.agent = b""
        self.silence_hint = ""
        self._buffer = bytearray()
        for fd in {read_fd, write_fd}:
            os.set_blocking(fd, False)

    @classmethod
    def to_unix_socket(
        cls, path: Path, *, timeout_s: float, diagnose: Callable[[], str] = lambda: ""
    ) -> Self:
        """Connect to a unix stream socket that may not exist yet. Raises GuestError after timeout_s."""
        errors: list[OSError] = []

        def connect() -> socket.socket | None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(path))
            except OSError as error:
                connection.close()
                errors.append(error)
                return None
            return connection

        def failed() -> GuestError:
            state = diagnose().strip()[-_SHOWN_TAIL:]
            return GuestError(
                f"no connection to {path} within {timeout_s:g} s: {errors[-1]}", where=state
            )

        connection = wait_until(connect, timeout_s, 0.005, otherwise=failed)
        assert connection is not None
        fd = connection.detach()
        return cls(fd, fd, diagnose)

    def fileno(self) -> int:
        """Return the descriptor that is readable when the guest has sent something, for poll(2)."""
        return self._read_fd

    @property
    def descriptors(self) -> tuple[int, int]:
        """The descriptors that it reads from and writes to, to hand the stream over before anything was read."""
        return self._read_fd, self._write_fd

    def read(self, size: int, deadline: float) -> bytes:
        """Read exactly size bytes. deadline: on time.monotonic().

        Raises GuestError when the deadline passes or the stream ends.
        """
        while len(self._buffer) < size:
            self._fill(deadline)
        with memoryview(self._buffer) as arrived:  # an answer may be large: one copy of it, not two
            data = bytes(arrived[:size])
        del self._buffer[:size]
        return data

    def unread(self, data: bytes) -> None:
        """Have data that another stream has already brought read next."""
        self._buffer[:0] = data

    def skip_to(self, marker: bytes, limit: int, deadline: float) -> bytes:
        """Read up to and with the first marker; returns what came before it, at most limit bytes.

        For the start of a stream only, where a console may carry other text. Raises GuestError like `read`, and when
        more than limit bytes come without the marker.
        """
        while (at := self._buffer.find(marker)) < 0:
            if len(self._buffer) > limit:
                raise self.broken(
                    f"the guest sent {limit} bytes and none of them is the agent's greeting"
                )
            self._fill(deadline)
        skipped = bytes(self._buffer[:at])
        del self._buffer[: at + len(marker)]
        return skipped

    def write(self, data: bytes, deadline: float) -> None:
        """Write all of data. Raises GuestError when the deadline passes or the stream is closed."""
        view = memoryview(data)
        while view:
            self._refuse_closed()
            try:
                view = view[os.write(self._write_fd, view[:_CHUNK]) :]
            except BlockingIOError:
                self._wait(self._write_fd, select.POLLOUT, deadline)
            except OSError as error:
                raise self.broken("the guest closed its channel") from error

    def close(self) -> None:
        """Close the descriptors; the agent, if it lives, ends. May be called twice."""
        if not self._closed:
            self._closed = True
            for fd in {self._read_fd, self._write_fd}:
                with suppress(OSError):
                    os.close(fd)

    def broken(self, what: str) -> GuestError:
        """Return the error to raise about this stream: what happened, and what the platform knows of it."""
        hint = "" if self.has_data else self.silence_hint
        return GuestError(what, where=self.diagnose().strip()[-_SHOWN_TAIL:], hint=hint)

    def _fill(self, deadline: float) -> None:
        self._refuse_closed()
        try:
            part = os.read(self._read_fd, _CHUNK)
        except BlockingIOError:
            self._wait(self._read_fd, select.POLLIN, deadline)
            return
        except OSError:  # a reset socket, a terminal whose other end is closed
            part = b""
        if not part:
            raise self.broken("the guest closed its channel")
        self.has_data = True
        self._buffer += part

    def _wait(self, fd: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(fd, event)
        remaining_ms = (deadline - time.monotonic()) * 1000
        if remaining_ms <= 0:
            raise self.broken("the guest fell silent")
        poll.poll(min(remaining_ms, _MAX_WAIT_MS))

    def _refuse_closed(self) -> None:
        if self._closed:
            raise GuestError("the channel to the guest is closed")
