"""A run in formats of others: Go's benchmark format, Bencher's JSON, and RO-Crate for repositories."""

from __future__ import annotations

from vtax.errors import BadInput
from vtax.report.analysis import Analysis, every_row


def check_is_measured(analysis: Analysis) -> None:
    """Raise BadInput for a run in which no measured trial went well."""
    if not any(row.summary for *_, row in every_row(analysis.sections)):
        raise BadInput(
            f"{analysis.name} has no measured trial that went well",
            hint=f"vtax show {analysis.name} says why; --format bundle keeps what there is",
        )
