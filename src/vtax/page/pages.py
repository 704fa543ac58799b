"""The pages: each reads what it shows from the store, in a thread of its own, and fills a template.

Nothing here formats a figure: tables and texts are documents of the house, drawn by its renderer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

from vtax import __version__
from vtax.errors import BadInput, NotFound, VtaxError
from vtax.host.home import Home
from vtax.host.lock import is_measuring
from vtax.live.state import LiveRun
from vtax.live.view import log, now, progress
from vtax.page.access import own_path, without_parameter
from vtax.page.compare import SIDES, Offer, offer, sides_of, state_of_sides
from vtax.page.report_file import policy_file
from vtax.page.result_cache import ResultCache
from vtax.page.worker import DOWNLOADS, Task
from vtax.report import document as doc
from vtax.report.document import msg, plural, term
from vtax.report.parts.header import STATUSES, status_word
from vtax.report.renderers.html import Fragments
from vtax.report.renderers.language import Language, codes, language
from vtax.store.database import make_engine, sqlite_file
from vtax.store.listing import (
    Listing,
    Page,
    RunFilter,
    questions_of,
    state_of,
    state_of_study,
    studies,
)
from vtax.store.records import RunSummary
from vtax.store.store import Store

T = TypeVar("T")
RUNS_A_PAGE = 50
_NAMES_OFFERED = 200
_NAMES_HINTED = 10
_MOST_ANSWERS = 5_000
_FILTERS = tuple(field.name for field in fields(RunFilter))
_PARAMETER, _COOKIE = "language", "vtax_language"
_LANGUAGES = {"en": "English", "pt-BR": "Português"}


class Pages:
    """The handlers of one server. place: of the store."""

    def __init__(self, place: str | Path, home: Home, cache: ResultCache) -> None:
        self.place = place
        self.home = home
        self.cache = cache
        self._listing = Listing()
        self._answers: dict[tuple[RunSummary, str], Markup] = {}
        self._templates = Environment(
            loader=PackageLoader("vtax.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals |= {
            "msg": msg,
            "plural": plural,
            "term": term,
            "Count": doc.Count,
            "Moment": doc.Moment,
            "Duration": doc.Duration,
            "status_word": status_word,
            "progress": progress,
            "now": now,
            "is_measuring": is_measuring,
            "log": log,
            "path_of": path_of,
            "statuses": STATUSES,
            "origin_words": origin_words,
            "downloads": list(DOWNLOADS),
            "version": __version__,
            "languages": [(code, _LANGUAGES.get(code, code)) for code in codes()],
        }

    async def runs(self, request: Request) -> Response:
        """Return the runs, a page at a time, the newest first."""
        query_params = request.query_params
        run_filter = RunFilter(**{key: query_params.get(key, "")[:200] for key in _FILTERS})
        number = _number(query_params.get("page", "1"))
        page, questions = Page((), 0, {}), dict[str, str]()
        if self.has_store():
            page, questions = await self.read(lambda store: self._page(store, run_filter, number))
        _check_filter(run_filter, page.names)
        pages = max(-(-page.total // RUNS_A_PAGE), 1)
        if number > pages:
            raise NotFound(
                f"there is no page {number} of these runs", hint=f"the last page is {pages}"
            )
        query = {key: value for key, value in asdict(run_filter).items() if value}
        code = chosen(request).code
        open_runs = self._unanswered(page, code)
        is_waiting = bool(open_runs) and is_measuring()  # to read figures would disturb it
        # one for each request: browsers without JavaScript load this page again
        if open_runs and not is_waiting:
            await self.answer_of(open_runs[0], request)
            open_runs = self._unanswered(page, code)
        response = self.page(
            request,
            "runs",
            page=page,
            questions=questions,
            answers={run: self._answers.get((run, code), "") for run in page.runs},
            unanswered=[] if is_waiting else open_runs,
            is_waiting=is_waiting,
            wanted=run_filter,
            number=number,
            first=(number - 1) * RUNS_A_PAGE + 1,
            last=(number - 1) * RUNS_A_PAGE + len(page.runs),
            pages=pages,
            address=lambda n: "/?" + urlencode({**query, "page": n}),
            is_filtered=bool(query),
        )
        if open_runs and not is_waiting:  # the next request has more answers
            response.headers["Cache-Control"] = "no-store"
        return response

    async def answer(self, request: Request) -> Response:
        """Return the sentence that answers the question of a run, for its line of the list; nothing while it runs."""
        name = request.path_params["name"]
        run = await self.read(lambda store: self._listing.one(store, name))
        answer = Markup("") if run.status == "running" else await self.answer_of(run, request)
        return Response(status_code=202) if answer is None else HTMLResponse(answer)

    async def answer_of(self, run: RunSummary, request: Request) -> Markup | None:
        """Return the answer of a run that has ended; None while the worker reads it, nothing where it cannot."""
        key = (run, chosen(request).code)
        if key not in self._answers:
            try:
                state = await self.read(lambda store: state_of(store, run.name))
                answer = await self.drawn(request, "answer", (run.name,), state)
            except VtaxError:  # the page of the run says why
                answer = Markup("")
            if answer is None:
                return None
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            self._answers[key] = answer
        return self._answers[key]

    async def studies(self, request: Request) -> Response:
        """Return the studies that have runs."""
        return self.page(
            request, "studies", studies=await self.read(studies) if self.has_store() else ()
        )

    async def run(self, request: Request) -> Response:
        """Return one run: live while it is measured, else its result."""
        name = request.path_params["name"]
        state, facts = await self.read(lambda store: self._facts(store, name))
        if facts["run"].status == "running":
            live = await run_in_threadpool(LiveRun, self.place, self.home, name)
            live_state = await run_in_threadpool(live.state)
            body = await self.drawn(
                request, "estimates", (name, str(live_state.complete_blocks)), state
            )
            return self.page(request, "live", **facts, state=live_state, estimates=body)
        words = await self.drawn(request, "words", (name,), state)
        body = words and await self.drawn(request, "result", (name,), state)
        return self.page(
            request,
            "run",
            status=202 if body is None else 200,
            body=body or words or Markup(""),
            is_ready=body is not None,
            **facts,
        )

    async def report(self, request: Request) -> Response:
        """Return the report of a run, as vtax report writes it, under a policy of its own."""
        name = request.path_params["name"]
        state = await self.read(lambda store: state_of(store, name))
        code = chosen(request).code
        path = await self.cache.get(Task("report", self.place, (name,), code), state)
        if path is None:
            return self.page(request, "preparing", status=202, name=name, is_download=False)
        policy = await run_in_threadpool(policy_file(path).read_text, "ascii")
        return FileResponse(
            path, media_type="text/html", headers={"Content-Security-Policy": policy}
        )

    async def download(self, request: Request) -> Response:
        """Return a run as a file."""
        name, kind = request.path_params["name"], request.path_params["kind"]
        if kind not in DOWNLOADS:
            raise NotFound(f"there is no download {kind!r}", hint=f"known: {', '.join(DOWNLOADS)}")
        state = await self.read(lambda store: state_of(store, name))
        path = await self.cache.get(Task(kind, self.place, (name,), chosen(request).code), state)
        if path is None:
            response = self.page(request, "preparing", status=202, name=name, is_download=True)
            response.headers["Retry-After"] = "1"  # seconds, for programs
            return response
        return FileResponse(
            path, media_type="application/octet-stream", filename=f"{name}{DOWNLOADS[kind]}"
        )

    async def compare(self, request: Request) -> Response:
        """Return two runs, or platforms of runs, compared."""
        offer_of_store = await self.read(offer) if self.has_store() else Offer()
        sides = sides_of(request.query_params, offer_of_store)
        values: dict[str, Any] = {
            "sides": dict(zip(SIDES, sides, strict=True)),
            "offered": offer_of_store,
        }
        if not all(sides):
            return self.page(request, "compare", body=Markup(""), is_ready=True, **values)
        state = await self.read(lambda store: state_of_sides(store, sides))
        return await self.prepared_page(request, "compare", "compare", sides, state, **values)

    async def history(self, request: Request) -> Response:
        """Return a study over its runs."""
        study = request.path_params["study"]
        lines, state = await self.read(
            lambda store: (studies(store), state_of_study(store, study)),
        )
        by_name = {line.name: line for line in lines}
        if study not in by_name:
            raise NotFound(
                f"no run of a study {study!r} is stored",
                hint="the page of studies lists those with runs",
            )
        return await self.prepared_page(
            request, "history", "history", (study,), state, study=by_name[study]
        )

    async def prepared_page(
        self,
        request: Request,
        template: str,
        kind: str,
        names: tuple[str, ...],
        state: str,
        **shown: Any,
    ) -> Response:
        """Return a page with a document that the worker draws; of status 202 while it does."""
        body = await self.drawn(request, kind, names, state)
        status = 202 if body is None else 200
        return self.page(
            request,
            template,
            status=status,
            body=body or Markup(""),
            is_ready=body is not None,
            **shown,
        )

    async def drawn(
        self, request: Request, kind: str, names: tuple[str, ...], state: str
    ) -> Markup | None:
        """Return a document that the worker draws; None while it does."""
        path = await self.cache.get(Task(kind, self.place, names, chosen(request).code), state)
        return None if path is None else Markup(await run_in_threadpool(path.read_text, "utf-8"))

    async def read(self, function: Callable[[Store], T]) -> T:
        """Return what a function reads from the store. Raises BadInput where there is none yet, StoreError."""

        def work() -> T:
            with Store.open_read_only(self.place) as store:
                return function(store)

        return await run_in_threadpool(work)

    def warm_up(self) -> None:
        """Read the store once, and start the worker. Raises StoreError for a store that cannot be read."""
        if self.has_store():
            with Store.open_read_only(self.place) as store:
                store.run_names()
        self.cache.warm_up()

    def count_ahead(self, is_wanted: Callable[[], bool]) -> None:
        """Count what the runs add up to ahead of the first pages; not while a run measures here."""
        with suppress(VtaxError):  # the pages say what is wrong with the store
            if self.has_store():
                with Store.open_read_only(self.place) as store:
                    self._listing.count_ahead(store, lambda: is_wanted() and not is_measuring())

    def has_store(self) -> bool:
        """Return whether there is a store: no run of this host was begun before."""
        file = sqlite_file(make_engine(self.place).url)
        return file is None or file.exists()

    def page(self, request: Request, template: str, status: int = 200, **shown: Any) -> Response:
        """Return a page of a template in the reader's language."""
        text = self.drawn_template(request, f"{template}.html.j2", status=status, **shown)
        response = HTMLResponse(text, status_code=status)
        if _PARAMETER in request.query_params:
            response.set_cookie(
                _COOKIE, chosen(request).code, samesite="lax", max_age=365 * 24 * 3600
            )
        return response

    def drawn_template(self, request: Request, template: str, **shown: Any) -> str:
        """Return a template in the reader's language."""
        chosen_language = chosen(request)
        return self._templates.get_template(template).render(
            **_drawing(Fragments(chosen_language)),
            language=chosen_language.code,
            here=_here(request),
            **shown,
        )

    def problem(self, request: Request, error: VtaxError, status: int) -> Response:
        """Return a page that says what is wrong, where, and what helps, in English as on a terminal."""
        try:
            return self.page(request, "problem", status=status, error=error)
        except BadInput:  # of the language
            return HTMLResponse(
                self._templates.get_template("problem.html.j2").render(
                    **_drawing(Fragments()),
                    language="en",
                    here=lambda code: f"/?{_PARAMETER}={code}",
                    error=error,
                    status=status,
                ),
                status,
            )

    def _page(
        self, store: Store, run_filter: RunFilter, number: int
    ) -> tuple[Page, dict[str, str]]:
        """Return (runs of a page, the question of each)."""
        page = self._listing.page(store, run_filter, number, RUNS_A_PAGE)
        return page, questions_of(store, [run.name for run in page.runs])

    def _unanswered(self, page: Page, code: str) -> list[RunSummary]:
        """Return the runs that have ended, and whose answer was not read yet."""
        ended_runs = (run for run in page.runs if run.status != "running")
        return [run for run in ended_runs if (run, code) not in self._answers]

    def _facts(self, store: Store, name: str) -> tuple[str, dict[str, Any]]:
        """Return (state of a run, facts for its page).

        The facts are its line of the list, title and question of its study, and other runs of the study.
        """
        run = store.open_run(name)
        names = store.newest_names(_NAMES_OFFERED, run.study)
        facts = {
            "title": str(run.declared.get("title") or ""),
            "question": str(run.declared.get("question") or ""),
            "run": self._listing.one(store, name),
            "others": [other for other in names if other != name],
        }
        return state_of(store, name), facts


