"""Makes the products of pages, in a process of its own: documents of the house as HTML, reports, exports.

Each kind is a function from the store and the arguments of a request to a file.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import wait
from pathlib import Path

from vtax.errors import BadInput, StoreError, VtaxError
from vtax.live.courtesy import yield_to_runs
from vtax.report.document import Document
from vtax.store.store import Store

DOWNLOADS = {
    "csv": ".csv", "parquet": ".parquet", "json": ".json", "markdown": ".md", "latex": ".tex",
    "bundle": ".vtax.gz", "benchfmt": ".bench.txt", "bmf": ".bmf.json", "ro-crate": ".crate.zip",
}  # fmt: skip
"""Format of a download -> how its file ends, as of `vtax report` and `vtax export`."""
_WIDTHS: dict[str, list[tuple[str, Mapping[tuple[str, str, str], float]]]] = {}


@dataclass(frozen=True)
class Request:
    """What is to be made. kind: of KINDS, or of DOWNLOADS. place: of the store. names: of the runs, or of the study.

    language: code of it.
    """

    kind: str
    place: str | Path
    names: tuple[str, ...]
    language: str = "en"


@dataclass(frozen=True)
class Failed:
    """An error that can be sent from one process to another."""

    what: str
    where: str
    hint: str
    kind: str

    def error(self) -> VtaxError:
        """The error again."""
        kinds = {"input": BadInput, "store": StoreError}
        return kinds.get(self.kind, VtaxError)(self.what, where=self.where, hint=self.hint)


def start_worker() -> None:
    """Leave Ctrl-C to the server, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()


def import_renderers() -> None:
    """Load what every product needs."""
    from vtax.report.analysis import source
    from vtax.report.renderers import html
    from vtax.report.views import report

    assert all((source, html, report))


def make(request: Request, path: Path, yields: bool) -> Failed | None:
    """Write what is requested to a file. What a user can act on is returned; a bug is raised.

    yields: whether a run measures on this host, and has the CPUs first.
    """
    yield_to_runs(yields)
    try:
        with Store.looked_at(request.place) as store:
            if request.kind in KINDS:
                path.write_text(KINDS[request.kind](store, request), encoding="utf-8")
            else:
                _download(store, request, path)
    except VtaxError as error:
        kind = "input" if isinstance(error, BadInput) else "store" if isinstance(error, StoreError) else ""
        return Failed(error.what, error.where, error.hint, kind)
    return None


def _result(store: Store, request: Request) -> str:
    """The result of a run, as `vtax show` prints it, below the lines about the run."""
    from vtax.report.analysis.source import source_of
    from vtax.report.views import result
    from vtax.report.views.base import Options

    return _drawn(result.VIEW.document(source_of(store, request.names[0]), Options()), request, with_lead=True)


def _estimates(store: Store, request: Request) -> str:
    """The ratios of a run so far, beside the widths of their intervals when this was last asked."""
    from vtax.live.view import estimates, widths
    from vtax.report.analysis import analyse

    name, blocks = request.names
    analysis = analyse(store, name)
    known = _WIDTHS.setdefault(analysis.identity or name, [])
    if not known or known[-1][0] != blocks:
        known.append((blocks, widths(analysis)))
    before = known[-2][1] if len(known) > 1 else {}
    table = estimates(analysis, before)
    return _drawn(Document("", (table,) if table else ()), request)


def _contrast(store: Store, request: Request) -> str:
    """Two sides, as `vtax contrast` compares them."""
    from vtax.report.analysis.contrast import contrast
    from vtax.report.renderers.format import english
    from vtax.report.views.contrast import document_of

    document = document_of(contrast(store, *request.names))
    if document.nothing != "":
        raise VtaxError("there is nothing to compare", where=english(document.nothing))
    return _drawn(document, request)


def _history(store: Store, request: Request) -> str:
    """A study over its runs, as `vtax history` shows it."""
    from vtax.report.analysis.history import history
    from vtax.report.renderers.format import english
    from vtax.report.views.history import document_of

    document = document_of(history(store, request.names[0]))
    if document.nothing != "":
        raise VtaxError("there is nothing to show", where=english(document.nothing))
    return _drawn(document, request, with_lead=True)


def _report(store: Store, request: Request) -> str:
    """The report of a run, as `vtax report` writes it."""
    from vtax.report.analysis import RESAMPLES
    from vtax.report.analysis.source import source_of
    from vtax.report.renderers.html import html
    from vtax.report.renderers.language import language
    from vtax.report.views.report import report

    return html(report(source_of(store, request.names[0], resamples=RESAMPLES)), language(request.language))


KINDS: Mapping[str, Callable[[Store, Request], str]] = {
    "result": _result, "estimates": _estimates, "contrast": _contrast, "history": _history, "report": _report,
}  # fmt: skip


def _drawn(document: Document, request: Request, *, with_lead: bool = False) -> str:
    from vtax.report.renderers.html import Fragments
    from vtax.report.renderers.language import language

    fragments = Fragments(language(request.language), document.colours)
    return str(fragments.lead(document) + fragments.body(document) if with_lead else fragments.body(document))


def _download(store: Store, request: Request, path: Path) -> None:
    from vtax.report.analysis.source import source_of
    from vtax.report.exports import benchfmt, bmf, ro_crate
    from vtax.report.files import write
    from vtax.report.renderers.language import language
    from vtax.store.exporting import export_run

    name, chosen = request.names[0], language(request.language)
    if request.kind == "bundle":
        export_run(store.engine, store.open_run(name), path)
    elif request.kind == "benchfmt":
        path.write_text(benchfmt.text(source_of(store, name)), encoding="utf-8")
    elif request.kind == "bmf":
        path.write_text(bmf.text(source_of(store, name).analysis), encoding="utf-8")
    elif request.kind == "ro-crate":
        ro_crate.write(store, name, path, language=chosen)
    else:
        write(store, name, request.kind, path, language=chosen)
