"""The first screen of several hosts: how many there are, what a change did, and which lie apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import stdev
from typing import Any

from vtax.grouping import by_key
from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.campaign import HostRecord
from vtax.report.analysis.values import every_row
from vtax.report.answers.hosts.compute import logs_on, units_on
from vtax.report.answers.hosts.fleet import Fleet
from vtax.report.answers.hosts.host_change import ChangeEffect, ChangeOfHosts
from vtax.report.answers.hosts.odd_hosts import OddHosts, OddSet, fact_with
from vtax.report.document import first_of, in_brackets, joined, listed, msg, plural, styled
from vtax.report.parts import shared
from vtax.report.parts.first_screen import answer_line
from vtax.report.parts.sentences import loss_up_to, sentence_of
from vtax.stats.checks import StatsError

_FAR = 2.0  # times
_MOST_SETS, _MOST_FACTS, _MOST_MISSING, _MOST_EFFECTS = 6, 3, 4, 3
STATES = {
    "new": msg("not asked yet"), "unreachable": msg("unreachable"), "refused": msg("refused"), "busy": msg("busy"),
    "ready": msg("ready"), "running": msg("running"), "waiting": msg("waiting"), "done": msg("measured"),
    "collected": msg("collected"), "failed": msg("failed"), "given-up": msg("given up"), "skipped": msg("skipped"),
    "aborted": msg("aborted"),
}  # fmt: skip


def fleet_answer(fleet: Fleet, analysis: Analysis) -> Iterator[doc.Part]:
    """Yield the first screen of a campaign: what a planned change did, or how many hosts and what the platforms cost;
    then which hosts lie apart.
    """
    for change, effects in fleet.changes:
        sentence = change_sentence(change, effects, analysis)
        if change.is_declared:
            yield doc.Paragraph(styled(sentence, "strong"))
        else:
            yield doc.Paragraph(sentence)
        yield doc.Bullets(tuple(change_lines(change, fleet)))
    yield doc.Bullets(tuple(hosts_lines(fleet)))
    if not fleet.planned_change:
        yield from answer_line(analysis)
        if scatter := tuple(baseline_lines(fleet, analysis)):
            yield doc.Bullets(scatter)
    if lines := tuple(odd_lines(fleet)):
        title = msg("Hosts that lie apart")
        if fleet.changes:
            title = msg("Hosts that lie apart, before the change")
        yield doc.Titled(title, (doc.Bullets(lines),))


def plain_answer(fleet: Fleet, analysis: Analysis) -> dict[str, Any]:
    """Return the first screen for programs, a text for each line."""
    answer = sentence_of(analysis)
    return {
        "changes": [
            change_sentence(change, effects, analysis) for change, effects in fleet.changes
        ],
        "platforms": None if fleet.planned_change or answer == "" else answer,
        "hosts": [*hosts_lines(fleet), *baseline_lines(fleet, analysis)],
        "odd": list(odd_lines(fleet)),
    }


def hosts_lines(fleet: Fleet) -> Iterator[doc.Inline]:
    """Yield how many hosts were measured in how many sessions, and which are missing with their reasons."""
    sessions = sum(len(host.sessions) for host in fleet.hosts)
    if fleet.campaign is None or not fleet.campaign.planned_sessions:
        yield joined(
            [
                plural("{count} host", "{count} hosts", len(fleet.hosts)),
                plural("{count} session", "{count} sessions", sessions),
            ]
        )
    else:
        yield msg(
            "{hosts} of {all_hosts} hosts measured, {sessions} of {all_sessions} sessions",
            hosts=doc.Count(sum(bool(host.sessions) for host in fleet.campaign.hosts)),
            all_hosts=doc.Count(len(fleet.campaign.hosts)),
            sessions=doc.Count(sessions),
            all_sessions=doc.Count(fleet.campaign.planned_sessions),
        )
        if missing_hosts := list(fleet.campaign.missing):
            sentences = [_missing(host, fleet) for host in missing_hosts]
            text = msg("missing: {hosts}", hosts=joined(first_of(sentences, _MOST_MISSING), "; "))
            yield styled(text, "caution")
    if again := [host.name for host in fleet.hosts if len(host.periods) > 1]:
        names = joined(first_of(fleet.names(again), _MOST_MISSING))
        yield msg("installed again between sessions: {hosts}", hosts=names)


def _missing(host: HostRecord, fleet: Fleet) -> doc.Inline:
    """`rack1-node09 (refused: 0.9 GiB free)`; of a host with some sessions how many."""
    state = STATES.get(host.state, host.state)
    count: doc.Inline = ""
    if host.sessions:
        count = msg(
            "{made} of {count} sessions",
            made=doc.Count(len(host.sessions)),
            count=doc.Count(host.planned),
        )
    reason = joined([joined([count, state]), host.detail], ": ")
    return joined([fleet.short[host.host], in_brackets(reason)], " ")


def odd_lines(fleet: Fleet) -> Iterator[doc.Inline]:
    """Yield a line for each set of hosts that lie apart together, the farthest first; else that none does."""
    sets = fleet.odd_sets
    for odd_set in sets[:_MOST_SETS]:
        yield styled(odd_line(odd_set, fleet), "caution")
    if len(sets) > _MOST_SETS:
        yield plural(
            "{count} further set of hosts lies apart",
            "{count} further sets of hosts lie apart",
            len(sets) - _MOST_SETS,
        )
    few = fleet.too_few
    if not sets and len(fleet.hosts_before) > sum(map(len, few)):
        yield msg("No host is shown to lie apart from the others.")
    if few and len(fleet.hosts_before) > 1:
        counts = [
            joined([str(peers[0].facts.get("cpu_model", "")), doc.Count(len(peers))], ": ")
            for peers in few
        ]
        yield msg(
            "Too few hosts of one CPU model to tell whether one lies apart, 5 are needed: {models}",
            models=joined(counts),
        )


def odd_line(odd_set: OddSet, fleet: Fleet) -> doc.Inline:
    """`rack2-node03: 70 % of the other hosts in native; alone with governor powersave`."""
    of_platforms = by_key((finding.platform, finding) for finding in odd_set.findings)
    first, *other_findings = of_platforms.values()
    sentences = [msg("{share} of the other hosts in {platform}", **_apart(first, fleet))]
    sentences += [
        msg("{share} in {platform}", **_apart(findings, fleet)) for findings in other_findings
    ]
    names = shared.few_of(fleet.names(odd_set.hosts))
    return joined([joined([names, joined(sentences)], ": "), _alone(odd_set)], "; ")


def _apart(findings: Sequence[OddHosts], fleet: Fleet) -> dict[str, doc.Inline]:
    """Return `70 %` and `native`, `79 % to 81 %` and `docker / native on iperf3`: a performance, or a ratio."""
    row = findings[0].row
    name: doc.Inline = shared.platform_of(row.platform)
    if not row.platform.is_baseline and (base := findings[0].point.baseline):
        name = joined([name, base.platform.name], " / ")
    shares = [finding.share.estimate for finding in findings]
    low, high = (doc.Relative(share, is_of="amount") for share in (min(shares), max(shares)))
    amount: doc.Inline = low
    if f"{low.estimate:.3f}" != f"{high.estimate:.3f}":
        amount = doc.Range(low, high)
    labels = list(dict.fromkeys(finding.section.label for finding in findings))
    if set(labels) < fleet.labels:
        name = msg("{platforms} on {name}", platforms=name, name=listed(labels))
    return {"share": amount, "platform": name}


def _alone(odd_set: OddSet) -> doc.Inline:
    """`alone with kernel 6.1`: facts that only these hosts have."""
    if not odd_set.keys:
        return ""
    facts = [fact_with(key, value) for key, value in odd_set.keys]
    return msg("alone with {facts}", facts=joined(first_of(facts, _MOST_FACTS)))


def baseline_lines(fleet: Fleet, analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield how the speeds of hosts scatter where the baseline alone was measured."""
    if any(not platform.is_baseline and platform.available for platform in analysis.platforms):
        return
    units = units_on(fleet.hosts_before)
    for section, point, row in every_row(analysis.primary):
        try:
            logs = logs_on(row, None, units).averaged("host", units)
        except StatsError:
            continue
        odd_names = {host for finding in fleet.odd if finding.row is row for host in finding.hosts}
        values = [
            value
            for number, value in zip(logs.units.tolist(), logs.values.tolist(), strict=True)
            if fleet.hosts_before[number].name not in odd_names
        ]
        if len(values) > 1:
            yield msg(
                "{platform} on {benchmark}: {hosts} scatter by {share} (standard deviation)",
                platform=row.platform.name,
                benchmark=joined([shared.title_of(section), shared.levels(point)], " "),
                hosts=plural("{count} host", "{count} hosts", len(values)),
                share=doc.Share(math.expm1(stdev(values))),
            )


