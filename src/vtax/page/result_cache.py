"""Results that take longer than a page may: made once by another process, kept in a file until its run has changed.

A page asks for a result by its kind, its arguments, and the state of what it is made from. Where it is not there, it
is made by the one worker, and the page waits a moment for it; then the page says that it is being prepared, and asks
again. So no page waits for a report of a million measurements, and small ones are there at once. The worker ends with
this process.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections import OrderedDict
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vtax.errors import VtaxError
from vtax.host.lock import is_measuring
from vtax.page.directory import Directory, remove_abandoned
from vtax.page.report_file import policy_file
from vtax.page.worker import Made, Task, import_renderers, start_worker, work

WAIT_S = 0.15
_KEPT = 100
_SAME_FOR_S = 30.0  # a result of a run that goes on is used so long, whatever was measured since
_READ_WITHIN_S = 60.0  # another request may be about to open a file that is replaced


@dataclass
class _Entry:
    """A file that is there, or will be. state: of what it is made from."""

    state: str
    path: Path
    future: Future[Made]
    pool: ProcessPoolExecutor
    made: float | None = None  # when it was there, by the monotonic clock


class ResultCache:
    """The results of one server, in a directory of their own. `close` removes all of it.

    start_method: of the worker, as of multiprocessing. No fork of this process: a thread may hold a lock.
    """

    def __init__(self, start_method: str = "spawn") -> None:
        self._context = multiprocessing.get_context(start_method)
        self._directory: Directory | None = None  # with the first result
        self._entries: OrderedDict[Task, _Entry] = OrderedDict()
        self._pool: ProcessPoolExecutor | None = None
        self._large: ProcessPoolExecutor | None = None
        self._made = 0

    async def get(self, task: Task, state: str, wait_s: float = WAIT_S) -> Path | None:
        """Return the file of a result, None while it is being made. state: of what it is made from; one that begins
        with `running` may be a little behind. Raises what making it raised: VtaxError, or a bug."""
        entry = self._entries.get(task)
        if entry is None or self._is_stale(entry, state):
            try:
                entry = self._begin(task, state, entry)
            except BrokenProcessPool:  # it was killed while it had nothing to do
                self._pool = None
                entry = self._begin(task, state, entry)
        self._entries.move_to_end(task)
        if not entry.future.done():
            waiter = asyncio.wrap_future(entry.future)
            # it is read below
            waiter.add_done_callback(lambda future: future.cancelled() or future.exception())
            await asyncio.wait([waiter], timeout=wait_s)
        if not entry.future.done():
            return None
        try:
            result = entry.future.result()
        except (BrokenProcessPool, CancelledError):
            self._forget(task, entry)
            self._pool = None if self._pool is entry.pool else self._pool
            raise VtaxError(
                "the process that prepares pages was killed",
                hint="perhaps memory is short; load the page again",
            ) from None
        except BaseException:
            self._forget(task, entry)
            raise
        if result.is_declined:
            self._forget(task, entry)
            return None
        if result.error is not None:
            self._forget(task, entry)  # what failed may succeed the next time, with the same state
            raise result.error
        return entry.path

    def _forget(self, task: Task, entry: _Entry) -> None:
        """Remove an entry that failed, unless another one took its place: several requests may wait for it."""
        if self._entries.get(task) is entry:
            del self._entries[task]
        _drop(entry.path)

    def _is_stale(self, entry: _Entry, state: str) -> bool:
        if entry.made is None or entry.state == state:
            return False
        is_recent = time.monotonic() - entry.made < _SAME_FOR_S
        return not ("running" in state.split() and "running" in entry.state.split() and is_recent)

    def warm_up(self) -> None:
        """Start the worker, so that the first result does not wait for it, and remove what killed servers left."""
        remove_abandoned()
        self._worker().submit(import_renderers)

    def _worker(self) -> ProcessPoolExecutor:
        if self._pool is not None and self._pool is self._large:
            self._pool.shutdown(wait=False)  # it ends with the last of its tasks
            self._pool = self._large = None
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                1,
                self._context,
                initializer=start_worker,
                initargs=(is_measuring(),),
            )
        return self._pool

    def _note_full_worker(self, future: Future[Made], pool: ProcessPoolExecutor) -> None:
        """Note a worker that holds too much; called in a thread of the pool's."""
        if not future.cancelled() and not future.exception() and future.result().is_full:
            self._large = pool

    def _begin(self, task: Task, state: str, old: _Entry | None) -> _Entry:
        self._made += 1
        self._directory = self._directory or Directory()
        path = self._directory.path / f"{self._made}"
        pool = self._worker()
        future = pool.submit(work, task, path, is_measuring())
        entry = self._entries[task] = _Entry(state, path, future, pool)
        future.add_done_callback(lambda _: setattr(entry, "made", time.monotonic()))
        future.add_done_callback(lambda done: self._note_full_worker(done, pool))
        if old is not None:
            _drop(old.path)
        while len(self._entries) > _KEPT:
            _, oldest = self._entries.popitem(last=False)
            oldest.future.cancel()
            _drop(oldest.path)
        return entry

    def close(self) -> None:
        """End the worker and remove the files."""
        if self._pool is not None:
            for child in multiprocessing.active_children():
                child.kill()
                child.join()
            # without this, its thread and the end of the interpreter close the same pipe
            self._pool.shutdown(cancel_futures=True)
        if self._directory is not None:
            self._directory.remove()


def _drop(path: Path) -> None:
    """Remove a file, and the policy beside it, once nobody opens them any more."""
    for file in (path, policy_file(path)):
        asyncio.get_running_loop().call_later(_READ_WITHIN_S, partial(file.unlink, missing_ok=True))
