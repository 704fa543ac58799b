"""The sessions of a run: when each was, in which boot, what changed on the host, and what the next one may show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from vtax.report.analysis import Analysis, Row, Section, every_row
from vtax.report.analysis.hosts import GroupRatio, HostGroup, group_ratios, groups_of
from vtax.report.analysis.sessions import HostChange, MeasuredSession, host_changes, of_hosts, ratio_in, scope
from vtax.report.analysis.source import Source
from vtax.report.document import (
    Column,
    Count,
    Document,
    Group,
    Inline,
    Moment,
    Nothing,
    Paragraph,
    Part,
    PValue,
    Relative,
    Share,
    Table,
    msg,
)
from vtax.report.document import Row as TableRow
from vtax.report.document import Section as Titled
from vtax.report.parts import shared
from vtax.report.views.base import Options, View
from vtax.report.views.host import fact
from vtax.stats.checks import Better
from vtax.stats.ratio import Nesting
from vtax.stats.ratio import Ratio as RatioOfBlocks

_BOOT_SHOWN = 8  # digits
_UNITS: Mapping[str, Inline] = {"host": msg("hosts"), "session": msg("sessions"), "block": msg("blocks")}


def document(source: Source, _: Options) -> Document:
    """Return the sessions, the changes of the host between them, and a table for every primary metric."""
    analysis = source.analysis
    text, changes = scope(analysis.sessions), host_changes(analysis.sessions)
    if not analysis.sessions:
        nothing = msg("Nothing was measured.")
        return Document(VIEW.title, (Paragraph(nothing),), data=_plain(analysis, changes), nothing=nothing)
    parts: list[Part] = [_sessions(analysis.sessions), Paragraph(text, "muted")]
    parts += changes_part(changes)
    parts += _ratios(analysis)
    parts += _hosts_apart(analysis)
    parts += _groups_apart(analysis)
    return Document(VIEW.title, tuple(parts), data=_plain(analysis, changes))


def _sessions(sessions: Sequence[MeasuredSession]) -> Table:
    columns = (
        Column("session", msg("session"), is_number=True),
        Column("started", msg("started")),
        Column("boot", msg("boot")),
        Column("kernel", msg("kernel")),
        Column("blocks", msg("blocks"), is_number=True),
    )
    rows = tuple(
        TableRow(
            (
                Count(each.number), Moment(each.started_at), each.boot_id[:_BOOT_SHOWN] or Nothing(),
                str(each.host.get("kernel", "")), Count(len(each.blocks)),
            )
        )
        for each in sessions
    )  # fmt: skip
    return Table(columns, (Group(rows),), key="sessions", label=msg("Sessions"), style="facts")


def changes_part(changes: Sequence[HostChange]) -> list[Part]:
    """Return a section of the facts of the host that differ between sessions; none without any."""
    if not changes:
        return []
    columns = (
        Column("fact", msg("fact")),
        *(
            Column(f"session_{number}", msg("session {number}", number=Count(number)), wraps=True)
            for number in range(1, len(changes[0].values) + 1)
        ),
    )
    rows = tuple(
        TableRow((change.name, *(Nothing() if value is None else fact("", value) for value in change.values)))
        for change in changes
    )
    table = Table(columns, (Group(rows),), key="host-changes", label=msg("Changes of the host"), style="facts")
    return [Titled(msg("Changes of the host between sessions"), (table,), key="host-changes")]


def _ratios(analysis: Analysis) -> Iterator[Part]:
    for section in analysis.primary:
        if any(row.ratio and row.ratio.nesting for row in section.rows):
            yield Titled(shared.title_of(section), (_table(section, analysis), _nesting(section)))


def _table(section: Section, analysis: Analysis) -> Table:
    """Return the percents with what the next unit may show; of several hosts for these, and for such as these."""
    several = len(of_hosts(analysis.sessions)) > 1
    interval = msg("{level} interval", level=analysis.level)
    of_all = msg("hosts like these, {level}", level=analysis.level)
    of_these = Column("these_hosts", msg("these hosts,\n{level}", level=analysis.level))
    columns = (
        shared.PLATFORM,
        Column("percent", shared.percent_title(analysis.baseline, of_all if several else interval), is_number=True),
        *((of_these, Column("hosts", msg("hosts"), is_number=True)) if several else ()),
        Column("sessions", msg("sessions"), is_number=True),
        Column("next", msg("next host,\n{level}", level=analysis.level)) if several else
        Column("next", msg("next session,\n{level}", level=analysis.level)),
    )  # fmt: skip

    def cells(row: Row) -> Sequence[Inline] | None:
        ratio = row.ratio
        if ratio is None:
            return None
        shown: list[Inline] = [shared.relative_of(ratio, section.better)]
        if several:
            shown += [_of_these(ratio, section), Count(ratio.n_hosts)]
        return [*shown, Count(ratio.n_sessions), shared.predicted_of(ratio, section.better)]

    rows = shared.groups(section.points, cells)
    return Table(columns, rows, key=f"sessions {section.name}", label=shared.title_of(section), style="result")


def _of_these(ratio: RatioOfBlocks, section: Section) -> Inline:
    """Return the interval for the hosts that were measured."""
    if (these := ratio.of_these_hosts) is None:
        return Nothing()
    low, high = (these.low, these.high) if section.better == "higher" else (1 / these.high, 1 / these.low)
    share = shared.relative_of(ratio, section.better)
    return Relative(share.estimate, low, high, shows="interval")


def _nesting(section: Section) -> Table:
    """Return how much the logarithms of the ratios vary at each level, and which share of it all that is."""
    units = [unit for unit in _UNITS if any(_level(row, unit) for row in section.rows)]
    columns = [shared.PLATFORM]
    for unit in units:
        columns += [
            Column(f"{unit}_sd", msg("SD between\n{units}", units=_UNITS[unit]), is_number=True),
            Column(f"{unit}_share", msg("share of\nvariance"), is_number=True),
        ]

    def cells(row: Row) -> Sequence[Inline] | None:
        if row.ratio is None or not row.ratio.nesting:
            return None
        found = [_level(row, unit) for unit in units]
        shown = [(Share(each.sd), Share(each.share, "whole")) if each else (Nothing(), Nothing()) for each in found]
        return [cell for pair in shown for cell in pair]

    rows = shared.groups(section.points, cells)
    label = msg("{title}: variance by level", title=shared.title_of(section))
    return Table(tuple(columns), rows, key=f"nesting {section.name}", label=label, style="result")


def _level(row: Row, unit: str) -> Nesting | None:
    """Return what a row shows of one level; None where that is part of the one above."""
    return next((each for each in row.ratio.nesting if each.unit == unit), None) if row.ratio else None


def _hosts_apart(analysis: Analysis) -> Iterator[Part]:
    """Yield the ratios of every host for itself, where the sessions are of several."""
    hosts = of_hosts(analysis.sessions)
    if len(hosts) < 2:
        return
    columns = (
        shared.PLATFORM,
        *(
            Column(f"host_{number}", msg("sessions {numbers}", numbers=_numbers(sessions)), is_number=True)
            for number, sessions in enumerate(hosts.values(), start=1)
        ),
    )
    for section in analysis.primary:

        def cells(row: Row, section: Section = section) -> Sequence[Inline] | None:
            found = _ratios_of_hosts(row, section, analysis)
            if not any(found):
                return None
            return [shared.relative_of(each, section.better) if each else Nothing() for each in found]

        rows = shared.groups(section.points, cells)
        if not rows:
            continue
        label = msg(
            "{title}: percent of {baseline} on each host", title=shared.title_of(section), baseline=analysis.baseline
        )
        table = Table(columns, rows, key=f"hosts {section.name}", label=label, style="result")
        yield Titled(label, (table,))


def _groups_apart(analysis: Analysis) -> Iterator[Part]:
    """Yield the ratios of every group of alike hosts, where there are several groups."""
    groups = groups_of(analysis.sessions)
    if not groups:
        return
    interval = msg("{level} interval", level=analysis.level)
    columns = (
        shared.PLATFORM,
        Column("cpu_model", msg("CPU"), wraps=True),
        Column("kernel", msg("kernel")),
        Column("hosts", msg("hosts"), is_number=True),
        Column("percent", shared.percent_title(analysis.baseline, interval), is_number=True),
        Column("relative", msg("percent of the\nfirst group"), is_number=True),
        Column("p_value", msg("p that they\nare alike"), is_number=True),
    )
    for section in analysis.primary:
        found = group_ratios(section, groups, analysis.rule.confidence)
        if not found:
            continue
        label = msg("{title}: groups of hosts", title=shared.title_of(section))
        rows = tuple(
            Group(
                tuple(
                    TableRow(
                        (shared.platform_of(row.platform), *_group_cells(groups[each.group], each, section.better))
                    )
                    for _, row, of_row in of_point
                    for each in of_row
                ),
                shared.levels(of_point[0][0]),
            )
            for of_point in (list(each) for _, each in groupby(found, key=lambda each: each[0].key))
        )
        table = Table(columns, rows, key=f"groups {section.name}", label=label, style="result")
        yield Titled(label, (table,))


def _group_cells(group: HostGroup, found: GroupRatio, better: Better) -> list[Inline]:
    ratio, relative = found.ratio, found.relative
    return [
        group.cpu_model, group.kernel, Count(group.hosts),
        shared.relative_of(ratio, better) if ratio else Nothing(),
        shared.relative_of(relative, better) if relative else Nothing(),
        PValue(found.p_value) if found.p_value is not None else Nothing(),
    ]  # fmt: skip


def _ratios_of_hosts(row: Row, section: Section, analysis: Analysis) -> list[RatioOfBlocks | None]:
    """Return the ratio of a row on each host, in the order of their first sessions."""
    base = section.point_of(row).baseline
    hosts = of_hosts(analysis.sessions).values()
    if base is None or base is row:
        return [None for _ in hosts]
    return [ratio_in(row, base, sessions, analysis.rule.confidence) for sessions in hosts]


def _numbers(sessions: Sequence[MeasuredSession]) -> str:
    return ", ".join(str(each.number) for each in sessions)


def _plain_hosts(analysis: Analysis) -> list[dict[str, Any]]:
    """Of every host: its sessions, and the ratios over them alone; nothing of a single host."""
    hosts = of_hosts(analysis.sessions)
    if len(hosts) < 2:
        return []
    return [
        {
            "host": machine, "sessions": [each.number for each in sessions],
            "ratios": [
                {
                    **shared.named(section), "levels": dict(point.levels), "platform": row.platform.name,
                    "estimate": ratio.estimate, "low": ratio.low, "high": ratio.high, "blocks": ratio.n_blocks,
                    "sessions": ratio.n_sessions,
                }
                for section, point, row in every_row(analysis.primary)
                if (ratio := _ratios_of_hosts(row, section, analysis)[number])
            ],
        }
        for number, (machine, sessions) in enumerate(hosts.items())
    ]  # fmt: skip


def _plain_groups(analysis: Analysis) -> list[dict[str, Any]]:
    """Of every platform and primary metric the ratios in every group; nothing where all hosts are alike."""
    groups = groups_of(analysis.sessions)
    return [
        {
            **shared.named(section), "levels": dict(point.levels), "platform": row.platform.name,
            "group": each.group + 1, "ratio": each.ratio, "relative": each.relative, "p_value": each.p_value,
        }
        for section in (analysis.primary if groups else ())
        for point, row, of_row in group_ratios(section, groups, analysis.rule.confidence)
        for each in of_row
    ]  # fmt: skip


def plain_changes(changes: Sequence[HostChange]) -> list[dict[str, Any]]:
    """Facts of the host that differ, with the value of each session."""
    return [{"fact": change.name, "values": list(change.values)} for change in changes]


def _plain(analysis: Analysis, changes: Sequence[HostChange]) -> dict[str, Any]:
    """Return the sessions, the facts of the host that changed, and of every primary metric and platform what is
    between."""
    return {
        "sessions": analysis.sessions,
        "scope": scope(analysis.sessions),
        "host_changes": plain_changes(changes),
        "hosts": _plain_hosts(analysis),
        "groups": groups_of(analysis.sessions),
        "ratios_of_groups": _plain_groups(analysis),
        "ratios": [
            {
                **shared.named(section), "levels": dict(point.levels), "platform": row.platform.name,
                "hosts": row.ratio.n_hosts, "sessions": row.ratio.n_sessions, "estimate": row.ratio.estimate,
                "low": row.ratio.low, "high": row.ratio.high, "of_these_hosts": row.ratio.of_these_hosts,
                "predicted_low": row.ratio.predicted_low, "predicted_high": row.ratio.predicted_high,
                "nesting": row.ratio.nesting,
            }
            for section, point, row in every_row(analysis.primary)
            if row.ratio is not None
        ],
    }  # fmt: skip


VIEW = View("sessions", msg("Sessions"), msg("Sessions of the run, and what the next one may show."), document, 45)
