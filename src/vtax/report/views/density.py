"""Several guests at once: what each gets, what they make together, how fairly, and the memory of a guest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vtax.report.analysis import Analysis
from vtax.report.analysis.colocated import GUESTS, Effect, effects
from vtax.report.analysis.source import Source
from vtax.report.document import (
    Column,
    Count,
    Document,
    Factor,
    Group,
    Inline,
    Nothing,
    Number,
    Paragraph,
    Part,
    Quantity,
    Ratio,
    Scale,
    Table,
    joined,
    levels_of,
    msg,
)
from vtax.report.document import Row as TableRow
from vtax.report.document import Section as Titled
from vtax.report.document.stored_texts import unit_of
from vtax.report.parts import shared
from vtax.report.views.base import Options, View
from vtax.report.views.neighbour import as_json

_FURTHER = ("sum", "fairness", "lowest_share")
_MEMORY = ("memory_pss", "memory_cgroup")
Means = Mapping[tuple[str, str, str, str], float]
"""(label, metric, point key, platform) -> mean."""


def document(source: Source, _: Options) -> Document:
    """Return a table per metric and point: platforms and numbers of guests."""
    made = document_of(effects(source.analysis, GUESTS), _means(source.analysis))
    return shared.of_blocks(made, source.analysis)


def document_of(found: Sequence[Effect], means: Means) -> Document:
    """Return the document of several guests. means: of every metric at every point."""
    if not found:
        text = msg("This run has no factor guests.")
        return Document(VIEW.title, (Paragraph(text),), data=[], nothing=text)
    parts: list[Part] = []
    for section, others in dict.fromkeys((each.section.name, levels_of(each.others)) for each in found):
        here = [each for each in found if (each.section.name, levels_of(each.others)) == (section, others)]
        title = joined([shared.title_of(here[0].section), Factor(others) if others else ""], " · ")
        parts.append(Titled(title, (_table(here, means),), subtitle=shared.subtitle_of(here[0].section)))
    note = msg(
        "Means over guests, trials and blocks. The ratio is to the fewest guests on the same platform, in blocks. "
        "Fairness is Jain's index. PSS counts a page that several guests map by its share; the control group's "
        "memory includes page cache and kernel memory."
    )
    return Document(VIEW.title, (*parts, Paragraph(note, "muted")), data=_plain(found, means))


def _means(analysis: Analysis) -> Means:
    return {
        (section.label, section.metric.name, point.key, row.platform.name): row.summary.mean
        for section in analysis.sections
        for point in section.points
        for row in point.rows
        if row.summary is not None
    }


def _of(effect: Effect, means: Means, metric: str) -> float | None:
    return means.get((effect.section.label, metric, effect.row.cell.point, effect.row.platform.name))


def _further(effect: Effect, means: Means) -> dict[str, float | None]:
    """Return the metrics of several guests, by name without that of the primary metric."""
    own = effect.section.metric.name
    together = {ending: _of(effect, means, f"{own}_{ending}") for ending in _FURTHER}
    return {**together, **{name: _of(effect, means, name) for name in _MEMORY}}


def _table(found: Sequence[Effect], means: Means) -> Table:
    scale = shared.scale_of(found[0].section)
    columns = (
        Column("guests", msg("guests"), is_number=True),
        Column("mean", msg("mean of a guest,\n{unit}", unit=unit_of(scale.unit)), is_number=True),
        Column("ratio", msg("ratio to\nfewest"), is_number=True),
        Column("sum", msg("sum"), is_number=True),
        Column("fairness", msg("fairness"), is_number=True),
        Column("lowest_share", msg("lowest /\nhighest"), is_number=True),
        Column("memory_pss", msg("PSS,\nMiB a guest"), is_number=True),
        Column("memory_cgroup", msg("control group,\nMiB a guest"), is_number=True),
    )
    groups = []
    for platform in dict.fromkeys(shared.platform_of(each.row.platform) for each in found):
        rows = [_row(each, scale, means) for each in found if each.row.platform.name == platform.name]
        groups.append(Group(tuple(rows), platform))
    return Table(columns, tuple(groups), key=f"{found[0].section.name} guests", label=msg("Several guests"))


def _row(effect: Effect, scale: Scale, means: Means) -> TableRow:
    assert effect.row.summary is not None
    more = _further(effect, means)
    total = more.pop("sum")
    return TableRow((
        Count(int(effect.level)), Quantity(effect.row.summary.mean, scale, 4),
        Ratio(effect.ratio.estimate) if effect.ratio else Nothing(),
        Nothing() if total is None else Quantity(total, scale, 4), *map(_number, more.values()),
    ))  # fmt: skip


def _number(value: float | None) -> Inline:
    return Nothing() if value is None else Number(value, 3)


def _plain(found: Sequence[Effect], means: Means) -> list[dict[str, Any]]:
    """Return one entry per metric, platform and number of guests; memory in MiB a guest."""
    return [
        {
            **shared.named(each.section),
            "levels": {**each.others, GUESTS: each.level},
            "platform": each.row.platform.name,
            "mean": each.row.summary.mean if each.row.summary else None,
            "ratio_to_fewest": as_json(each.ratio),
            **_further(each, means),
        }
        for each in found
    ]


_HELP = msg("Several guests at once: share, sum, fairness, memory.")
VIEW = View("density", msg("Several guests"), _HELP, document, 24)
