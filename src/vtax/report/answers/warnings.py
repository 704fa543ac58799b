"""Everything that should be known about a run's figures before they are believed."""

from __future__ import annotations

from vtax.report import document as doc
from vtax.report.analysis.source import Source
from vtax.report.document import msg
from vtax.report.views.base import Options, View, register_view


def document(source: Source, _: Options) -> doc.Document:
    """Return all warnings, merged."""
    warnings = source.analysis.warnings
    part = doc.Warnings(warnings) if warnings else doc.Paragraph(msg("None."))
    return doc.Document(VIEW.title, (part,), data=warnings)


VIEW = register_view(
    View("warnings", msg("Warnings"), msg("Every warning, with all its places."), document, 30)
)
