"""Shows what further guests on the host cost: the levels of a factor, each against the first on the same platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

from vtax.report.analysis import Analysis
from vtax.report.analysis.colocated import Effect, effects
from vtax.report.analysis.source import Source
from vtax.report.document import (
    Column,
    Count,
    Document,
    Factor,
    Group,
    Inline,
    Message,
    Nothing,
    Number,
    Paragraph,
    Quantity,
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
from vtax.stats.ratio import Ratio as Estimate


@dataclass(frozen=True)
class _Preset:
    """A factor to show. column: heading. first: what is 100 %. reference, further: see `effects`."""

    title: Message
    factor: str
    reference: str
    nothing: Message
    note: Message
    column: Message
    first: Message
    further: Mapping[str, Message] = field(default_factory=dict)


def _document(preset: _Preset, source: Source, _: Options) -> Document:
    """Return a table per metric and point: platforms, levels, ratios to the first level on the same platform."""
    found = effects(source.analysis, preset.factor, preset.reference, tuple(preset.further))
    return shared.of_blocks(document_of(preset, found, source.analysis), source.analysis)


def document_of(preset: _Preset, found: Sequence[Effect], analysis: Analysis) -> Document:
    """Return the document of the effects of a factor."""
    if not found:
        return Document(preset.title, (Paragraph(preset.nothing),), data=[], nothing=preset.nothing)
    parts = []
    for (_, others), group in groupby(found, lambda each: (each.section.name, levels_of(each.others))):
        here = list(group)
        title = joined([shared.title_of(here[0].section), Factor(others) if others else ""], " · ")
        parts.append(Titled(title, (_table(preset, here, analysis),), subtitle=shared.subtitle_of(here[0].section)))
    return Document(preset.title, (*parts, Paragraph(preset.note, "muted")), data=list(found))


def _table(preset: _Preset, found: Sequence[Effect], analysis: Analysis) -> Table:
    scale = shared.scale_of(found[0].section)
    interval = msg("{level} interval", level=analysis.level)
    columns = [
        Column(preset.factor, preset.column, is_number=preset.factor == "guests"),
        Column("mean", msg("mean, {unit}", unit=unit_of(scale.unit)), is_number=True),
        Column("percent", shared.percent_title(preset.first, interval), is_number=True),
    ]
    if not preset.further:
        heading = msg("the same on\n{platform} [{interval}]", platform=analysis.baseline, interval=interval)
        columns.append(Column("baseline_percent", heading, is_number=True))
    columns += [Column(name.lstrip("_"), title, is_number=True) for name, title in preset.further.items()]
    groups = [
        Group(tuple(_row(preset, each, scale) for each in rows), platform)
        for platform, rows in groupby(found, lambda each: shared.platform_of(each.row.platform))
    ]
    return Table(tuple(columns), tuple(groups), key=f"{found[0].section.name} {preset.factor}", label=preset.title)


def _row(preset: _Preset, effect: Effect, scale: Scale) -> TableRow:
    assert effect.row.summary is not None
    level: Inline = Count(effect.level) if isinstance(effect.level, int) else str(effect.level)
    cells: list[Inline] = [level, Quantity(effect.row.summary.mean, scale, 4), _share(effect.ratio, effect)]
    if not preset.further:
        cells.append(_share(effect.of_baseline, effect))
    for name, value in effect.further.items():
        shown: Inline = Quantity(value, scale, 4) if name == "sum" and value is not None else Nothing()
        cells.append(shown if value is None or name == "sum" else Number(value, 3))
    return TableRow(tuple(cells))


def _share(ratio: Estimate | None, effect: Effect) -> Inline:
    return Nothing() if ratio is None else shared.relative_of(ratio, effect.section.better)


_GUESTS = _Preset(
    msg("Several guests"), "guests", "", msg("This run has no factor guests."),
    msg(
        "Means over guests, trials and blocks. The fewest guests on the same platform are 100 %, in blocks. "
        "Fairness is Jain's index. PSS counts a page that several guests map by its share; the control group's "
        "memory includes page cache and kernel memory."
    ),
    msg("guests"), msg("the fewest"),
    {
        "_sum": msg("sum"), "_fairness": msg("fairness"), "_lowest_share": msg("lowest /\nhighest"),
        "memory_pss": msg("PSS,\nMiB a guest"), "memory_cgroup": msg("control group,\nMiB a guest"),
    },
)  # fmt: skip
_NEIGHBOUR = _Preset(
    msg("Neighbours"), "neighbour", "none", msg("This run has no factor neighbour."),
    msg(
        "The same platform beside an idle neighbour is 100 %, in blocks. The neighbour has the limits of "
        "the guest, and host CPUs of its own as far as there are enough."
    ),
    msg("neighbour loads"), msg("none"),
)  # fmt: skip
_HELP = msg("Several guests at once: share, sum, fairness, memory.")
VIEW = (
    View("density", _GUESTS.title, _HELP, partial(_document, _GUESTS), 24),
    View("neighbour", _NEIGHBOUR.title, msg("What a loading neighbour costs, beside an idle one."),
         partial(_document, _NEIGHBOUR), 23),
)  # fmt: skip
