"""Results as they are shown, for tests that have an analysis alone: in a terminal, as a page, as values."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
from rich.console import Console

from vtax.report.analysis import Analysis
from vtax.report.analysis.source import Source
from vtax.report.answers.result.exported import exported
from vtax.report.chapters import report
from vtax.report.document import Document, Warning
from vtax.report.renderers.format import Formatter, english
from vtax.report.renderers.html import html
from vtax.report.renderers.json import plain
from vtax.report.renderers.language import ENGLISH, Language
from vtax.report.renderers.terminal import render
from vtax.report.views.base import Options
from vtax.report.views.registry import views
from vtax.store.query import Measurements, RunData, Trials
from vtax.store.records import MetricRecord

__all__ = [
    "drawn",
    "english",
    "page",
    "result",
    "sentence",
    "source_of",
    "terminal",
    "values",
    "view",
]


def source_of(analysis: Analysis) -> Source:
    """A source for views that need nothing but the analysis: it has no trials."""
    whole, real, flags = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_)
    trials = Trials(whole, whole, whole, whole, whole, flags, flags, real, real, real, whole)
    run: Any = SimpleNamespace(
        cells=analysis.cells,
        platforms=analysis.platforms,
        metrics=[MetricRecord("tool", "speed", "speed", "1/s", "higher", True)],
    )
    return Source(RunData(run, trials, Measurements(whole, whole, real), (), (), ()), analysis)


def result(analysis: Analysis, *, every_metric: bool = False) -> Document:
    """What `vtax show` shows."""
    return views()["result"].document(
        source_of(analysis), Options("all" if every_metric else "brief")
    )


def view(name: str, analysis: Analysis, *, every_metric: bool = False) -> Document:
    """What `vtax show --NAME` shows."""
    return views()[name].document(source_of(analysis), Options("all" if every_metric else "brief"))


def drawn(document: Document, width: int = 160) -> str:
    """A document as a terminal of some width shows it."""
    file = io.StringIO()
    render(document, Console(file=file, width=width, highlight=False))
    return file.getvalue()


def terminal(analysis: Analysis, width: int = 160, *, every_metric: bool = False) -> str:
    """The result as a terminal shows it."""
    return drawn(result(analysis, every_metric=every_metric), width)


def page(analysis: Analysis, language: Language = ENGLISH) -> str:
    """The report as HTML."""
    return html(report(source_of(analysis)), language)


def values(analysis: Analysis) -> Any:
    """The result for programs."""
    return plain(exported(analysis))


def sentence(warning: Warning) -> str:
    """What a warning says in English."""
    return Formatter().sentence(warning)
