"""The hosts of a run of several: what each shows, which are odd and why, which are missing, what a change did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.campaign import CampaignRecord, HostRecord, campaign_of
from vtax.report.analysis.host_change import ChangeEffect, ChangeOfHosts, changes_of, effects_of
from vtax.report.analysis.hosts import MeasuredHost, groups_of, hosts_of
from vtax.report.analysis.odd_hosts import (
    DifferingFact,
    OddHosts,
    differing_facts,
    fact_with,
    odd_hosts,
    shown_value,
)
from vtax.report.analysis.source import Source
from vtax.report.document import first_of, joined, msg, plural, styled
from vtax.report.parts import host_change, host_groups, host_matrix, shared
from vtax.report.parts.host_matrix import Line
from vtax.report.views.base import Options, View, register_view

_MAX_ODD, _MAX_FACTS = 5, 3  # of the summary
_MAX_ALONE = 8  # facts that hosts alone have
_MOST_HOSTS = {"brief": 24, "report": 100}
_MOST_FINDINGS = 40


@dataclass(frozen=True)
class _Found:
    """All that is shown."""

    hosts: tuple[MeasuredHost, ...]
    campaign: CampaignRecord | None
    lines: tuple[Line, ...]
    facts: tuple[DifferingFact, ...]
    odd: tuple[OddHosts, ...]
    changes: tuple[tuple[ChangeOfHosts, tuple[ChangeEffect, ...]], ...]


def document(source: Source, options: Options) -> doc.Document:
    """Return what hosts show; nothing of a run of one host and no campaign."""
    analysis, only = source.whole.analysis, source.analysis.shown_cells
    hosts, campaign = hosts_of(analysis), campaign_of(analysis.provenance)
    if len(hosts) < 2 and campaign is None:
        nothing = msg("The run is of one host.")
        return doc.Document(
            VIEW.title, (doc.Paragraph(nothing),), data={"hosts": []}, nothing=nothing
        )
    facts = differing_facts(hosts)
    changes = [
        (change, effects_of(analysis, hosts, change)) for change in changes_of(analysis, hosts)
    ]
    found = _Found(
        hosts,
        campaign,
        tuple(host_matrix.lines_of(source.analysis, hosts)),
        facts,
        tuple(
            each for each in odd_hosts(analysis, hosts, facts) if only.selects(each.row.cell.place)
        ),
        tuple(
            (change, tuple(each for each in of if only.selects(each.row.cell.place)))
            for change, of in changes
        ),
    )
    parts: list[doc.Part] = [
        doc.Titled(
            msg("Summary"), (doc.Bullets(tuple(_summary(found, analysis))),), role="summary"
        ),
        *_missing(found),
        *(host_change.part_of(change, effects, analysis) for change, effects in found.changes),
        *host_matrix.matrices(found.lines, hosts, analysis, _MOST_HOSTS.get(options.depth)),
        *host_matrix.forest(found.lines, hosts, analysis),
        *_odd(found),
        *_facts(found),
        *host_groups.groups_apart(analysis),
    ]
    return doc.Document(VIEW.title, tuple(parts), data=_plain(found, analysis))


def _summary(found: _Found, analysis: Analysis) -> Iterator[doc.Inline]:
    sessions = plural("{count} session", "{count} sessions", len(analysis.sessions))
    yield joined([plural("{count} host", "{count} hosts", len(found.hosts)), sessions])
    for change, effects in found.changes:
        yield from host_change.summary_of(change, effects, analysis.rule.alpha)
    if found.campaign and (
        none := [host.host for host in found.campaign.missing if not host.sessions]
    ):
        text = plural("{count} host has no result", "{count} hosts have no result", len(none))
        yield styled(joined([text, shared.few_of(none)], ": "), "caution")
    for each in found.odd[:_MAX_ODD]:
        yield msg(
            "{hosts}: {place}: {share} of the other hosts ({p}){facts}",
            hosts=shared.few_of(each.hosts),
            place=_place(each),
            share=_share(each),
            p=doc.PValue(each.apart.p_value, is_named=True),
            facts=_alone(each),
        )
    if len(found.odd) > _MAX_ODD:
        yield plural(
            "{count} further difference", "{count} further differences", len(found.odd) - _MAX_ODD
        )
    if len(found.hosts) > 3 and not found.odd:
        yield msg("No host is shown to lie apart from the others.")


def _alone(each: OddHosts) -> doc.Inline:
    """`; alone with kernel 6.1`: facts that only these hosts have."""
    if not each.keys:
        return ""
    facts = joined(first_of([fact_with(key, value) for key, value in each.keys], _MAX_FACTS))
    return msg("; alone with {facts}", facts=facts)


def _place(each: OddHosts) -> doc.Inline:
    what = msg("performance") if each.row.platform.is_baseline else msg("ratio to the baseline")
    parts = [
        shared.platform_of(each.row.platform),
        shared.title_of(each.section),
        shared.levels(each.point),
        what,
    ]
    return joined(parts)


def _share(each: OddHosts) -> doc.Relative:
    found = each.apart.efficiency(each.section.better)
    return doc.Relative(found.estimate, found.low, found.high)


_STATES = {
    "new": msg("not asked yet"), "unreachable": msg("unreachable"), "refused": msg("refused"), "busy": msg("busy"),
    "ready": msg("ready"), "running": msg("running"), "waiting": msg("waiting"), "done": msg("measured"),
    "collected": msg("collected"), "failed": msg("failed"), "given-up": msg("given up"), "skipped": msg("skipped"),
    "aborted": msg("aborted"),
}  # fmt: skip


def _missing(found: _Found) -> Iterator[doc.Part]:
    """Yield the hosts with fewer sessions than the campaign asks for, each with its reason."""
    if not found.campaign or not found.campaign.missing:
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
    rows = tuple(doc.TableRow(_missing_row(host)) for host in found.campaign.missing)
    table = doc.Table(
        columns,
        (doc.Group(rows),),
        key="missing-hosts",
        label=msg("Hosts with missing sessions"),
        style="facts",
    )
    yield doc.Titled(msg("Hosts with missing sessions"), (table,), key="missing-hosts")


def _missing_row(host: HostRecord) -> tuple[doc.Inline, ...]:
    state: doc.Inline = _STATES.get(host.state, host.state)
    return (
        host.host,
        host.group,
        doc.Count(len(host.sessions)),
        doc.Count(host.planned),
        state,
        host.code,
        host.detail,
    )


def _odd(found: _Found) -> Iterator[doc.Part]:
    if not found.odd:
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
                shared.few_of(each.hosts),
                shared.platform_of(each.row.platform),
                joined([shared.title_of(each.section), shared.levels(each.point)]),
                _share(each),
                doc.PValue(each.apart.p_value),
                _only_there(each),
            )
        )
        for each in found.odd[:_MOST_FINDINGS]
    )
    table = doc.Table(
        columns,
        (doc.Group(rows),),
        key="odd-hosts",
        label=msg("Hosts that lie apart"),
        style="list",
    )
    note = msg(
        "Every host against all others, and every minority with a fact in common; the baseline by its own "
        "performance, other platforms by their ratio to it. p is adjusted for all of these comparisons (Holm). A "
        "fact that only these hosts have need not be the cause."
    )
    yield doc.Titled(
        msg("Hosts that lie apart"), (table, doc.Paragraph(note, "muted")), key="odd-hosts"
    )


def _only_there(each: OddHosts) -> doc.Inline:
    facts = [fact_with(key, value) for key, value in each.keys]
    return joined(first_of(facts, _MAX_ALONE), "; ") if facts else doc.Nothing()


def _facts(found: _Found) -> Iterator[doc.Part]:
    """Yield the facts that differ between hosts, clustered by value."""
    if not found.facts:
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
                shared.few_of(names),
            )
        )
        for fact in found.facts
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


def _plain(found: _Found, analysis: Analysis) -> dict[str, Any]:
    """Return the same for programs."""
    campaign = found.campaign
    return {
        "campaign": campaign.name if campaign else None,
        "hosts": host_matrix.plain(found.lines, found.hosts),
        "missing": campaign.missing if campaign else [],
        "changes": [host_change.plain(change, effects) for change, effects in found.changes],
        "odd": found.odd,
        "facts": [
            {
                "fact": ".".join(filter(None, fact.key)),
                "values": [{"value": value, "hosts": list(names)} for value, names in fact.values],
            }
            for fact in found.facts
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
