"""What takes longer than a page may: made once by another process, kept in a file until its run has changed.

A page asks for a product by its kind, its arguments, and the state of what it is made from. Where it is not there, it
is made by the one worker, and the page waits a moment for it; then the page says that it is being prepared, and asks
again. So no page waits for a report of a million measurements, and small ones are there at once. The worker ends with
this process.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
import tempfile
import time
from collections import OrderedDict
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import VtaxError
from vtax.live import courtesy
from vtax.page.making import Failed, Request, import_renderers, make, start_worker

WAIT_S = 0.15
_KEPT = 100
_SAME_FOR_S = 30.0  # a product of a run that goes on is used so long, whatever was measured since
_TASKS_PER_WORKER = 200  # what large runs take of memory is given back


@dataclass
class _Product:
    """A file that is there, or will be. state: of what it is made from."""

    state: str
    path: Path
    future: Future[Failed | None]
    pool: ProcessPoolExecutor
    made: float | None = None  # when it was there, by the monotonic clock


class Prepared:
    """The products of one server, in a directory of their own. `close` removes all of it."""

    def __init__(self) -> None:
        self._directory: Path | None = None  # with the first product
        self._products: OrderedDict[Request, _Product] = OrderedDict()
        self._pool: ProcessPoolExecutor | None = None
        self._made = 0

    async def get(self, request: Request, state: str, wait_s: float = WAIT_S) -> Path | None:
        """The file of a product, None while it is being made. state: of what it is made from; one that begins with
        `running` may be a little behind. Raises what making it raised: VtaxError, or a bug."""
        product = self._products.get(request)
        if product is None or self._is_stale(product, state):
            try:
                product = self._begin(request, state, product)
            except BrokenProcessPool:  # it was killed while it had nothing to do
                self._pool = None
                product = self._begin(request, state, product)
        self._products.move_to_end(request)
        if not product.future.done():
            waiting = asyncio.wrap_future(product.future)
            waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # it is read below
            await asyncio.wait([waiting], timeout=wait_s)
        if not product.future.done():
            return None
        try:
            failed = product.future.result()
        except (BrokenProcessPool, CancelledError):
            self._forget(request, product)
            self._pool = None if self._pool is product.pool else self._pool
            raise VtaxError(
                "the process that prepares pages was killed", hint="perhaps memory is short; load the page again"
            ) from None
        except BaseException:
            self._forget(request, product)
            raise
        if failed is not None:
            self._forget(request, product)  # what failed may succeed the next time, with the same state
            raise failed.error()
        return product.path

    def _forget(self, request: Request, product: _Product) -> None:
        """Remove a product that failed, unless another one took its place: several requests may wait for it."""
        if self._products.get(request) is product:
            del self._products[request]
        product.path.unlink(missing_ok=True)

    def _is_stale(self, product: _Product, state: str) -> bool:
        if product.made is None or product.state == state:
            return False
        is_recent = time.monotonic() - product.made < _SAME_FOR_S
        return not ("running" in state.split() and "running" in product.state.split() and is_recent)

    def warm_up(self) -> None:
        """Start the worker, so that the first product does not wait for it."""
        self._worker().submit(import_renderers)

    def _worker(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                1, multiprocessing.get_context("spawn"), initializer=start_worker,
                max_tasks_per_child=_TASKS_PER_WORKER,
            )  # fmt: skip
        return self._pool

    def _begin(self, request: Request, state: str, old: _Product | None) -> _Product:
        self._made += 1
        self._directory = self._directory or Path(tempfile.mkdtemp(prefix="vtax-page-"))
        path = self._directory / f"{self._made}"
        pool = self._worker()
        future = pool.submit(make, request, path, courtesy.must_yield())
        product = self._products[request] = _Product(state, path, future, pool)
        future.add_done_callback(lambda _: setattr(product, "made", time.monotonic()))
        if old is not None:
            old.path.unlink(missing_ok=True)
        while len(self._products) > _KEPT:
            _, oldest = self._products.popitem(last=False)
            oldest.future.cancel()
            oldest.path.unlink(missing_ok=True)
        return product

    def close(self) -> None:
        """End the worker and remove the files."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.kill()
                child.join()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
