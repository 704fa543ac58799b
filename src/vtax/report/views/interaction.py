"""Whether a factor changes what the platforms cost."""

from __future__ import annotations

from collections.abc import Sequence

from vtax.report.analysis import Analysis
from vtax.report.analysis.interaction import FactorEffect, factor_effects, relative_of, shown
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
    PValue,
    Table,
    msg,
    styled,
)
from vtax.report.document import Row as TableRow
from vtax.report.document import Section as Titled
from vtax.report.parts import shared
from vtax.report.views.base import Options, View
from vtax.stats.interaction import Term


def document(source: Source, options: Options) -> Document:
    """Return the test and the table of every factor; then the warnings."""
    found = factor_effects(source.whole.analysis, every_metric=options.every_metric)
    made = document_of(shown(found, source.analysis.filter), source.analysis)
    return shared.of_blocks(made, source.analysis)


def document_of(found: Sequence[FactorEffect], analysis: Analysis) -> Document:
    """Return the document of the effects."""
    if not found:
        text = msg("no factor of this run has more than one level")
        return Document(VIEW.title, (Paragraph(text),), data=[], nothing=text)
    parts: list[Part] = []
    for each in found:
        answer: Inline = each.text if each.text != "" else each.reason
        inner: list[Part] = [Paragraph(answer if each.effect else styled(answer, "error"))]
        if each.effect:
            inner.append(_table(each, analysis))
        title = msg("{metric} by {factor}", metric=shared.title_of(each.section), factor=each.factor)
        parts.append(Titled(title, tuple(inner)))
    given = [noted(text, Place(subject=joined_name(each))) for each in found for text in each.warnings]
    parts += shared.warnings_part(merged(given))
    return Document(VIEW.title, tuple(parts), data=list(found))


def joined_name(found: FactorEffect) -> str:
    """`iperf3 throughput, direction`."""
    return f"{found.section.name}, {found.factor}"


def _table(found: FactorEffect, analysis: Analysis) -> Table:
    assert found.effect is not None
    columns = (
        Column("term", msg("term")), Column("percent", msg("percent\n[{level} interval]", level=analysis.level),
        is_number=True), Column("p", msg("p"), is_number=True),
    )  # fmt: skip
    first, platform = f"{found.factor}={found.levels[0]}", analysis.baseline
    kinds = {
        "platform": msg("percent of {platform}, at {level}", platform=platform, level=first),
        "factor": msg("percent of {level}, on {platform}", platform=platform, level=first),
        "interaction": msg("interaction: percent of {platform}, relative to {level}", platform=platform, level=first),
    }
    groups = [
        Group(tuple(_row(term, found, analysis) for term in found.effect.table if term.kind == kind), title)
        for kind, title in kinds.items()
    ]
    return Table(columns, tuple(groups), key=f"{found.section.name} by {found.factor}", label=msg("terms"))


def _row(term: Term, found: FactorEffect, analysis: Analysis) -> TableRow:
    platform = analysis.platform_of(term.platform)
    level = f"{found.factor}={term.level}"
    both = msg("{platform} at {level}", platform=platform, level=level)
    names: dict[str, Inline] = {"platform": platform, "factor": level}
    name = names.get(term.kind, both)
    return TableRow((name, relative_of(term, found.section.better), PValue(term.p_value)))


VIEW = View("interaction", msg("Interaction"), msg("Whether factors change what a platform costs."), document, 22)
