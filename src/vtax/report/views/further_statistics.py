"""The table of what a result leaves out: deviation, median and range of cells, and the interval of the median."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from vtax.report.analysis import Analysis, Row, Section
from vtax.report.document import Column, Inline, Interval, Quantity, Scale, Share, Table, joined, msg
from vtax.report.document.stored_texts import unit_of
from vtax.report.views import shared


def further_statistics(section: Section, analysis: Analysis, names: Mapping[str, int]) -> Table:
    """What the table of the result leaves out of its cells; all in the mean's unit."""
    scales = set(shared.scales_of(section))
    unit = unit_of(scales.pop().unit) if len(scales) == 1 else ""
    named = {"SD": "sd", "min": "min", "median": "median", "max": "max"}
    titles = {"SD": msg("SD"), "min": msg("min"), "median": msg("median"), "max": msg("max")}
    columns = [
        shared.PLATFORM,
        *(Column(key, joined([titles[title], unit], ",\n"), is_number=True) for title, key in named.items()),
        Column("median_interval", msg("median interval,\nconfidence level")),
    ]

    def cells(row: Row, scale: Scale) -> Sequence[Inline] | None:
        if row.summary is None:
            return None
        s = row.summary
        shown = [Quantity(each, scale) for each in (s.sd, s.minimum, s.median, s.maximum)]
        return [*shown, _median_interval(row, scale)]

    label = msg("further statistics of {name}", name=section.name)
    return Table(
        tuple(columns), shared.scaled_groups(section, cells, names), key=f"{section.name} figures", label=label
    )


def _median_interval(row: Row, scale: Scale) -> Inline:
    s = row.summary
    if s is None or s.blocks < 2 or not (math.isfinite(s.median_low) and math.isfinite(s.median_high)):
        return ""
    return joined([Interval(s.median_low, s.median_high, "quantity", scale), Share(s.median_confidence)], " ")
