"""A guest that lies: the real agent, and between it and the controller someone who changes its answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from scripted import ProcessGuest

from vtax.errors import GuestError
from vtax.guest import bootstrap
from vtax.guest.channel import Channel
from vtax.guest.protocol import MAGIC, encode, receive
from vtax.platforms.base import GuestSpec

FOREVER = 1e12

Answer = tuple[dict[str, Any], bytes]
Lie = Callable[[dict[str, Any], dict[str, Any], bytes], Answer | bytes | None]
"""(request, header and payload of the true answer) -> other ones, raw bytes to send, or None for the truth."""


class LyingGuest(ProcessGuest):
    """What the controller talks to is a thread, which talks to the agent."""

    def __init__(self, spec: GuestSpec, lie: Lie) -> None:
        super().__init__(spec)
        self._agent = self.channel
        self._lie = lie
        ours, stranger = socket.socketpair()
        self.channel = Channel(ours.fileno(), ours.detach())
        self._controller = Channel(stranger.fileno(), stranger.detach())
        self._thread = threading.Thread(target=self._relay, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        super().stop()
        self._controller.close()
        self._thread.join(10)
        self._agent.close()

    def _relay(self) -> None:
        with suppress(GuestError):
            self._agent.skip_to(bootstrap.GREETING, 1000, FOREVER)
            self._controller.write(bootstrap.GREETING, FOREVER)
            length = self._controller.skip_to(b"\n", 100, FOREVER)
            source = self._controller.read(int(length), FOREVER)
            self._agent.write(length + b"\n" + source, FOREVER)
            while True:
                requested = self._request()
                self._agent.write(encode(*requested), FOREVER)
                answer = receive(self._agent, FOREVER)
                printed = self._lie(requested[0], answer.header, answer.payload)
                if not isinstance(printed, bytes):
                    printed = encode(*(printed or (answer.header, answer.payload)))
                self._controller.write(printed, FOREVER)

    def _request(self) -> tuple[dict[str, Any], bytes]:
        assert self._controller.read(4, FOREVER) == MAGIC
        header_size, payload_size, _ = (
            int.from_bytes(self._controller.read(4, FOREVER), "little") for _ in range(3)
        )
        return json.loads(self._controller.read(header_size, FOREVER)), self._controller.read(
            payload_size, FOREVER
        )
