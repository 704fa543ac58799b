"""The line that says how many guests each platform takes."""

from __future__ import annotations

from collections.abc import Iterator

from vtax.grouping import by_key
from vtax.report import document as doc
from vtax.report.analysis import Analysis, Section
from vtax.report.answers.capacity.compute import Capacity, capacities
from vtax.report.document import factors, joined, msg, scale_for
from vtax.report.parts import shared


def capacity_lines(analysis: Analysis) -> Iterator[doc.Part]:
    """Yield a line for every search of a study, with the number of each platform."""
    by_search = by_key(
        (f"{capacity.section.name} {capacity.levels}", capacity)
        for capacity in capacities(analysis)
    )
    lines = []
    for of_search in by_search.values():
        first = of_search[0]
        metric = joined([first.section.label, shared.metric_of(first.section)], ": ")
        name = joined([metric, factors(first.levels)], ", ")
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


def _platform(capacity: Capacity) -> doc.Inline:
    """Return `podman 8 (16: 412 ms)`, `native 32 or more`, `docker none (1: failed)`."""
    platform = shared.platform_of(capacity.platform)
    if capacity.broken_by is None:
        return msg(
            "{platform} {count} or more", platform=platform, count=doc.Count(capacity.guests)
        )
    value: doc.Inline = msg("failed")
    if capacity.value is not None:
        value = _quantity(capacity.section, capacity.value)
    broken = joined([doc.Count(capacity.broken_by), value], ": ")
    if not capacity.guests:
        return msg("{platform} none ({broken})", platform=platform, broken=broken)
    return msg(
        "{platform} {count} ({broken})",
        platform=platform,
        count=doc.Count(capacity.guests),
        broken=broken,
    )


def _quantity(section: Section, value: float) -> doc.Inline:
    return doc.Quantity(value, scale_for(section.metric.unit, [value]), 3, has_unit=True)