def chosen(request: Request) -> Language:
    """Return the language of a page: that of its address, else the one chosen before, else what the browser prefers.

    Raises BadInput for an unknown language in the address.
    """
    if _PARAMETER in request.query_params:
        return language(request.query_params[_PARAMETER][:20])
    known_codes = {code.lower(): code for code in codes()}
    cookie = request.cookies.get(_COOKIE, "").lower()
    if cookie in known_codes:
        return language(known_codes[cookie])
    for requested_language in request.headers.get("accept-language", "")[:200].split(","):
        code = requested_language.partition(";")[0].strip().lower()
        for language_code, name in known_codes.items():
            if code and (
                code == language_code or code.partition("-")[0] == language_code.partition("-")[0]
            ):
                return language(name)
    return language("en")


def _drawing(fragments: Fragments) -> dict[str, Any]:
    """Return the functions by which templates draw texts and tables."""
    return {"t": fragments.inline, "table": lambda part: fragments.body(doc.Document("", (part,)))}


def path_of(*parts: str) -> str:
    """Return the address of a page."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _here(request: Request) -> Callable[[str], str]:
    """Return the address of this page in another language."""

    def address(code: str) -> str:
        others = without_parameter(request, _PARAMETER)
        return f"{own_path(request)}?{urlencode([*others, (_PARAMETER, code)])}"

    return address


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 7 or not 1 <= int(text) <= 1_000_000:
        raise NotFound(f"there is no page {text[:20]!r}", hint="pages are counted from 1")
    return int(text)


def _check_filter(run_filter: RunFilter, names: Mapping[str, Sequence[str]]) -> None:
    """Raise NotFound for a study, platform, status or tag that no run has."""
    known_values = {**names, "status": STATUSES}
    for key, value in asdict(run_filter).items():
        if value and key in names and value not in known_values[key]:
            suggestions = (
                get_close_matches(value, known_values[key], n=3, cutoff=0.5)
                or known_values[key][:_NAMES_HINTED]
            )
            what = f"{key} {value!r}"
            raise NotFound(
                f"no run has the {what}",
                hint=f"there are: {', '.join(suggestions)}" if suggestions else "",
            )


def origin_words(origin: str) -> doc.Inline:
    """Return where a run is from, as `store.provenance.origin_of` says it."""
    words = {
        "merged": msg("merged"),
        "imported": msg("imported"),
        "imported from another host": msg("imported from another host"),
        "merged, imported": msg("merged, imported"),
        "merged, imported from another host": msg("merged, imported from another host"),
    }
    return words.get(origin, origin)


def no_page() -> NotFound:
    """Return the error for an address that the page does not have."""
    return NotFound(
        "there is no such page", hint="the runs, the studies and their comparison are linked above"
    )
