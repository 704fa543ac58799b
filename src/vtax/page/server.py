"""The HTTP server of the page: uvicorn, with limits on who holds a connection, and for how long.

A client that sends no request, or does not read its answer, must cost nobody else the page. Each connection has
HEADER_S for the header of a request, and its answers must go on being read. When there are as many as there may be, a
new one takes the place of the one that has waited longest.
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import socket
from contextlib import suppress
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from vtax.host.lock import is_measuring
from vtax.live.scheduling import set_idle

HEADER_S = 5.0
"""How long a connection may be without a complete header, from its start or from the answer before."""
UNREAD_S = 60.0
"""How long a client may read nothing of an answer."""
MOST_CONNECTIONS = 512
MOST_OF_AN_ADDRESS = 64
"""Connections of one address; not of the loopback interface, where every user of the host has every address."""
MOST_UNREAD = 64 << 20
"""Bytes of all answers that wait for their readers."""
MOST_AHEAD = 2
"""Connections that wait for an answer while a request begins that was sent before the answer to the one before it."""
_AHEAD_AGAIN_S = 0.05
_DESCRIPTORS = 4096
_RESERVED = (
    256  # of the store, of the worker, and of connections that are accepted and not yet refused
)
_ACCEPTED_AT_ONCE = 64
_BACKLOG = 1024


class Server(uvicorn.Server):
    """The server of an application. is_polite: its process is idle class (SCHED_IDLE) while a run measures here."""

    def __init__(self, app: ASGIApp, *, is_polite: bool = False) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                log_level="error",
                access_log=False,
                server_header=False,
                lifespan="on",
                timeout_graceful_shutdown=1,
                backlog=_ACCEPTED_AT_ONCE,
            )
        )
        self._is_polite = is_polite

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. asyncio accepts as many at once as uvicorn's backlog has; the kernel's is longer."""
        asyncio.get_running_loop().set_exception_handler(_Complaints(self))
        _raise_descriptors()
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        """Close what is overdue: ten times a second. Returns whether to end."""
        connections: list[Any] = list(self.server_state.connections)
        now = asyncio.get_running_loop().time()
        for connection in connections:
            connection.look(now)
        unread = sum(connection.unread for connection in connections)
        for connection in sorted(connections, key=_waiting_since):
            if unread > MOST_UNREAD and connection.unread:
                unread -= connection.unread
                connection.drop()
        if self._is_polite and counter % 10 == 0:
            with suppress(OSError):  # no descriptor is free to ask with; asked again in a second
                set_idle(is_measuring())
        return await super().on_tick(counter)


class Connection(H11Protocol):
    """One connection. waiting_since: when the client last did what it must, by the loop's clock in seconds."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.waiting_since = self.loop.time()
        self._unread_before = 0
        self._has_more = False  # requests that were sent ahead, and have not begun

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, in the place of another one where there is no room. Refused where none waits."""
        super().connection_made(transport)
        others = [other for other in self._all() if other is not self]
        address = self.address
        if address and not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            neighbours = [other for other in others if other.address == address]
            if len(neighbours) >= MOST_OF_AN_ADDRESS:
                self._replace(neighbours)
                return
        if len(others) >= _room():
            self._replace(others)

    def _replace(self, others: list[Connection]) -> None:
        """Drop the one that has waited longest: for a header, else for the reader of an answer, else this one."""
        idle = [other for other in others if not other.is_answering]
        if not idle:
            idle = [other for other in others if other.unread]
        min(idle, key=_waiting_since, default=self).drop()

    @property
    def address(self) -> str:
        """Address of the client; empty where it has none."""
        return self.client[0] if self.client else ""

    def _all(self) -> list[Connection]:
        return [other for other in self.connections if isinstance(other, Connection)]

    @property
    def is_answering(self) -> bool:
        """Whether a request is complete and its answer not yet made."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_unanswered(self) -> bool:
        """Whether a request is complete and its answer has not begun."""
        return self.is_answering and not self.cycle.response_started

    @property
    def unread(self) -> int:
        """Bytes of answers that wait for the client, beside those that the kernel holds."""
        return self.transport.get_write_buffer_size()

    def look(self, now: float) -> None:
        """Drop it when it is overdue. now: the loop's clock in seconds."""
        unread, before = self.unread, self._unread_before
        self._unread_before = unread
        is_made = (self.is_answering or self._has_more) and not unread  # or is to be
        if unread < before or (unread and not before) or is_made:
            self.waiting_since = now
        elif now - self.waiting_since > (UNREAD_S if unread else HEADER_S):
            self.drop()

    def drop(self) -> None:
        """Close it at once; what was not read is lost."""
        self.connections.discard(self)
        self.transport.abort()

    def on_response_complete(self) -> None:
        """Wait for the next request. One that came already begins when it may, see `go_on`."""
        self.waiting_since = self.loop.time()
        self._has_more = bool(self.conn.trailing_data[0])
        self.go_on()

    def go_on(self) -> None:
        """Begin a request that was sent before the answer to the one before it: when what was answered is on its way,
        and hardly any connection waits for the beginning of its answer. Asked again soon after, until then."""
        if self.transport.is_closing():
            return
        if self._has_more and (self.unread or self._others_waiting() >= MOST_AHEAD):
            self.loop.call_later(_AHEAD_AGAIN_S, self.go_on)
            return
        self._has_more = False
        super().on_response_complete()

    def _others_waiting(self) -> int:
        return sum(other.is_unanswered for other in self._all())

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP. Amid an answer, and where none can be sent any more, only close."""
        if self.is_answering:
            self.cycle.disconnected = True  # so that it sends nothing more
            self.cycle.message_event.set()
            self.drop()
            return
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.drop()


def _waiting_since(connection: Connection) -> float:
    return connection.waiting_since


class _Complaints:
    """The exception handler of the loop: that no connection can be accepted is said once, not for every attempt.

    asyncio tries again a second after each attempt, also when the server has closed its listener meanwhile.
    """

    def __init__(self, server: uvicorn.Server) -> None:
        self._server = server
        self._is_said = False

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error, message = context.get("exception"), str(context.get("message"))
        if self._server.should_exit and "_start_serving" in message:
            return
        if not isinstance(error, OSError) or "accept" not in message:
            loop.default_exception_handler(context)
        elif not self._is_said:
            self._is_said = True
            uvicorn.server.logger.error("connections cannot be accepted: %s", error.strerror)


def _room() -> int:
    """Return how many connections there may be: each may need a descriptor for a file, too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft < 0 else max(min(MOST_CONNECTIONS, (soft - _RESERVED) // 2), 16)


def _raise_descriptors() -> None:
    """Raise the soft limit of descriptors as far as the hard one allows and connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft_wanted = _DESCRIPTORS if hard < 0 else min(_DESCRIPTORS, hard)
    if 0 <= soft < soft_wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft_wanted, hard))
