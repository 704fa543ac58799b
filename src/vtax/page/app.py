"""The application: addresses, what is wrong with a request, and the guard before all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from threading import Event, Thread
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from vtax.errors import BadInput, NotFound, StoreError, VtaxError
from vtax.host.home import Home
from vtax.page.access import Access, Guard, Refusal
from vtax.page.kept import KeptPages
from vtax.page.pages import Pages, chosen, no_page
from vtax.page.result_cache import ResultCache
from vtax.page.stream import Streams
from vtax.page.turns import Turns

_THREADS = 4  # each may have a cache of the store's
Handler = Callable[[Request], Coroutine[Any, Any, Response]]
ReportBug = Callable[[BaseException], object]
_REFUSALS: Mapping[str, BadInput] = {
    "host": BadInput(
        "this address is not one of this host",
        hint="use the address that vtax serve printed, or name the other one with --name",
    ),
    "method": BadInput("this page is read-only", hint="it answers GET and HEAD"),
    "no-token": BadInput(
        "this page needs its token", hint="open the address that vtax serve printed, which has it"
    ),
    "wrong-token": BadInput(
        "the token is wrong",
        hint="open the address that vtax serve printed; each start has another token",
    ),
}


def make_app(
    place: str | Path,
    home: Home,
    access: Access,
    report_bug: ReportBug,
    start_method: str = "spawn",
) -> ASGIApp:
    """Return the page over a store. report_bug: called with every exception that is no error of a user's.

    start_method: as of ResultCache.
    """
    cache = ResultCache(start_method)
    pages = Pages(place, home, cache)
    streams = Streams(pages)
    turns = Turns(_THREADS)
    kept_pages = KeptPages(place)

    async def absent(request: Request, error: Exception) -> Response:
        return pages.problem(request, no_page(), 404)

    def answer_refusal(request: Request, refusal: Refusal) -> Response:
        return pages.problem(request, _REFUSALS[refusal.reason], refusal.status)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        shutdown = Event()
        current_default_thread_limiter().total_tokens = _THREADS
        try:
            await run_in_threadpool(pages.warm_up)
            Thread(
                target=pages.count_ahead, args=(lambda: not shutdown.is_set(),), daemon=True
            ).start()
            yield
        finally:
            shutdown.set()
            cache.close()
            kept_pages.close()

    addresses: Mapping[str, Handler] = {
        "/": pages.runs,
        "/studies": pages.studies,
        "/studies/{study}": pages.history,
        "/compare": pages.compare,
        "/runs/{name}": pages.run,
        "/runs/{name}/report": pages.report,
        "/runs/{name}/answer": pages.answer,
        "/runs/{name}/events": streams.of_run,
        "/runs/{name}/{kind}": pages.download,
        "/static/{file}": _static,
        "/favicon.ico": _icon,
    }
    routes = []
    for path, handler in addresses.items():
        safe = _safely(handler, pages, report_bug, turns)
        if handler in (pages.runs, pages.studies, pages.history, pages.compare, pages.run):
            safe = _keep_pages(safe, kept_pages)
        routes.append(Route(path, safe, methods=["GET"]))
    app = Starlette(
        routes=routes,
        exception_handlers={404: absent},
        lifespan=lifespan,
    )
    return Guard(app, access, answer_refusal)


def _safely(handler: Handler, pages: Pages, report_bug: ReportBug, turns: Turns) -> Handler:
    """Return a handler that waits for its turn, whose errors become pages. What it returns is sent without a turn."""

    async def endpoint(request: Request) -> Response:
        try:
            async with turns:
                return await handler(request)
        except VtaxError as error:
            return pages.problem(request, error, _status(error))
        except Exception as error:
            report_bug(error)
            bug = VtaxError(
                "vtax failed to make this page", hint="the terminal of vtax serve says more"
            )
            return pages.problem(request, bug, 500)

    return endpoint


def _keep_pages(handler: Handler, kept_pages: KeptPages) -> Handler:
    """Return a handler whose pages are kept, for each address and language."""

    async def endpoint(request: Request) -> Response:
        try:
            code = chosen(request).code
        except BadInput:
            return await handler(request)
        address = request.scope["path"], request.scope["query_string"]
        return await kept_pages.get((*address, code), lambda: handler(request))

    return endpoint


def _status(error: VtaxError) -> int:
    if isinstance(error, BadInput):
        return 404 if isinstance(error, NotFound) else 400
    return 503 if isinstance(error, StoreError) else 500


async def _static(request: Request) -> Response:
    """Return the page's own files."""
    name = request.path_params["file"]
    if name not in _FILES:
        raise no_page()
    parts, kind = _FILES[name]
    text = "\n".join(
        files(package).joinpath(name).read_text(encoding="utf-8") for package, name in parts
    )
    return Response(text, media_type=kind, headers={"Cache-Control": "private, max-age=60"})


async def _icon(_: Request) -> Response:
    """Return the icon where browsers look for one that no page names: beside a download, or a report."""
    return RedirectResponse("/static/icon.svg", status_code=301)


_FILES: Mapping[str, tuple[list[tuple[str, str]], str]] = {
    "page.css": (
        [("vtax.report.renderers", "templates/report.css"), ("vtax.page", "static/page.css")],
        "text/css",
    ),
    "page.js": ([("vtax.page", "static/page.js")], "text/javascript"),
    "icon.svg": ([("vtax.page", "static/icon.svg")], "image/svg+xml"),
}
