"""The result of a run for programs: what its view has, and the settings that were really in force."""

from __future__ import annotations

from typing import Any

from vtax.report.analysis.counters import effective_of_cells
from vtax.report.analysis.source import Source
from vtax.report.views import result
from vtax.report.views.base import Options


def values_of(source: Source, options: Options) -> dict[str, Any]:
    """The result for programs, with the settings that were really in force in every cell. Raises StoreError."""
    in_force = effective_of_cells(source.data, source.effective)
    found = [
        {
            "cell": cell.key,
            "platform": cell.platform,
            "label": cell.label,
            "levels": dict(cell.levels),
            "settings": in_force[number],
        }
        for number, cell in enumerate(source.data.run.cells)
        if number in in_force
    ]
    return {**result.VIEW.document(source, options).data, "effective": found}
