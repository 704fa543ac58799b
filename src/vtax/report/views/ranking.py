"""The probability of each rank of each platform, at every point of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vtax.report.analysis.ranking import PointRanking, rankings
from vtax.report.analysis.source import Source
from vtax.report.analysis.warnings import merged, noted
from vtax.report.document import (
    Column,
    Document,
    Group,
    Inline,
    Paragraph,
    Part,
    Place,
    Probability,
    Table,
    levels_of,
    msg,
    styled,
)
from vtax.report.document import Row as TableRow
from vtax.report.document import Section as Titled
from vtax.report.views import shared
from vtax.report.views.base import Options, View


def document(source: Source, options: Options) -> Document:
    """A table per metric: platforms as rows, ranks as columns, probabilities as cells; then the warnings."""
    found = rankings(source.whole.analysis, every_metric=options.every_metric, only=source.analysis.filter)
    return shared.of_blocks(document_of(found), source.analysis)


def document_of(found: Sequence[PointRanking]) -> Document:
    """The document of the rankings."""
    parts: list[Part] = []
    for section in {id(each.section): each.section for each in found}.values():
        here = [each for each in found if each.section is section]
        ranked: list[Part] = [_table(here)] if any(each.ranking for each in here) else list(_unranked(here))
        parts.append(Titled(shared.title_of(section), tuple(ranked), subtitle=shared.subtitle_of(section)))
    given = [
        noted(text, Place(subject=each.section.name, levels=levels_of(each.point.levels)))
        for each in found
        for text in each.warnings
    ]
    parts += shared.warnings_part(merged(given))
    nothing: Inline = "" if any(each.ranking for each in found) else msg("There is nothing to rank.")
    return Document(VIEW.title, tuple(parts), data=_plain(found), nothing=nothing)


def _unranked(found: Sequence[PointRanking]) -> Iterator[Part]:
    """Why there are no ranks, each reason once."""
    yield from (Paragraph(text, "error") for text in dict.fromkeys(each.reason for each in found))


def _table(found: Sequence[PointRanking]) -> Table:
    ranks = max(each.ranking.probabilities.shape[1] for each in found if each.ranking)
    columns = (
        shared.PLATFORM,
        *(Column(f"rank_{number + 1}", ordinal(number), is_number=True) for number in range(ranks)),
    )
    groups = []
    for each in found:
        title = shared.levels(each.point)
        if each.ranking is None:
            groups += [Group((), title)] if title != "" else []
            groups.append(Group((), styled(each.reason, "error")))
            continue
        rows = [
            TableRow((shared.platform_of(row.platform), *map(_chance, chances)))
            for row, chances in zip(each.rows, each.ranking.probabilities.tolist(), strict=True)
        ]
        groups.append(Group(tuple(rows), title))
    return Table(columns, tuple(groups), key=found[0].section.name, label=msg("probability of each rank"))


def _chance(p: float) -> Inline:
    return styled(Probability(p), "strong" if p >= 0.5 else "")


def ordinal(number: int) -> Inline:
    """What the place of a number, from 0, is called."""
    if number == 0:
        return msg("best")
    if number % 10 == 1 and number != 11:
        return msg("{number}nd", number=str(number + 1))
    if number % 10 == 2 and number != 12:
        return msg("{number}rd", number=str(number + 1))
    return msg("{number}th", number=str(number + 1))


def _plain(found: Sequence[PointRanking]) -> list[dict[str, Any]]:
    """One entry per metric and point; probabilities: platform -> of each rank, the best first."""
    return [
        {
            **shared.named(each.section),
            "levels": dict(each.point.levels),
            "order": [row.platform.name for row in each.rows] if each.ranking else None,
            "probabilities": (
                {r.platform.name: p.tolist() for r, p in zip(each.rows, each.ranking.probabilities, strict=True)}
                if each.ranking
                else None
            ),
            "blocks": each.ranking.blocks if each.ranking else 0,
            "reason": each.reason,
            "warnings": each.warnings,
        }
        for each in found
    ]


VIEW = View("ranking", msg("Ranking"), msg("The probability of each rank of each platform."), document, 20)
