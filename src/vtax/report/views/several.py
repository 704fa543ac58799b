"""The first page of a report of several runs: what each run is, and the number of its verdicts of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from vtax.report.analysis import Analysis
from vtax.report.document import (
    Column,
    Count,
    Document,
    Group,
    Inline,
    Link,
    Moment,
    Nothing,
    Row,
    Section,
    Table,
    joined,
    msg,
    plural,
)
from vtax.report.views.header import header_of, host_line, status_word
from vtax.stats.verdict import Kind


def several(analyses: Sequence[Analysis], keys: Sequence[str]) -> Document:
    """A row for every run, which links its chapter. keys: of the chapters, see renderers.html.chapter_key."""
    columns = (
        Column("run", msg("run")), Column("study", msg("study"), wraps=True), Column("start", msg("start")),
        Column("blocks", msg("blocks"), is_number=True), Column("platforms", msg("platforms"), wraps=True),
        Column("slower", msg("slower"), is_number=True), Column("faster", msg("faster"), is_number=True),
        Column("equivalent", msg("equivalent"), is_number=True),
        Column("undecided", msg("undecided"), is_number=True),
    )  # fmt: skip
    rows = tuple(_row(each, key) for each, key in zip(analyses, keys, strict=True))
    title = plural("Report of {count} run", "Report of {count} runs", len(analyses))
    hosts = list({each.host.get("machine_id", n): host_line(each.host) for n, each in enumerate(analyses)}.values())
    lead: tuple[Inline, ...] = tuple(joined([msg("host"), host], ": ") for host in hosts if host != "")
    table = Table(columns, (Group(rows),), key="runs", label=msg("Runs"), style="list")
    return Document(title, (Section(msg("Runs"), (table,), key="runs", role="summary"),), lead)


def _row(analysis: Analysis, key: str) -> Row:
    verdicts = Counter(
        row.verdict.kind for s in analysis.primary for p in s.points for row in p.rows if row.verdict is not None
    )
    name: Inline = Link(analysis.name, key)
    if analysis.status != "finished":
        name = joined([name, status_word(analysis.status)], ": ")
    counts = [Count(verdicts[kind]) if verdicts else Nothing() for kind in get_args(Kind)]
    platforms = ", ".join(platform.name for platform in analysis.platforms if platform.available)
    title = header_of(analysis)[0]
    return Row((name, title, Moment(analysis.started_at), Count(analysis.blocks), platforms, *counts))
