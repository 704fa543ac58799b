"""Pages as they were made, kept while the store stands still, and for a moment while a run measures here.

Readers ask for the same few pages, and all of them share one processor, of which a run leaves little. So a page is made
once for those who ask meanwhile; while a run measures, who would wait for long gets the page from before.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

from vtax.errors import VtaxError
from vtax.host.lock import is_measuring
from vtax.store.database import last_write, make_engine

STILL_S = 30.0
"""How long a page is kept at most: its moments are told from now."""
MEASURING_S = 2.0
_LATE_S = 1.0
_OLDEST_S = 60.0  # of a page that is shown for one that is late
MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class _Kept:
    """A page. state: of the store before it was made. at: when that was, by the monotonic clock."""

    response: Response
    state: Hashable
    at: float

    def copy(self) -> Response:
        """Return an answer with its body and headers, which may be changed."""
        answer = Response(self.response.body, self.response.status_code)
        answer.raw_headers = [*self.response.raw_headers]
        return answer


class KeptPages:
    """The pages of one server. place: of the store."""

    def __init__(self, place: str | Path) -> None:
        self._engine = make_engine(place)
        self._pages: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._tasks: dict[Hashable, asyncio.Task[_Kept]] = {}

    async def get(
        self, key: Hashable, make: Callable[[], Coroutine[Any, Any, Response]]
    ) -> Response:
        """Return a page that is kept, or made now. make: raises nothing; what is no whole page is not kept."""
        try:
            state = await self._state()
        except VtaxError:  # the page says it
            return await make()
        is_busy = is_measuring()
        page = self._pages.get(key)
        if page is not None and _is_good(page, state, is_busy):
            self._pages.move_to_end(key)
            return page.copy()
        task = self._begin(key, state, is_busy, make)
        if is_busy and page is not None and time.monotonic() - page.at < _OLDEST_S:
            await asyncio.wait([task], timeout=_LATE_S)
            if not task.done():
                return page.copy()
        return (await asyncio.shield(task)).copy()

    def close(self) -> None:
        """End the connections."""
        self._engine.dispose()

    async def _state(self) -> Hashable:
        if self._engine.dialect.name == "sqlite":
            return last_write(self._engine)
        return await run_in_threadpool(last_write, self._engine)

    def _begin(
        self,
        key: Hashable,
        state: Hashable,
        is_busy: bool,
        make: Callable[[], Coroutine[Any, Any, Response]],
    ) -> asyncio.Task[_Kept]:
        """Return the making of a page, of one who asked before if the store is as it was then, or a run measures."""
        task_key = key if is_busy else (key, state)
        task = self._tasks.get(task_key)
        if task is None:
            task = self._tasks[task_key] = asyncio.create_task(self._make_page(key, state, make))
            task.add_done_callback(lambda _: self._tasks.pop(task_key))
        return task

    async def _make_page(
        self, key: Hashable, state: Hashable, make: Callable[[], Coroutine[Any, Any, Response]]
    ) -> _Kept:
        at = time.monotonic()
        page = _Kept(await make(), state, at)
        with suppress(KeyError):
            del self._pages[key]
        if _is_whole(page.response):
            self._pages[key] = page
        while sum(len(entry.response.body) for entry in self._pages.values()) > MOST_BYTES:
            self._pages.popitem(last=False)
        return page


def _is_whole(response: Response) -> bool:
    """Return whether nothing is to come in a page."""
    is_page = isinstance(response, HTMLResponse) and response.status_code == 200
    return is_page and response.headers.get("Cache-Control") != "no-store"


def _is_good(page: _Kept, state: Hashable, is_busy: bool) -> bool:
    age_s = time.monotonic() - page.at
    if is_busy:
        return age_s < MEASURING_S
    return page.state == state and age_s < STILL_S