def change_sentence(
    change: ChangeOfHosts, effects: Sequence[ChangeEffect], analysis: Analysis
) -> doc.Inline:
    """Return `After kernel 6.6: docker: at least 3.1 % slower; native: no difference found (a slowdown of up to ...).`

    effects: of the change; those on the platforms' own performance are told.
    """
    own_effects = [effect for effect in effects if effect.base is None]
    words = []
    for name, of in groupby(
        sorted(own_effects, key=lambda e: e.platform), key=lambda e: e.platform
    ):
        words.append(
            msg("{platform}: {words}", platform=name, words=_words(list(of), analysis.rule.alpha))
        )
    if not words:
        return msg("{what}: nothing was measured both before and after it", what=change.title)
    return msg("After {what}: {words}.", what=change.title, words=joined(words, "; "))


def _words(effects: Sequence[ChangeEffect], alpha: float) -> doc.Inline:
    """Return what a change did to one platform: what is sure, and the largest loss that is not excluded elsewhere."""
    sure_effects = [effect for effect in effects if effect.p_adjusted <= alpha]
    sure_effects.sort(key=lambda effect: (effect.section.metric.role == "cost", effect.p_adjusted))
    parts = [_word(effect, len(effects)) for effect in sure_effects[:_MOST_EFFECTS]]
    if len(sure_effects) > _MOST_EFFECTS:
        parts.append(
            plural(
                "{count} further effect",
                "{count} further effects",
                len(sure_effects) - _MOST_EFFECTS,
            )
        )
    unsure_effects = [effect for effect in effects if effect.p_adjusted > alpha]
    if unsure_effects:
        word = msg("no difference found elsewhere") if sure_effects else msg("no difference found")
        parts.append(joined([word, _not_excluded(unsure_effects)], " "))
    return joined(parts)


