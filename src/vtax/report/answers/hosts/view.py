"""The hosts of a run of several: what each shows, which are odd and why, which are missing, what a change did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from vtax.described import values_of
from vtax.report import document as doc
from vtax.report.analysis import Analysis, ResultPoint, Row, Section
from vtax.report.analysis.campaign import HostRecord
from vtax.report.analysis.source import Source
from vtax.report.answers.hosts import show_change as host_change
from vtax.report.answers.hosts import show_matrix as host_matrix
from vtax.report.answers.hosts.compute import GroupRatio, HostGroup, group_ratios, groups_of
from vtax.report.answers.hosts.fleet import Fleet, fleet_of
from vtax.report.answers.hosts.host_change import ChangeEffect, ChangeOfHosts
from vtax.report.answers.hosts.odd_hosts import (
    OddHosts,
    fact_with,
    shown_value,
    written_key,
)
from vtax.report.answers.hosts.show_summary import STATES, fleet_answer, plain_answer
from vtax.report.document import first_of, joined, msg
from vtax.report.parts import shared
from vtax.report.views.base import Options, View, register_view

_MAX_ALONE = 8  # facts that hosts alone have
_MOST_FINDINGS = 40
_OfGroups = tuple[Section, list[tuple[ResultPoint, Row, tuple[GroupRatio, ...]]]]
"""A metric and the ratios of its rows in every group."""


def document(source: Source, options: Options) -> doc.Document:
    """Return what hosts show; nothing of a run of one host and no campaign."""
    analysis, fleet = source.whole.analysis, source.of_whole(fleet_of)
    if fleet is None:
        return doc.empty_document(VIEW.title, msg("The run is of one host."), {"hosts": []})
    answer = tuple(fleet_answer(fleet, source.analysis))
    lines = host_matrix.lines_of(source.analysis, fleet)
    groups = groups_of(analysis.sessions)
    ratios = _ratios_of_groups(analysis, groups)
    parts: list[doc.Part] = [
        doc.Titled(msg("Summary"), answer, role="summary"),
        *(
            host_change.part_of(change, effects, analysis, fleet)
            for change, effects in _changes(source, fleet)
        ),
        *_missing(fleet),
        *_odd(_shown_odd(source, fleet), fleet),
        *_state(fleet),
        *host_matrix.matrices(lines, fleet, analysis, options.depth),
        *(host_matrix.strips(lines, fleet, analysis) if options.depth == "report" else ()),
        *_facts(fleet),
        *_groups_apart(analysis, groups, ratios),
    ]
    data = partial(_plain, source, fleet, lines, groups, ratios)
    return doc.Document(VIEW.title, tuple(parts), data=data)


def _shown_odd(source: Source, fleet: Fleet) -> list[OddHosts]:
    only = source.analysis.shown_cells
    return [finding for finding in fleet.odd if only.selects(finding.row.cell.place)]


def _state(fleet: Fleet) -> Iterator[doc.Part]:
    """Yield of which sessions the tables of hosts are, where a change lies between sessions."""
    if fleet.changes:
        text = msg("The tables and figures of hosts are of the sessions before the change.")
        yield doc.Paragraph(text, "muted")


def _changes(source: Source, fleet: Fleet) -> list[tuple[ChangeOfHosts, list[ChangeEffect]]]:
    """Return the changes with the effects on what is shown."""
    only = source.analysis.shown_cells
    changes = []
    for change, effects in fleet.changes:
        changes.append(
            (change, [effect for effect in effects if only.selects(effect.row.cell.place)])
        )
    return changes


def _missing(fleet: Fleet) -> Iterator[doc.Part]:
    """Yield the hosts with fewer sessions than the campaign asks for, each with its reason."""
    if not fleet.campaign or not fleet.campaign.missing:
        return
    columns = (
        doc.Column("host", msg("host")),
        doc.Column("group", msg("group")),
        doc.Column("sessions", msg("sessions"), is_number=True),
        doc.Column("planned", msg("planned"), is_number=True),
        doc.Column("state", msg("state")),
        doc.Column("code", msg("reason")),
        doc.Column("detail", msg("detail"), wraps=True),
    )
    rows = [_missing_row(host, fleet) for host in fleet.campaign.missing]
    table = doc.table_of(
        columns, rows, key="missing-hosts", label=msg("Hosts with missing sessions"), style="list"
    )
    yield doc.Titled(msg("Hosts with missing sessions"), (table,), key="missing-hosts")


def _missing_row(host: HostRecord, fleet: Fleet) -> tuple[doc.Inline, ...]:
    state: doc.Inline = STATES.get(host.state, host.state)
    return (
        fleet.short[host.host],
        host.group,
        doc.Count(len(host.sessions)),
        doc.Count(host.planned),
        state,
        host.code,
        host.detail,
    )


def _odd(findings: Sequence[OddHosts], fleet: Fleet) -> Iterator[doc.Part]:
    """Yield every comparison in which hosts lie apart, the farthest first."""
    if not findings:
        return
    columns = (
        doc.Column("hosts", msg("hosts"), wraps=True),
        shared.PLATFORM,
        doc.Column("metric", msg("metric"), wraps=True),
        doc.Column("share", msg("percent of the\nother hosts"), is_number=True),
        doc.Column("p", msg("p,\nadjusted"), is_number=True),
        doc.Column("facts", msg("only there"), wraps=True),
    )
    rows = [
        (
            shared.few_of(fleet.names(finding.hosts)),
            shared.platform_of(finding.row.platform),
            joined([shared.title_of(finding.section), shared.levels(finding.point)]),
            shared.amount_of(finding.share),
            doc.PValue(finding.apart.p_value),
            _only_there(finding),
        )
        for finding in findings[:_MOST_FINDINGS]
    ]
    table = doc.table_of(
        columns, rows, key="odd-hosts", label=msg("Hosts that lie apart"), style="list"
    )
    note = msg(
        "Every host against hosts of its CPU model or group, by generalized ESD up to a third of them, and every "
        "minority with a fact in common; the baseline by its own performance, other platforms by their ratio to it. "
        "p is adjusted for all of these comparisons. A fact that only these hosts have need not be the cause."
    )
    yield doc.Titled(
        msg("Hosts that lie apart"), (table, doc.Paragraph(note, "muted")), key="odd-hosts"
    )


def _only_there(finding: OddHosts) -> doc.Inline:
    facts = [fact_with(key, value) for key, value in finding.keys]
    return joined(first_of(facts, _MAX_ALONE), "; ") if facts else doc.Nothing()


def _facts(fleet: Fleet) -> Iterator[doc.Part]:
    """Yield the facts that differ between hosts, clustered by value."""
    if not fleet.facts:
        return
    columns = (
        doc.Column("fact", msg("fact")),
        doc.Column("value", msg("value"), wraps=True),
        doc.Column("hosts", msg("hosts"), is_number=True),
        doc.Column("names", msg("names"), wraps=True),
    )
    rows = [
        (
            "" if number else fact.name,
            shown_value(fact.key, value),
            doc.Count(len(names)),
            shared.few_of(fleet.names(names)),
        )
        for fact in fleet.facts
        for number, (value, names) in enumerate(fact.values)
    ]
    table = doc.table_of(
        columns, rows, key="differing-facts", label=msg("Facts that differ"), style="facts"
    )
    yield doc.Titled(msg("Facts that differ between hosts"), (table,), key="differing-facts")


def _plain(
    source: Source,
    fleet: Fleet,
    lines: Sequence[host_matrix.Line],
    groups: Sequence[HostGroup],
    ratios: Sequence[_OfGroups],
) -> dict[str, Any]:
    """Return the same for programs."""
    campaign = fleet.campaign
    return {
        "campaign": campaign.name if campaign else None,
        "answer": plain_answer(fleet, source.analysis),
        "hosts": host_matrix.plain(lines, fleet.hosts),
        "missing": campaign.missing if campaign else [],
        "changes": [
            {**values_of(change), "effects": effects} for change, effects in _changes(source, fleet)
        ],
        "odd": _shown_odd(source, fleet),
        "facts": [
            {
                "fact": written_key(fact.key),
                "values": [{"value": value, "hosts": list(names)} for value, names in fact.values],
            }
            for fact in fleet.facts
        ],
        "groups": groups,
        "ratios_of_groups": _plain_groups(ratios),
    }


def _ratios_of_groups(analysis: Analysis, groups: Sequence[HostGroup]) -> list[_OfGroups]:
    """Return the ratios of every primary metric in every group of alike hosts; none without groups."""
    ratios = []
    for section in analysis.primary if groups else ():
        ratios.append((section, group_ratios(section, groups, analysis.rule.confidence)))
    return ratios


def _groups_apart(
    analysis: Analysis, groups: Sequence[HostGroup], ratios_of_groups: Sequence[_OfGroups]
) -> Iterator[doc.Part]:
    """Yield a table of the ratios in every group for each metric that has some."""
    interval = msg("{level} interval", level=analysis.level)
    columns = (
        shared.PLATFORM,
        doc.Column("cpu_model", msg("CPU"), wraps=True),
        doc.Column("kernel", msg("kernel")),
        doc.Column("hosts", msg("hosts"), is_number=True),
        doc.Column("percent", shared.percent_title(analysis.baseline, interval), is_number=True),
        doc.Column("relative", msg("percent of the\nfirst group"), is_number=True),
        doc.Column("p_value", msg("p that they\nare alike"), is_number=True),
    )
    for section, ratios in ratios_of_groups:
        if not ratios:
            continue
        label = msg("{title}: groups of hosts", title=shared.title_of(section))
        rows = []
        for point, row, of_row in ratios:
            for ratio in of_row:
                cells = _group_cells(groups[ratio.group], ratio, section)
                rows.append((point, row.platform, cells))
        table = doc.Table(
            columns,
            shared.by_point(rows),
            key=f"groups {section.name}",
            label=label,
            style="result",
        )
        yield doc.Titled(label, (table,))


def _group_cells(group: HostGroup, group_ratio: GroupRatio, section: Section) -> list[doc.Inline]:
    ratio, relative = group_ratio.ratio, group_ratio.relative
    return [
        group.cpu_model,
        group.kernel,
        doc.Count(group.hosts),
        shared.relative_of(ratio, section) if ratio else doc.Nothing(),
        shared.relative_of(relative, section) if relative else doc.Nothing(),
        doc.PValue(group_ratio.p_value) if group_ratio.p_value is not None else doc.Nothing(),
    ]


def _plain_groups(ratios_of_groups: Sequence[_OfGroups]) -> list[dict[str, Any]]:
    """List for each platform and primary metric the ratios in every group."""
    groups_as_data: list[dict[str, Any]] = []
    for section, ratios_of_rows in ratios_of_groups:
        for point, row, ratios in ratios_of_rows:
            place = {
                **shared.named(section),
                "levels": dict(point.levels),
                "platform": row.platform.name,
            }
            for of_group in ratios:
                figures = {
                    "group": of_group.group + 1,
                    "ratio": of_group.ratio,
                    "relative": of_group.relative,
                    "p_value": of_group.p_value,
                }
                groups_as_data.append(place | figures)
    return groups_as_data


VIEW = register_view(
    View(
        "hosts",
        msg("Hosts"),
        msg("Each of several hosts: ratios, hosts that lie apart or are missing, a change."),
        document,
        22,
    )
)
