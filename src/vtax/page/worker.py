"""The worker process of the page: makes results, comparisons, histories and reports as HTML, and files to download.

Each kind is a function from the store and a task to a text.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import wait
from pathlib import Path

from vtax.errors import BadInput, NotFound, StoreError, VtaxError
from vtax.live.scheduling import set_idle
from vtax.page.report_file import policy_file, report_policy, with_back_link
from vtax.report import document as doc
from vtax.report.document import msg
from vtax.store.store import Store

DOWNLOADS = {
    "csv": ".csv",
    "parquet": ".parquet",
    "json": ".json",
    "markdown": ".md",
    "latex": ".tex",
    "bundle": ".vtax.gz",
    "benchfmt": ".bench.txt",
    "bmf": ".bmf.json",
    "ro-crate": ".crate.zip",
}
"""Format of a download -> how its file ends, as of `vtax export`."""
_WIDTHS: dict[str, list[tuple[str, Mapping[tuple[str, str, str], float]]]] = {}
"""Run -> (complete blocks, widths of its intervals) of the last two blocks that were asked for."""


MOST_RESIDENT = 96 << 20
"""A worker that holds more bytes after a task is replaced: libraries and allocators give little back."""
_MOST_LIVE_RUNS = 8  # a host measures one at a time; stores of several hosts have more


@dataclass(frozen=True)
class Task:
    """A task.

    kind: of KINDS, or of DOWNLOADS.
    place: of the store.
    names: of the runs, or of the study.
    language: its code.
    """

    kind: str
    place: str | Path
    names: tuple[str, ...]
    language: str = "en"


def start_worker(is_idle: bool) -> None:
    """Leave Ctrl-C to the server, and end with it, however it ends. is_idle: as of `make`."""
    set_idle(is_idle)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()


def import_renderers() -> None:
    """Load what every product needs."""
    from vtax.report import chapters
    from vtax.report.analysis import source
    from vtax.report.renderers import html

    assert all((source, html, chapters))


@dataclass(frozen=True)
class Made:
    """The outcome of a task. is_declined: nothing was made, as the worker held too much. is_full: it now does."""

    error: VtaxError | None = None
    is_declined: bool = False
    is_full: bool = False


def work(task: Task, path: Path, is_idle: bool) -> Made:
    """Write the file of a task as `make` does, unless this worker holds too much memory already."""
    if _is_full():
        return Made(is_declined=True, is_full=True)
    return Made(make(task, path, is_idle), is_full=_is_full())


def make(task: Task, path: Path, is_idle: bool) -> VtaxError | None:
    """Write the file of a task. What a user can act on is returned; a bug is raised.

    is_idle: whether a run measures on this host, and has the CPUs first.
    """
    set_idle(is_idle)
    try:
        with Store.open_read_only(task.place) as store:
            if task.kind in KINDS:
                text = KINDS[task.kind](store, task)
                if task.kind == "report":
                    policy_file(path).write_text(report_policy(text), encoding="ascii")
                path.write_text(text, encoding="utf-8")
            else:
                _download(store, task, path)
    except VtaxError as error:
        kinds = (NotFound, BadInput, StoreError, VtaxError)  # these can go to another process
        kind = next(kind for kind in kinds if isinstance(error, kind))
        return kind(error.what, where=error.where, hint=error.hint)
    return None


def _is_full() -> bool:
    """Return whether this process holds so much memory (proc(5), statm) that another one is to take its place."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() > MOST_RESIDENT


def _answer(store: Store, task: Task) -> str:
    """Return the sentence that answers the question of a run."""
    from vtax.report.analysis import analyse
    from vtax.report.chapters import answer

    analysis = analyse(store, task.names[0])
    return _draw_html(doc.Document("", answer(analysis), colours=analysis.colours), task)


def _words(store: Store, task: Task) -> str:
    """Return the open chapters of the report of a run, without their figures, which take seconds to draw."""
    return _draw_html(doc.without_figures(_open_chapters(store, task)), task, with_lead=True)


def _result(store: Store, task: Task) -> str:
    """Return the open chapters of the report of a run."""
    return _draw_html(_open_chapters(store, task), task, with_lead=True)


