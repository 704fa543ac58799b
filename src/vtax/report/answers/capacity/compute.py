"""The most guests of each platform whose metric is within the bound of the study, `guests_until`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtax.levels import Levels
from vtax.question import rest
from vtax.report.analysis import Analysis, ResultPoint, Row, Section
from vtax.store.records import PlatformRecord

if TYPE_CHECKING:
    from vtax.study.model import GuestsUntilTable

_SEARCH = rest("guests")


@dataclass(frozen=True)
class Capacity:
    """The number of guests that a platform takes at one combination of the other factors.

    guests: the most whose mean is within the bound; 0 where even the fewest are not.
    broken_by: the next number, which is not; None where none that was measured is.
    value: its mean; None where its trials failed.
    """

    section: Section
    bound: GuestsUntilTable
    platform: PlatformRecord
    levels: Levels
    guests: int
    broken_by: int | None
    value: float | None


def capacities(analysis: Analysis) -> list[Capacity]:
    """Return the answer of each platform, in the order of the tables of the study."""
    answers: list[Capacity] = []
    for table in analysis.declared.get("benchmark", ()):
        bound_table = table.get("guests_until")
        if not bound_table:
            continue
        from vtax.study.model import GuestsUntilTable  # which few runs need, and is slow to import

        bound = GuestsUntilTable.model_validate(bound_table)
        label = table.get("label") or table["name"]
        for section in analysis.sections:
            if section.label == label and section.metric.name == bound.metric:
                answers += _of_section(section, bound)
    return answers


def _of_section(section: Section, bound: GuestsUntilTable) -> Iterator[Capacity]:
    """Yield the answers of a metric: of each platform and combination of factors but the number of guests."""
    searches: dict[tuple[str, Levels], list[tuple[int, ResultPoint, Row]]] = {}
    for point in section.points:
        for row in point.rows:
            guests = int(row.cell.levels["guests"])
            search = (row.platform.name, _SEARCH.of(point.levels))
            searches.setdefault(search, []).append((guests, point, row))
    for rows in searches.values():
        within, broken_by, value = 0, None, None
        for guests, _, row in sorted(rows, key=lambda guests_and_row: guests_and_row[0]):
            if row.summary is None and not row.failed:
                break  # not measured: fewer guests broke the bound, or the run ended before
            if row.summary is None or not bound.holds(row.summary.mean):
                broken_by = guests
                value = None if row.summary is None else row.summary.mean
                break
            within = guests
        _, first, row = rows[0]
        if within or broken_by is not None:
            levels = first.levels.without({"guests"})
            yield Capacity(section, bound, row.platform, levels, within, broken_by, value)
