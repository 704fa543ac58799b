"""What a loading neighbour costs, and what isolation gives: ratios to the same platform beside an idle one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vtax.report.analysis.colocated import NEIGHBOUR, Effect, effects
from vtax.report.analysis.source import Source
from vtax.report.document import (
    Column,
    Document,
    Factor,
    Group,
    Inline,
    Interval,
    Nothing,
    Paragraph,
    Part,
    Quantity,
    Ratio,
    Scale,
    Share,
    Table,
    joined,
    levels_of,
    msg,
    muted,
)
from vtax.report.document import Row as TableRow
from vtax.report.document import Section as Titled
from vtax.report.document.stored_texts import unit_of
from vtax.report.parts import shared
from vtax.report.views.base import Options, View
from vtax.stats.ratio import Ratio as Estimate


def document(source: Source, _: Options) -> Document:
    """Return a table per metric and point: platforms, loads, ratio to the idle neighbour, and the baseline's beside
    it."""
    found = effects(source.analysis, NEIGHBOUR)
    return shared.of_blocks(document_of(found, source.analysis.level, source.analysis.baseline), source.analysis)


def document_of(found: Sequence[Effect], level: Share, baseline: str) -> Document:
    """Return the document of the effects of neighbours."""
    if not found:
        text = msg("This run has no factor neighbour.")
        return Document(VIEW.title, (Paragraph(text),), data=[], nothing=text)
    parts: list[Part] = []
    for section, others in dict.fromkeys((each.section.name, levels_of(each.others)) for each in found):
        here = [each for each in found if (each.section.name, levels_of(each.others)) == (section, others)]
        title = joined([shared.title_of(here[0].section), Factor(others) if others else ""], " · ")
        parts.append(Titled(title, (_table(here, level, baseline),), subtitle=shared.subtitle_of(here[0].section)))
    note = msg(
        "Ratios to the same platform beside an idle neighbour, formed within blocks. The neighbour has the limits of "
        "the guest, and host CPUs of its own as far as there are enough."
    )
    return Document(VIEW.title, (*parts, Paragraph(note, "muted")), data=_plain(found))


def _table(found: Sequence[Effect], level: Share, baseline: str) -> Table:
    scale = shared.scale_of(found[0].section)
    columns = (
        Column("neighbour", msg("neighbour loads")),
        Column("mean", msg("mean, {unit}", unit=unit_of(scale.unit)), is_number=True),
        Column("ratio", msg("ratio\nto none"), is_number=True),
        Column("interval", msg("{level} interval", level=level)),
        Column("baseline_ratio", msg("ratio to none\non {platform}", platform=baseline), is_number=True),
        Column("baseline_interval", msg("{level} interval", level=level)),
    )
    groups = []
    for platform in dict.fromkeys(shared.platform_of(each.row.platform) for each in found):
        rows = [_row(each, scale) for each in found if each.row.platform.name == platform.name]
        groups.append(Group(tuple(rows), platform))
    return Table(columns, tuple(groups), key=f"{found[0].section.name} neighbour", label=msg("Neighbour"))


def _row(effect: Effect, scale: Scale) -> TableRow:
    assert effect.row.summary is not None
    mean = Quantity(effect.row.summary.mean, scale, 4)
    return TableRow((str(effect.level), mean, *_cells(effect.ratio), *_cells(effect.of_baseline)))


def _cells(ratio: Estimate | None) -> tuple[Inline, Inline]:
    if ratio is None:
        return Nothing(), Nothing()
    return Ratio(ratio.estimate), muted(Interval(ratio.low, ratio.high, "ratio"))


def as_json(ratio: Estimate | None) -> dict[str, Any] | None:
    """Return a ratio for programs."""
    if ratio is None:
        return None
    return {"estimate": ratio.estimate, "low": ratio.low, "high": ratio.high, "confidence": ratio.confidence,
            "n_blocks": ratio.n_blocks}  # fmt: skip


def _plain(found: Sequence[Effect]) -> list[dict[str, Any]]:
    """Return one entry per metric, platform and level; ratio: to `none` on the platform; baseline_ratio: on the
    baseline."""
    return [
        {
            **shared.named(each.section),
            "levels": {**each.others, NEIGHBOUR: each.level},
            "platform": each.row.platform.name,
            "mean": each.row.summary.mean if each.row.summary else None,
            "ratio": as_json(each.ratio),
            "baseline_ratio": as_json(each.of_baseline),
        }
        for each in found
    ]


VIEW = View("neighbour", msg("Neighbours"), msg("What a loading neighbour costs, beside an idle one."), document, 23)
