"""The pages: each reads what it shows from the store, in a thread of its own, and fills a template.

Nothing here formats a figure: tables and texts are documents of the house, drawn by its renderer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

from vtax import __version__
from vtax.errors import BadInput, VtaxError
from vtax.host.home import Home
from vtax.live.state import LiveRun
from vtax.live.view import log, now, progress
from vtax.page.languages import COOKIE, PARAMETER, chosen
from vtax.page.making import DOWNLOADS
from vtax.page.making import Request as Product
from vtax.page.prepared import Prepared
from vtax.page.report import with_way_back
from vtax.report.document import Count, Document, Duration, Moment, msg, plural, stored
from vtax.report.renderers.html import Fragments
from vtax.report.renderers.language import codes
from vtax.report.views.header import status_word
from vtax.store.database import make_engine, sqlite_file
from vtax.store.listing import Listing, Page, Wanted, names_of_study, state_of, studies
from vtax.store.store import LAST, Store

T = TypeVar("T")
RUNS_A_PAGE = 50
_NAMES_OFFERED = 200
_LANGUAGES = {"en": "English", "pt-BR": "Português"}


class Pages:
    """The handlers of one server. place: of the store."""

    def __init__(self, place: str | Path, home: Home, prepared: Prepared) -> None:
        self.place = place
        self.home = home
        self.prepared = prepared
        self._listing = Listing()
        self._templates = Environment(
            loader=PackageLoader("vtax.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        self._templates.globals |= {
            "msg": msg, "plural": plural, "stored": stored, "Count": Count, "Moment": Moment, "Duration": Duration,
            "status_word": status_word, "progress": progress, "now": now, "log": log,
            "path_of": path_of, "downloads": list(DOWNLOADS), "version": __version__,
            "languages": [(code, _LANGUAGES.get(code, code)) for code in codes()],
        }  # fmt: skip

    async def runs(self, request: Request) -> Response:
        """The runs, a page at a time, the newest first."""
        given = request.query_params
        wanted = Wanted(*(given.get(key, "")[:200] for key in ("study", "platform", "status", "name")))
        number = _number(given.get("page", "1"))
        page = Page((), 0, {})
        if self.has_store():
            page = await self.read(lambda store: self._listing.page(store, wanted, number, RUNS_A_PAGE))
        query = {key: value for key, value in asdict(wanted).items() if value}
        return self.page(
            request, "runs", page=page, wanted=wanted, number=number, first=(number - 1) * RUNS_A_PAGE + 1,
            last=(number - 1) * RUNS_A_PAGE + len(page.runs), pages=-(-page.total // RUNS_A_PAGE),
            address=lambda n: "/?" + urlencode({**query, "page": n}), is_filtered=bool(query),
        )  # fmt: skip

    async def studies(self, request: Request) -> Response:
        """The studies that have runs."""
        return self.page(request, "studies", studies=await self.read(studies) if self.has_store() else ())

    async def run(self, request: Request) -> Response:
        """One run: live while it is measured, else its result."""
        name = request.path_params["name"]
        state = await self.read(lambda store: state_of(store, name))
        summary, title, question, others = await self.read(lambda store: self._facts(store, name))
        shown = {"run": summary, "title": title, "question": question, "others": others}
        if summary.status == "running":
            live = await run_in_threadpool(LiveRun, self.place, self.home, name)
            seen = await run_in_threadpool(live.state)
            body = await self.drawn(request, "estimates", (name, str(seen.complete_blocks)), state)
            return self.page(request, "live", **shown, state=seen, estimates=body)
        return await self.prepared_page(request, "run", "result", (name,), state, **shown)

    async def report(self, request: Request) -> Response:
        """The report of a run, as vtax report writes it, under a policy of its own."""
        name = request.path_params["name"]
        state = await self.read(lambda store: state_of(store, name))
        code = chosen(request).code
        path = await self.prepared.get(Product("report", self.place, (name,), code), state)
        if path is None:
            return self.page(request, "preparing", status=202, name=name, is_download=False)
        text, policy = await run_in_threadpool(with_way_back, path, path_of("runs", name), name)
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    async def download(self, request: Request) -> Response:
        """A run as a file."""
        name, kind = request.path_params["name"], request.path_params["kind"]
        if kind not in DOWNLOADS:
            raise BadInput(f"there is no download {kind!r}", hint=f"one of {', '.join(DOWNLOADS)}")
        state = await self.read(lambda store: state_of(store, name))
        path = await self.prepared.get(Product(kind, self.place, (name,), chosen(request).code), state)
        if path is None:
            return self.page(request, "preparing", status=202, name=name, is_download=True)
        return FileResponse(path, media_type="application/octet-stream", filename=f"{name}{DOWNLOADS[kind]}")

    async def contrast(self, request: Request) -> Response:
        """Two runs, or platforms of runs, against each other."""
        sides = tuple(request.query_params.get(key, "").strip()[:500] for key in ("treatment", "baseline"))
        names = await self.read(lambda store: names_of_study(store, "", _NAMES_OFFERED)) if self.has_store() else []
        shown: dict[str, Any] = {"treatment": sides[0], "baseline": sides[1], "offered": names}
        if not all(sides):
            return self.page(request, "contrast", body=Markup(""), is_ready=True, **shown)
        state = await self.read(lambda store: _state_of_sides(store, sides))
        return await self.prepared_page(request, "contrast", "contrast", sides, state, **shown)

    async def history(self, request: Request) -> Response:
        """A study over its runs."""
        study = request.path_params["study"]
        names = await self.read(lambda store: names_of_study(store, study, 100_000))
        if not names:
            raise BadInput(f"no run of a study {study!r} is stored", hint="the page of studies lists those with runs")
        found = await self.read(lambda store: [each for each in studies(store) if each.name == study])
        state = f"{len(names)} {names[0]} {found}"
        return await self.prepared_page(request, "history", "history", (study,), state, study=found[0])

    async def prepared_page(
        self, request: Request, template: str, kind: str, names: tuple[str, ...], state: str, **shown: Any
    ) -> Response:
        """A page with a document that the worker draws; of status 202 while it does."""
        body = await self.drawn(request, kind, names, state)
        status = 202 if body is None else 200
        return self.page(
            request, template, status=status, body=body or Markup(""), is_ready=body is not None, **shown
        )

    async def drawn(self, request: Request, kind: str, names: tuple[str, ...], state: str) -> Markup | None:
        """A document that the worker draws; None while it does."""
        path = await self.prepared.get(Product(kind, self.place, names, chosen(request).code), state)
        return None if path is None else Markup(await run_in_threadpool(path.read_text, "utf-8"))

    async def read(self, function: Callable[[Store], T]) -> T:
        """What a function reads from the store. Raises BadInput where there is none yet, StoreError."""

        def work() -> T:
            with Store.looked_at(self.place) as store:
                return function(store)

        return await run_in_threadpool(work)

    def warm_up(self) -> None:
        """Read the store once, and start the worker. Raises StoreError for a store that cannot be read."""
        if self.has_store():
            with Store.looked_at(self.place) as store:
                store.run_names()
        self.prepared.warm_up()

    def has_store(self) -> bool:
        """Whether there is a store: no run of this host was begun before."""
        file = sqlite_file(make_engine(self.place).url)
        return file is None or file.exists()

    def page(self, request: Request, template: str, status: int = 200, **shown: Any) -> Response:
        """A page of a template in the reader's language."""
        text = self.drawn_template(request, f"{template}.html.j2", **shown)
        response = HTMLResponse(text, status_code=status)
        if PARAMETER in request.query_params:
            response.set_cookie(COOKIE, chosen(request).code, samesite="lax", max_age=365 * 24 * 3600)
        return response

    def drawn_template(self, request: Request, template: str, **shown: Any) -> str:
        """A template in the reader's language."""
        found = chosen(request)
        return self._templates.get_template(template).render(
            **_drawing(Fragments(found)), language=found.code, here=_here(request), **shown
        )

    def problem(self, request: Request, error: VtaxError, status: int) -> Response:
        """A page that says what is wrong, where, and what helps."""
        try:
            return self.page(request, "problem", status=status, error=error)
        except BadInput:  # of the language
            return HTMLResponse(
                self._templates.get_template("problem.html.j2").render(
                    **_drawing(Fragments()), language="en", here=lambda code: f"/?{PARAMETER}={code}", error=error
                ),
                status,
            )

    def _facts(self, store: Store, name: str) -> tuple[Any, str, str, list[str]]:
        """A run's line of the list, title and question of its study, and other runs of the study."""
        run = store.open_run(name)
        summary = self._listing.one(store, name)
        others = [each for each in names_of_study(store, run.study, _NAMES_OFFERED) if each != name]
        return summary, str(run.declared.get("title") or ""), str(run.declared.get("question") or ""), others


def _drawing(fragments: Fragments) -> dict[str, Any]:
    """The functions by which templates draw texts and tables."""
    return {"t": fragments.inline, "table": lambda part: fragments.body(Document("", (part,)))}


def path_of(*parts: str) -> str:
    """The address of a page."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _here(request: Request) -> Callable[[str], str]:
    """The address of this page in another language."""

    def address(code: str) -> str:
        kept = [(key, value) for key, value in request.query_params.multi_items() if key != PARAMETER]
        return f"{quote(request.url.path)}?{urlencode([*kept, (PARAMETER, code)])}"

    return address


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 7 or not 1 <= int(text) <= 1_000_000:
        raise BadInput(f"there is no page {text[:20]!r}", hint="pages are counted from 1")
    return int(text)


def _state_of_sides(store: Store, sides: tuple[str, ...]) -> str:
    """The state of all runs that two sides of a contrast name; of the last one where they name none."""
    names = {name.strip() for side in sides for name in side.partition(":")[0].split(",")}
    known = names.intersection(store.run_names()) or {store.run_name(LAST)}
    return " ".join(state_of(store, name) for name in sorted(known))
