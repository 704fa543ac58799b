"""Checks of a view: its declarations, and a document for every renderer."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from vtax.conformance import declared, sample
from vtax.conformance.check import Check, require
from vtax.conformance.target import Target
from vtax.report import document as doc
from vtax.report.analysis.source import Source, source_of
from vtax.report.renderers.format import english
from vtax.report.renderers.html import html
from vtax.report.renderers.json import as_json
from vtax.report.renderers.latex import latex
from vtax.report.renderers.markdown import markdown
from vtax.report.renderers.terminal import render
from vtax.report.views.base import Options, View

_OPTION = re.compile(r"[a-z][a-z0-9-]{0,29}")
_WIDTHS = (80, 160)


class ViewSubject:
    """The view under test and runs with synthetic values."""

    def __init__(self, target: Target) -> None:
        self.view: View = target.plugin

    @contextmanager
    def documents(self) -> Iterator[list[doc.Document]]:
        """Return documents of a run without trials and of a run with trials, one of them failed, at every depth."""
        with sample.runs() as stores:
            yield [self._document(source_of(store)) for store in stores]

    def _document(self, source: Source) -> doc.Document:
        for depth in ("brief", "all", "report"):
            document = self.view.document(source, Options(depth))
        return document


def _type(subject: ViewSubject) -> None:
    require(
        isinstance(subject.view, View),
        f"VIEW is {subject.view!r}, not a vtax.report.views.base.View",
    )


def _name(subject: ViewSubject) -> None:
    require(
        _OPTION.fullmatch(subject.view.name), f"--{subject.view.name} is not a valid option name"
    )


def _help(subject: ViewSubject) -> None:
    declared.check_line("title", english(subject.view.title))
    declared.check_line("help", english(subject.view.help))


def _document(subject: ViewSubject) -> None:
    with subject.documents() as documents:
        for document in documents:
            require(isinstance(document, doc.Document), f"document returns {document!r}")


def _json(subject: ViewSubject) -> None:
    with subject.documents() as documents:
        for document in documents:
            json.dumps(as_json(document), allow_nan=False)


def _rendered(subject: ViewSubject) -> None:
    with subject.documents() as documents:
        for document in documents:
            for width in _WIDTHS:
                render(document, Console(file=io.StringIO(), width=width, highlight=False))
            for renderer in (html, markdown, latex):
                require(isinstance(renderer(document), str), f"{renderer.__name__} returns no text")


def _repeatable(subject: ViewSubject) -> None:
    with subject.documents() as first:
        first_json = [as_json(document) for document in first]
    with subject.documents() as second:
        require(
            first_json == [as_json(document) for document in second],
            "a second call for the same run returns another document",
        )


_S = ViewSubject
CHECKS: tuple[Check[ViewSubject], ...] = (
    Check[_S]("type", _type, "VIEW = View(name, title, help, document)"),
    Check[_S]("name", _name, "choose a name of lower-case letters and hyphens", ("type",)),
    Check[_S]("help", _help, "say it in a line", ("type",)),
    Check[_S]("document", _document, "return a Document, also of a run without trials", ("type",)),
    Check[_S](
        "json", _json, "return plain values as `data`, or tables with column keys", ("document",)
    ),
    Check[_S]("rendered", _rendered, "use the parts and cells of report/document", ("document",)),
    Check[_S]("repeatable", _repeatable, "make the document depend on the run only", ("document",)),
)
