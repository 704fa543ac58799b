"""The hosts of a run of several: what each shows, which are odd and why, which are missing, what a change did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vtax.report import document as doc
from vtax.report.analysis.campaign import HostRecord
from vtax.report.analysis.source import Source
from vtax.report.answers.hosts import show_change as host_change
from vtax.report.answers.hosts import show_groups as host_groups
from vtax.report.answers.hosts import show_matrix as host_matrix
from vtax.report.answers.hosts.compute import groups_of
from vtax.report.answers.hosts.fleet import Fleet, fleet_of
from vtax.report.answers.hosts.host_change import ChangeEffect, ChangeOfHosts
from vtax.report.answers.hosts.odd_hosts import OddHosts, fact_with, shown_value
from vtax.report.answers.hosts.show_summary import STATES, fleet_answer, plain_answer
from vtax.report.document import first_of, joined, msg
from vtax.report.parts import shared
from vtax.report.views.base import Options, View, register_view

_MAX_ALONE = 8  # facts that hosts alone have
_MOST_FINDINGS = 40


def document(source: Source, options: Options) -> doc.Document:
    """Return what hosts show; nothing of a run of one host and no campaign."""
    analysis, fleet = source.whole.analysis, source.of_whole(fleet_of)
    if fleet is None:
        nothing = msg("The run is of one host.")
        return doc.Document(
            VIEW.title, (doc.Paragraph(nothing),), data={"hosts": []}, nothing=nothing
        )
    answer = tuple(fleet_answer(fleet, source.analysis))
    lines = host_matrix.lines_of(source.analysis, fleet)
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
        *host_matrix.strips(lines, fleet, analysis),
        *_facts(fleet),
        *host_groups.groups_apart(analysis),
    ]
    return doc.Document(VIEW.title, tuple(parts), data=_plain(source, fleet, lines))


def _shown_odd(source: Source, fleet: Fleet) -> list[OddHosts]:
    only = source.analysis.shown_cells
    return [each for each in fleet.odd if only.selects(each.row.cell.place)]


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
        changes.append((change, [each for each in effects if only.selects(each.row.cell.place)]))
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
    rows = tuple(doc.TableRow(_missing_row(host, fleet)) for host in fleet.campaign.missing)
    table = doc.Table(
        columns,
        (doc.Group(rows),),
        key="missing-hosts",
        label=msg("Hosts with missing sessions"),
        style="list",
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


def _odd(odd: Sequence[OddHosts], fleet: Fleet) -> Iterator[doc.Part]:
    """Yield every comparison in which hosts lie apart, the farthest first."""
    if not odd:
        return
    columns = (
        doc.Column("hosts", msg("hosts"), wraps=True),
        shared.PLATFORM,
        doc.Column("metric", msg("metric"), wraps=True),
        doc.Column("share", msg("percent of the\nother hosts"), is_number=True),
        doc.Column("p", msg("p,\nadjusted"), is_number=True),
        doc.Column("facts", msg("only there"), wraps=True),
    )
    rows = tuple(
        doc.TableRow(
            (
                shared.few_of(fleet.names(each.hosts)),
                shared.platform_of(each.row.platform),
                joined([shared.title_of(each.section), shared.levels(each.point)]),
                _share(each),
                doc.PValue(each.apart.p_value),
                _only_there(each),
            )
        )
        for each in odd[:_MOST_FINDINGS]
    )
    table = doc.Table(
        columns,
        (doc.Group(rows),),
        key="odd-hosts",
        label=msg("Hosts that lie apart"),
        style="list",
    )
    note = msg(
        "Every host against hosts of its CPU model or group, by generalized ESD up to a third of them, and every "
        "minority with a fact in common; the baseline by its own performance, other platforms by their ratio to it. "
        "p is adjusted for all of these comparisons. A fact that only these hosts have need not be the cause."
    )
    yield doc.Titled(
        msg("Hosts that lie apart"), (table, doc.Paragraph(note, "muted")), key="odd-hosts"
    )


def _share(each: OddHosts) -> doc.Relative:
    share = each.share
    return doc.Relative(share.estimate, share.low, share.high, is_of="amount")


def _only_there(each: OddHosts) -> doc.Inline:
    facts = [fact_with(key, value) for key, value in each.keys]
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
    rows = tuple(
        doc.TableRow(
            (
                "" if number else fact.name,
                shown_value(fact.key, value),
                doc.Count(len(names)),
                shared.few_of(fleet.names(names)),
            )
        )
        for fact in fleet.facts
        for number, (value, names) in enumerate(fact.values)
    )
    table = doc.Table(
        columns,
        (doc.Group(rows),),
        key="differing-facts",
        label=msg("Facts that differ"),
        style="facts",
    )
    yield doc.Titled(msg("Facts that differ between hosts"), (table,), key="differing-facts")


def _plain(source: Source, fleet: Fleet, lines: Sequence[host_matrix.Line]) -> dict[str, Any]:
    """Return the same for programs."""
    campaign, analysis = fleet.campaign, source.whole.analysis
    return {
        "campaign": campaign.name if campaign else None,
        "answer": plain_answer(fleet, source.analysis),
        "hosts": host_matrix.plain(lines, fleet.hosts),
        "missing": campaign.missing if campaign else [],
        "changes": [
            host_change.plain(change, effects) for change, effects in _changes(source, fleet)
        ],
        "odd": _shown_odd(source, fleet),
        "facts": [
            {
                "fact": ".".join(filter(None, fact.key)),
                "values": [{"value": value, "hosts": list(names)} for value, names in fact.values],
            }
            for fact in fleet.facts
        ],
        "groups": groups_of(analysis.sessions),
        "ratios_of_groups": host_groups.plain_groups(analysis),
    }


VIEW = register_view(
    View(
        "hosts",
        msg("Hosts"),
        msg("Each of several hosts: ratios, hosts that lie apart or are missing, a change."),
        document,
        22,
    )
)
