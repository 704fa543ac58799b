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
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
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
    started: float = field(default_factory=time.monotonic)


class Prepared:
    """The products of one server, in a directory of their own. `close` removes all of it."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="vtax-page-"))
        self._products: OrderedDict[Request, _Product] = OrderedDict()
        self._pool: ProcessPoolExecutor | None = None
        self._made = 0

    async def get(self, request: Request, state: str, wait_s: float = WAIT_S) -> Path | None:
        """The file of a product, None while it is being made. state: of what it is made from; one that begins with
        `running` may be a little behind. Raises what making it raised: VtaxError, or a bug."""
        product = self._products.get(request)
        if product is None or self._is_stale(product, state):
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
        except BrokenProcessPool:
            self._pool = None
            del self._products[request]
            raise VtaxError(
                "the process that prepares pages was killed", hint="perhaps memory is short; load the page again"
            ) from None
        except BaseException:
            del self._products[request]
            raise
        if failed is not None:
            raise failed.error()
        return product.path

    def _is_stale(self, product: _Product, state: str) -> bool:
        if not product.future.done() or product.state == state:
            return False
        is_recent = time.monotonic() - product.started < _SAME_FOR_S
        return not (state.startswith("running") and product.state.startswith("running") and is_recent)

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
        if old is not None:
            old.path.unlink(missing_ok=True)
        self._made += 1
        path = self._directory / f"{self._made}"
        product = self._products[request] = _Product(
            state, path, self._worker().submit(make, request, path, courtesy.must_yield())
        )
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
        shutil.rmtree(self._directory, ignore_errors=True)
