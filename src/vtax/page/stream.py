"""A run live, as server-sent events (https://www.w3.org/TR/eventsource/): pieces of its page whenever it changes.

`state` and `estimates` are HTML that takes the place of what the page shows; `end` says that the run has ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from vtax.errors import VtaxError
from vtax.live.state import LiveRun
from vtax.page.pages import Pages
from vtax.store.listing import state_of

MOST_STREAMS = 32
_PAUSE_S = 0.5
_SILENCE_S = (
    15.0  # after which a line tells the browser, and what is between, that the stream lives
)


class _Stream(StreamingResponse):
    """A stream of events. closed: called once when it has ended, also where it never began."""

    def __init__(self, events: AsyncIterator[str], on_close: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._on_close = on_close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_close()


class Streams:
    """The streams of one server."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._open = 0

    async def of_run(self, request: Request) -> Response:
        """Return the stream of a run; a page of status 503 when too many are open. Raises NotFound for an unknown
        run."""
        if self._open >= MOST_STREAMS:
            full = VtaxError(f"{MOST_STREAMS} pages watch runs already", hint="close one of them")
            return self._pages.problem(request, full, 503)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        name = request.path_params["name"]
        self._open += 1  # before anything is awaited, or many at once find room for one
        try:
            live = await run_in_threadpool(LiveRun, self._pages.place, self._pages.home, name)
        except BaseException:
            self._open -= 1
            raise
        return _Stream(self._events(request, live), self._note_end)

    def _note_end(self) -> None:
        self._open -= 1

    async def _events(self, request: Request, live: LiveRun) -> AsyncIterator[str]:
        try:
            change: tuple[object, ...] | None = None
            requested_blocks, shown_blocks, store_state, sent_s = -1, -1, "", time.monotonic()
            while True:
                state = await run_in_threadpool(live.state)
                if state.change != change:
                    change, sent_s = state.change, time.monotonic()
                    yield _event(
                        "state", self._pages.drawn_template(request, "now.html.j2", state=state)
                    )
                if not state.is_running:
                    yield _event("end", state.status)
                    return
                blocks = state.complete_blocks
                if blocks != requested_blocks:
                    requested_blocks = blocks
                    store_state = await self._pages.read(lambda store: state_of(store, live.name))
                if blocks != shown_blocks:
                    names = (live.name, str(blocks))
                    body = await self._pages.drawn(request, "estimates", names, store_state)
                    if body is not None:
                        shown_blocks = blocks
                        yield _event("estimates", body)
                if time.monotonic() - sent_s > _SILENCE_S:
                    sent_s = time.monotonic()
                    yield ": the run goes on\n\n"
                await asyncio.sleep(_PAUSE_S)
        except VtaxError:  # the store is gone, or cannot be read: the page, loaded again, says why
            yield _event("end", "")


def _event(name: str, data: str) -> str:
    lines = "\n".join(f"data: {line}" for line in data.splitlines())
    return f"event: {name}\n{lines or 'data:'}\n\n"
