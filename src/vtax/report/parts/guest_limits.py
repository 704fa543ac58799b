"""How many guests a platform takes: the answer of a study that bounds a metric by `guests_until`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vtax.report import document as doc
from vtax.report.analysis import Analysis, Row, Section
from vtax.report.document import joined, levels_of, msg, scale_for
from vtax.report.parts import shared
from vtax.store.records import PlatformRecord
from vtax.study.model import GuestsUntilTable


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
    levels: Mapping[str, Any]
    guests: int
    broken_by: int | None
    value: float | None


def capacities(analysis: Analysis) -> list[Capacity]:
    """Return the answer of each platform, in the order of the tables of the study."""
    found: list[Capacity] = []
    for table in analysis.declared.get("benchmark", ()):
        until = table.get("guests_until")
        if not until:
            continue
        bound = GuestsUntilTable.model_validate(until)
        label = table.get("label") or table["name"]
        for section in analysis.sections:
            if section.label == label and section.metric.name == bound.metric:
                found += _of_section(section, bound)
    return found


def _of_section(section: Section, bound: GuestsUntilTable) -> Iterator[Capacity]:
    """Yield the answers of a metric: of each platform and combination of factors but the number of guests."""
    searches: dict[tuple[str, str], list[tuple[int, Mapping[str, Any], Row]]] = {}
    for point in section.points:
        others = {name: level for name, level in point.levels.items() if name != "guests"}
        for row in point.rows:
            key = (row.platform.name, str(sorted(others.items())))
            guests = int(row.cell.levels["guests"])
            searches.setdefault(key, []).append((guests, others, row))
    for rows in searches.values():
        within, broken_by, value = 0, None, None
        for guests, _, row in sorted(rows, key=lambda each: each[0]):
            if row.summary is None and not row.failed:
                break  # not measured: fewer guests broke the bound, or the run ended before
            if row.summary is None or not bound.holds(row.summary.mean):
                broken_by = guests
                value = None if row.summary is None else row.summary.mean
                break
            within = guests
        _, levels, first = rows[0]
        if within or broken_by is not None:
            yield Capacity(section, bound, first.platform, levels, within, broken_by, value)


def capacity_lines(analysis: Analysis) -> Iterator[doc.Part]:
    """Yield a line for every search of a study, with the number of each platform."""
    by_search: dict[str, list[Capacity]] = {}
    for each in capacities(analysis):
        by_search.setdefault(f"{each.section.name} {each.levels}", []).append(each)
    lines = []
    for of_search in by_search.values():
        first = of_search[0]
        name = joined([first.section.label, shared.metric_of(first.section)], ": ")
        if first.levels:
            name = joined([name, doc.Factor(levels_of(first.levels))], ", ")
        limit = _quantity(first.section, first.bound.at_most or first.bound.at_least or 0.0)
        platforms = joined(map(_platform, of_search), "; ")
        if first.bound.at_most is None:
            text = msg(
                "Guests with {metric} of at least {limit}: {platforms}",
                metric=name,
                limit=limit,
                platforms=platforms,
            )
        else:
            text = msg(
                "Guests with {metric} of at most {limit}: {platforms}",
                metric=name,
                limit=limit,
                platforms=platforms,
            )
        lines.append(text)
    if lines:
        yield doc.Bullets(tuple(lines))


def _platform(found: Capacity) -> doc.Inline:
    """Return `podman 8 (16: 412 ms)`, `native 32 or more`, `docker none (1: failed)`."""
    platform = shared.platform_of(found.platform)
    if found.broken_by is None:
        return msg("{platform} {count} or more", platform=platform, count=doc.Count(found.guests))
    value: doc.Inline = msg("failed")
    if found.value is not None:
        value = _quantity(found.section, found.value)
    broken = joined([doc.Count(found.broken_by), value], ": ")
    if not found.guests:
        return msg("{platform} none ({broken})", platform=platform, broken=broken)
    return msg(
        "{platform} {count} ({broken})",
        platform=platform,
        count=doc.Count(found.guests),
        broken=broken,
    )


def _quantity(section: Section, value: float) -> doc.Inline:
    return doc.Quantity(value, scale_for(section.metric.unit, [value]), 3, has_unit=True)