def _word(effect: ChangeEffect, count: int) -> doc.Inline:
    """`at least 3.1 % slower on nginx`. count: effects on the platform."""
    section, share = effect.section, shared.relative_of(effect.effect, effect.section)
    performance = effect.effect.efficiency(section.better).estimate
    kind = "slower" if performance < 1 else "faster"
    text = shared.bound_of(kind, (effect.at_once or effect.effect).loss(section.better), section)
    if text == "":
        is_percent = share.is_of != "time" and 1 / _FAR <= performance <= _FAR  # else it says so
        text = msg("{share} of what it was", share=share) if is_percent else share
    if section.metric.role == "cost":
        text = joined([text, shared.metric_of(section)], " ")
    if count == 1:
        return text
    place = joined([section.label, shared.levels(effect.point)], " ")
    return msg("{word} on {place}", word=text, place=place)


def _not_excluded(effects: Sequence[ChangeEffect]) -> doc.Inline:
    """Return `(a slowdown of up to 1.2 % cannot be excluded)`, the largest of effects; empty where one has no bound."""
    losses = []
    for effect in effects:
        if effect.section.metric.role == "speed":
            loss = (effect.at_once or effect.effect).loss(effect.section.better)
            losses.append(math.inf if loss.at_most is None else loss.at_most)
    largest_loss = max(losses, default=math.inf)
    if not 0 < largest_loss < math.inf:
        return ""
    bound = loss_up_to(largest_loss, is_cost=False)
    return in_brackets(msg("{bounds} cannot be excluded", bounds=bound))


def change_lines(change: ChangeOfHosts, fleet: Fleet) -> Iterator[doc.Inline]:
    """Yield on how many hosts a change was measured, against how many, and which are not."""
    if change.controls:
        yield plural(
            "measured before and after on {count} of {planned} changed host, against {controls} that did not change",
            "measured before and after on {count} of {planned} changed hosts, against {controls} that did not change",
            len(change.changed),
            planned=doc.Count(change.planned),
            controls=doc.Count(len(change.controls)),
        )
    else:
        yield plural(
            "measured before and after on {count} of {planned} host: whatever else changed meanwhile is in the difference",
            "measured before and after on {count} of {planned} hosts: whatever else changed meanwhile is in the difference",
            len(change.changed),
            planned=doc.Count(change.planned),
        )
    yield from exceptions(change, fleet)


def exceptions(change: ChangeOfHosts, fleet: Fleet) -> Iterator[doc.Inline]:
    """Yield which hosts have no session after a change, and whose facts say something else of it."""
    for text, hosts in (
        (msg("no session after the change"), change.lost),
        (msg("facts say otherwise"), change.unlike),
    ):
        if hosts:
            yield styled(joined([text, shared.few_of(fleet.names(hosts))], ": "), "caution")