def _open_chapters(store: Store, task: Task) -> doc.Document:
    from vtax.report.analysis.source import source_of
    from vtax.report.chapters import report

    return report(source_of(store, task.names[0]), is_whole=False)


def _estimates(store: Store, task: Task) -> str:
    """Return the matrix of a run so far, and the widths of its intervals beside those when this was last asked."""
    from vtax.live.view import estimates, widths
    from vtax.report.analysis import analyse
    from vtax.report.answers.result.view import overview

    name, blocks = task.names
    analysis = analyse(store, name)
    key = analysis.identity or name
    widths_by_blocks = _WIDTHS.pop(key, [])  # and in again, as the newest
    if not widths_by_blocks or widths_by_blocks[-1][0] != blocks:
        widths_by_blocks = [*widths_by_blocks[-1:], (blocks, widths(analysis))]
    _WIDTHS[key] = widths_by_blocks
    if len(_WIDTHS) > _MOST_LIVE_RUNS:
        del _WIDTHS[next(iter(_WIDTHS))]
    before = widths_by_blocks[-2][1] if len(widths_by_blocks) > 1 else {}
    parts = list(overview(analysis))
    if (table := estimates(analysis, before)) is not None:
        parts.append(doc.Titled(msg("Width of the intervals"), (table,)))
    return _draw_html(doc.Document("", tuple(parts), colours=analysis.colours), task)


def _compare(store: Store, task: Task) -> str:
    """Return two sides as `vtax compare` compares them."""
    from vtax.report.answers.compare.compute import contrast
    from vtax.report.answers.compare.show import document_of
    from vtax.report.renderers.format import english

    document = document_of(contrast(store, *task.names))
    if document.nothing != "":
        raise VtaxError("there is nothing to compare", where=english(document.nothing))
    return _draw_html(document, task)


def _history(store: Store, task: Task) -> str:
    """Return a study over its runs, as `vtax history` shows it."""
    from vtax.report.answers.history.compute import history
    from vtax.report.answers.history.show import document_of
    from vtax.report.renderers.format import english

    document = document_of(history(store, task.names[0]))
    if document.nothing != "":
        raise VtaxError("there is nothing to show", where=english(document.nothing))
    return _draw_html(document, task, with_lead=True)


def _report(store: Store, task: Task) -> str:
    """Return the report of a run, as `vtax report` writes it, with a link to its page."""
    from vtax.report.analysis.source import source_of
    from vtax.report.chapters import report
    from vtax.report.renderers.html import html
    from vtax.report.renderers.language import language

    name = task.names[0]
    return with_back_link(html(report(source_of(store, name)), language(task.language)), name)


KINDS: Mapping[str, Callable[[Store, Task], str]] = {
    "answer": _answer,
    "words": _words,
    "result": _result,
    "estimates": _estimates,
    "compare": _compare,
    "history": _history,
    "report": _report,
}


def _draw_html(document: doc.Document, task: Task, *, with_lead: bool = False) -> str:
    from vtax.report.renderers.html import Fragments
    from vtax.report.renderers.language import language

    fragments = Fragments(language(task.language), document.colours)
    body = fragments.body(document)
    return str(fragments.lead(document) + body if with_lead else body)


def _download(store: Store, task: Task, path: Path) -> None:
    from vtax.report.analysis.source import source_of
    from vtax.report.exports import benchfmt, bmf, ro_crate
    from vtax.report.files import write
    from vtax.report.renderers.language import language
    from vtax.store.exporting import export_run

    name, words = task.names[0], language(task.language)
    if task.kind == "bundle":
        export_run(store.engine, store.open_run(name), path)
    elif task.kind == "benchfmt":
        path.write_text(benchfmt.text(source_of(store, name)), encoding="utf-8")
    elif task.kind == "bmf":
        path.write_text(bmf.text(source_of(store, name).analysis), encoding="utf-8")
    elif task.kind == "ro-crate":
        ro_crate.write(store, name, path, language=words)
    else:
        write(store, name, task.kind, path, language=words)
