"""Matrix of hosts and hosts: what each pair shows, the one that measured in the line, its peer in the column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.pairs import MeasuredPair
from vtax.report.analysis.sessions import ratio_in
from vtax.report.document import joined, msg, muted
from vtax.report.parts import shared
from vtax.report.parts.host_matrix import Line
from vtax.stats.ratio import Ratio

_MOST = 12  # columns of a table that can be read


def matrices(
    lines: Sequence[Line], pairs: Sequence[MeasuredPair], analysis: Analysis
) -> Iterator[doc.Part]:
    """Yield a table for each metric; nothing for a run that is of no pairs."""
    peers = sorted({pair.peer for pair in pairs})
    for section in dict.fromkeys(line.section.name for line in lines) if pairs else ():
        of = [line for line in lines if line.section.name == section]
        title = msg(
            "{title}: percent of {baseline} of each pair",
            title=shared.title_of(of[0].section),
            baseline=analysis.baseline,
        )
        if len(peers) > _MOST:
            many = msg("Too many hosts for a table: vtax show RUN --hosts --json has every pair.")
            yield doc.Titled(title, (doc.Paragraph(many, "muted"),))
            continue
        columns = (
            doc.Column("host", msg("measured by")),
            *(doc.Column(f"peer {name}", name, is_number=True) for name in peers),
        )
        groups = tuple(_group(line, pairs, peers, analysis) for line in of)
        note = msg(
            "Each pair over its own sessions. Intervals over hosts, by both ends of each pair: --sessions."
        )
        table = doc.Table(columns, groups, key=f"pairs {section}", label=title, style="result")
        yield doc.Titled(title, (table, doc.Paragraph(note, "muted")))


def _group(
    line: Line, pairs: Sequence[MeasuredPair], peers: Sequence[str], analysis: Analysis
) -> doc.Group:
    cells: dict[tuple[str, str], doc.Inline] = {
        (pair.host, pair.peer): shared.relative_of(ratio, line.section.better)
        for pair in pairs
        if (ratio := _ratio(line, pair, analysis))
    }
    hosts = sorted({pair.host for pair in pairs})
    rows = [
        (host, *(cells.get((host, peer), muted(doc.Nothing())) for peer in peers)) for host in hosts
    ]
    title = joined([shared.platform_of(line.row.platform), shared.levels(line.point)])
    return doc.Group(tuple(map(doc.TableRow, rows)), title)


def _ratio(line: Line, pair: MeasuredPair, analysis: Analysis) -> Ratio | None:
    base = line.point.baseline
    return ratio_in(line.row, base, pair.sessions, analysis.rule.confidence) if base else None


def plain(
    lines: Sequence[Line], pairs: Sequence[MeasuredPair], analysis: Analysis
) -> list[dict[str, Any]]:
    """Return every pair with its sessions and ratios, for programs."""
    return [
        {
            "host": pair.host,
            "peer": pair.peer,
            "sessions": list(pair.numbers),
            "ratios": [
                {
                    **shared.named(line.section),
                    "levels": dict(line.point.levels),
                    "platform": line.row.platform.name,
                    "estimate": ratio.estimate,
                    "low": ratio.low,
                    "high": ratio.high,
                    "blocks": ratio.n_blocks,
                }
                for line in lines
                if (ratio := _ratio(line, pair, analysis))
            ],
        }
        for pair in pairs
    ]
