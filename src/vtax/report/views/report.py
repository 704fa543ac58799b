"""All views that have a place in reports and something to show, as one document: a chapter each, by their places."""

from __future__ import annotations

from collections.abc import Mapping

from vtax.report.analysis import mapping
from vtax.report.analysis.source import Source
from vtax.report.document import Document, Part, Section, stored
from vtax.report.views import recommend, shared
from vtax.report.views.base import Options, View
from vtax.report.views.header import header_of
from vtax.report.views.registry import in_reports


def report(
    source: Source, weights: Mapping[str, float] | None = None, mapped: Mapping[str, str] | None = None
) -> Document:
    """The whole report of a run. weights: of resources, for a chapter with a recommendation; none without them.

    mapped: platform of the publication -> platform of the run, in the chapters of claims and of figures. Raises
    BadInput for a mapping that neither knows, or to a platform that was not measured.
    """
    analysis = source.analysis
    mapping.check(analysis, mapped or {})
    title, lead = header_of(analysis)
    question = stored(str(analysis.declared.get("question") or ""))
    parts: list[Part] = []
    for view in (*in_reports(), *((recommend.VIEW,) if weights is not None else ())):
        document = view.document(source, Options("report", weights=weights, mapped=mapped or {}))
        if document.nothing == "":
            parts += _chapters(view, document)
    lead = (question, *lead) if question else lead
    return Document(title, tuple(parts), lead, colours=shared.colours(analysis))


def _chapters(view: View, document: Document) -> list[Part]:
    """The sections of a view as chapters of their own, where it asks for that; else one chapter with its title."""
    if view.has_chapters:
        return list(document.parts)
    return [Section(view.title, document.parts, key=view.name)]
