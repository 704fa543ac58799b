"""Whose request is carried out next, when there are more than can be at once: the newest one.

Who waits longest may read nothing at all, or be gone; a user who has just asked is there. So a burst of requests delays
a later one by what is in progress, not by all of the burst. Its own last ones are answered when nobody else asks.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class Turns:
    """A context of which so many are entered at once."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._queue: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> None:
        """Wait for a turn."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given just then
                self._give()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the turn to who came last."""
        self._give()

    def _give(self) -> None:
        while self._queue:
            turn = self._queue.pop()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
