"""The sessions of a run: when each was, in which boot, what changed on the host, and what the next one may show."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from vtax.foreign_data import parse_json
from vtax.report import document as doc
from vtax.report.analysis import Analysis, Row, Section, every_row
from vtax.report.analysis.facts import fact_value
from vtax.report.analysis.sessions import HostChange, host_changes, of_hosts, scope, shares_in
from vtax.report.analysis.source import Source
from vtax.report.answers.hosts.compute import hosts_of
from vtax.report.answers.hosts.fleet import fleet_of
from vtax.report.document import msg
from vtax.report.parts import shared
from vtax.report.views.base import Options, View, register_view
from vtax.stats.ratio import Nesting
from vtax.stats.ratio import Ratio as RatioOfBlocks

_BOOT_SHOWN = 8  # digits
_MOST_COLUMNS = 6  # of a table with a column a session
_UNITS: Mapping[str, doc.Inline] = {
    "host": msg("hosts"),
    "session": msg("sessions"),
    "block": msg("blocks"),
}


def document(source: Source, options: Options) -> doc.Document:
    """Return the sessions, the changes of the host between them, and a table for every primary metric.

    Nothing in the report of a run of one session, whose summary says so.
    """
    analysis = source.analysis
    text, changes = scope(analysis.sessions), host_changes(analysis.sessions)
    if not analysis.sessions:
        return doc.empty_document(
            VIEW.title, msg("Nothing was measured."), _plain(analysis, changes)
        )
    if options.depth == "report" and len(analysis.sessions) == 1:
        return doc.empty_document(VIEW.title, text, _plain(analysis, changes))
    parts: list[doc.Part] = [_sessions(analysis), doc.Paragraph(text, "muted")]
    parts += changes_part(changes)
    fleet = source.of_whole(fleet_of)
    if fleet is None or not fleet.planned_change:  # else two states would be pooled
        parts += _ratios(analysis)
    return doc.Document(VIEW.title, tuple(parts), data=partial(_plain, analysis, changes))


def _sessions(analysis: Analysis) -> doc.Table:
    hosts = hosts_of(analysis)
    of = {number: host.name for host in hosts for number in host.numbers}
    columns = (
        doc.Column("session", msg("session"), is_number=True),
        *((doc.Column("host", msg("host")),) if len(hosts) > 1 else ()),
        doc.Column("started", msg("started")),
        doc.Column("boot", msg("boot")),
        doc.Column("kernel", msg("kernel")),
        doc.Column("blocks", msg("blocks"), is_number=True),
    )
    rows = [
        (
            doc.Count(session.number),
            *((of[session.number],) if len(hosts) > 1 else ()),
            doc.Moment(session.started_at),
            session.boot_id[:_BOOT_SHOWN] or doc.Nothing(),
            str(session.host.get("kernel", "")),
            doc.Count(len(session.blocks)),
        )
        for session in analysis.sessions
    ]
    return doc.table_of(columns, rows, key="sessions", label=msg("Sessions"), style="facts")


def changes_part(changes: Sequence[HostChange]) -> list[doc.Part]:
    """Return a section of the facts of the host that differ between sessions; none without any."""
    if not changes:
        return []
    has_many = len(changes[0].values) > _MOST_COLUMNS
    columns = (
        doc.Column("fact", msg("fact")),
        *(_by_value() if has_many else _by_session(len(changes[0].values))),
    )
    rows = [
        row
        for change in changes
        for row in (_rows_by_value(change) if has_many else _row_by_session(change))
    ]
    table = doc.table_of(
        columns, rows, key="host-changes", label=msg("Changes of the host"), style="facts"
    )
    return [doc.Titled(msg("Changes of the host between sessions"), (table,), key="host-changes")]


def _by_session(sessions: int) -> Iterator[doc.Column]:
    for number in range(1, sessions + 1):
        yield doc.Column(
            f"session_{number}", msg("session {number}", number=doc.Count(number)), wraps=True
        )


def _row_by_session(change: HostChange) -> Iterator[doc.TableRow]:
    yield doc.TableRow(
        (
            change.name,
            *(doc.Nothing() if value is None else fact_value("", value) for value in change.values),
        )
    )


def _by_value() -> Iterator[doc.Column]:
    yield doc.Column("value", msg("value"), wraps=True)
    yield doc.Column("sessions", msg("sessions"), wraps=True)


def _rows_by_value(change: HostChange) -> Iterator[doc.TableRow]:
    """Yield the values of a fact with the sessions of each; their number, where most sessions have their own."""
    values = list(dict.fromkeys(json.dumps(value, sort_keys=True) for value in change.values))
    if len(values) > _MOST_COLUMNS:
        yield doc.TableRow((change.name, msg("{count} values", count=doc.Count(len(values)))))
        return
    of = [json.dumps(value, sort_keys=True) for value in change.values]
    for number, text in enumerate(values):
        sessions = [n for n, value in enumerate(of, start=1) if value == text]
        value_cell = doc.Nothing() if text == "null" else fact_value("", parse_json(text))
        yield doc.TableRow(
            ("" if number else change.name, value_cell, ", ".join(_runs_of(sessions)))
        )


def _runs_of(numbers: Sequence[int]) -> Iterator[str]:
    """Yield `1-4`, `7`: ascending numbers, neighbours together."""
    first = end = numbers[0]
    for number in [*numbers[1:], None]:
        if number == end + 1:
            end = number
            continue
        yield str(first) if first == end else f"{first}-{end}"
        first = end = number or 0


def _ratios(analysis: Analysis) -> Iterator[doc.Part]:
    for section in analysis.primary:
        if any(row.ratio and row.ratio.nesting for row in section.rows):
            yield doc.Titled(
                shared.title_of(section), (_table(section, analysis), _nesting(section, analysis))
            )


def _table(section: Section, analysis: Analysis) -> doc.Table:
    """Return the percents with what the next unit may show; of several hosts for these, and for such as these."""
    has_several_hosts = len(of_hosts(analysis.sessions)) > 1
    interval = msg("{level} interval", level=analysis.level)
    of_all = msg("hosts like these, {level}", level=analysis.level)
    of_these = doc.Column("these_hosts", msg("these hosts,\n{level}", level=analysis.level))
    columns = (
        shared.PLATFORM,
        doc.Column(
            "percent",
            shared.percent_title(analysis.baseline, of_all if has_several_hosts else interval),
            is_number=True,
        ),
        *(
            (of_these, doc.Column("hosts", msg("hosts"), is_number=True))
            if has_several_hosts
            else ()
        ),
        doc.Column("sessions", msg("sessions"), is_number=True),
        doc.Column("next", msg("next host,\n{level}", level=analysis.level))
        if has_several_hosts
        else doc.Column("next", msg("next session,\n{level}", level=analysis.level)),
    )

    def cells(row: Row) -> Sequence[doc.Inline] | None:
        ratio = row.ratio
        if ratio is None:
            return None
        cells_of_row: list[doc.Inline] = [shared.relative_of(ratio, section)]
        if has_several_hosts:
            cells_of_row += [_of_these(ratio, section), doc.Count(ratio.n_hosts)]
        return [*cells_of_row, doc.Count(ratio.n_sessions), shared.predicted_of(ratio, section)]

    rows = shared.groups(section.points, cells)
    return doc.Table(
        columns,
        rows,
        key=f"sessions {section.name}",
        label=shared.title_of(section),
        style="result",
    )


def _of_these(ratio: RatioOfBlocks, section: Section) -> doc.Inline:
    """Return the interval for the hosts that were measured."""
    if (interval := ratio.of_these_hosts) is None:
        return doc.Nothing()
    low, high = interval.low, interval.high
    if section.share_better != "higher":
        low, high = 1 / high, 1 / low
    share = shared.relative_of(ratio, section)
    return replace(share, low=low, high=high, shows="interval")


def _nesting(section: Section, analysis: Analysis) -> doc.Table:
    """Return how much the logarithms of the ratios vary at each level, and which share of it all that is."""
    units = [unit for unit in _UNITS if any(_level(row, unit) for row in section.rows)]
    columns = [shared.PLATFORM]
    for unit in units:
        columns += [
            doc.Column(
                f"{unit}_sd", msg("SD between\n{units}", units=_UNITS[unit]), is_number=True
            ),
            doc.Column(f"{unit}_share", msg("share of\nvariance"), is_number=True),
            doc.Column(
                f"{unit}_range",
                msg("{level} interval", level=analysis.level),
                room="wide",
                of=f"{unit}_share",
            ),
        ]

    def cells(row: Row) -> Sequence[doc.Inline] | None:
        if row.ratio is None or not row.ratio.nesting:
            return None
        ranges, cells_of_row = _shares(row, section, analysis), list[doc.Inline]()
        for unit in units:
            level = _level(row, unit)
            low, high = ranges.get(unit, (math.nan, math.nan))
            bounds: doc.Inline = doc.Nothing()
            if unit in ranges:
                bounds = doc.Range(doc.Share(low, "whole"), doc.Share(high, "whole"))
            if level:
                cells_of_row += [doc.Share(level.sd), doc.Share(level.share, "whole"), bounds]
            else:
                cells_of_row += [doc.Nothing()] * 3
        return cells_of_row

    rows = shared.groups(section.points, cells)
    label = msg("{title}: variance by level", title=shared.title_of(section))
    return doc.Table(
        tuple(columns), rows, key=f"nesting {section.name}", label=label, style="result"
    )


def _shares(row: Row, section: Section, analysis: Analysis) -> Mapping[str, tuple[float, float]]:
    base = section.point_of(row).baseline
    return shares_in(row, base, analysis.sessions, analysis.rule.confidence) if base else {}


def _level(row: Row, unit: str) -> Nesting | None:
    """Return what a row shows of one level; None where that is part of the one above."""
    return (
        next((nesting for nesting in row.ratio.nesting if nesting.unit == unit), None)
        if row.ratio
        else None
    )


def _plain(analysis: Analysis, changes: Sequence[HostChange]) -> dict[str, Any]:
    """Return the sessions, the facts of the host that changed, and of every primary metric and platform what is
    between."""
    ratios = []
    for section, point, row in every_row(analysis.primary):
        ratio = row.ratio
        if ratio is None:
            continue
        plain = {
            **shared.named(section),
            "levels": dict(point.levels),
            "platform": row.platform.name,
            "hosts": ratio.n_hosts,
            "sessions": ratio.n_sessions,
            "estimate": ratio.estimate,
            "low": ratio.low,
            "high": ratio.high,
            "of_these_hosts": ratio.of_these_hosts,
            "predicted_low": ratio.predicted_low,
            "predicted_high": ratio.predicted_high,
            "nesting": ratio.nesting,
            "shares": _shares(row, section, analysis) if ratio.nesting else {},
        }
        ratios.append(plain)
    return {
        "sessions": analysis.sessions,
        "scope": scope(analysis.sessions),
        "host_changes": changes,
        "ratios": ratios,
    }


VIEW = register_view(
    View(
        "sessions",
        msg("Sessions"),
        msg("Sessions of the run, and what the next one may show."),
        document,
        45,
    )
)
