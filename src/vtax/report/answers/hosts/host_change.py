"""A change of hosts in a run of several: which changed, when, and what that did, against hosts that did not.

A campaign declares it (`[change]`): then it is known which hosts were to change, and whether they were drawn. Else it
is found: a kernel, a hypervisor, a microcode that became another on some hosts between two of their sessions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import median
from typing import Annotated

from vtax.described import BESIDE, Means
from vtax.levels import Levels
from vtax.pairing import Logs, Units, pair
from vtax.report import document as doc
from vtax.report.analysis.campaign import PlannedChange, campaign_of
from vtax.report.analysis.values import Analysis, OfSection, ResultPoint, Row, Section, every_row
from vtax.report.answers.hosts.compute import MeasuredHost, logs_on, units_on
from vtax.report.answers.hosts.odd_hosts import Key, flat_facts, name_of, written_key
from vtax.report.document import joined
from vtax.stats.checks import StatsError
from vtax.stats.host_change import Effect, effect_of_change
from vtax.stats.verdict import holm
from vtax.store.records import LEVELS

_FOUND = (
    "kernel",
    "kernel_version",
    "cpu_microcode",
    "hypervisor",
    "platform_versions",
    "mitigations",
    "kernel_options",
    "frequency_governor",
    "distribution",
    "agents",
)
"""Facts whose change is offered as a change of hosts, the most telling first."""
_MIN_HOSTS, _MOST = 2, 3
Switch = tuple[int, str, str]
"""Position of the first session after a change among those of its host, the value before, the value after."""


@dataclass(frozen=True)
class FactChange:
    """A fact that became another. changed, controls: how many of either."""

    key: Key
    before: Annotated[str, Means("its value before, on most hosts that changed")]
    after: Annotated[str, Means("its value after, on most of them")]
    changed: Annotated[int, Means("hosts that were to change, and on which it did")]
    controls: Annotated[int, Means("hosts that were not to change, and on which it did")]

    @property
    def fact(self) -> Annotated[str, Means("fact of the host")]:
        """For programs."""
        return written_key(self.key)


@dataclass(frozen=True)
class ChangeOfHosts:
    """Which hosts changed, and the sessions before and after that.

    facts: that became others on hosts that changed. unlike: hosts that were to change and show no such fact, and
    controls that show one. overlap: whether hosts changed so far apart that the windows of some overlap.
    """

    what: Annotated[str, Means("what changed, as declared; empty of one that was found")]
    is_declared: Annotated[
        bool, Means("whether the campaign declared it, rather than the facts of hosts")
    ]
    is_random: Annotated[bool, Means("whether the hosts that changed were drawn")]
    changed: Annotated[tuple[str, ...], Means("hosts that changed")]
    controls: Annotated[tuple[str, ...], Means("hosts that did not, in the same two windows")]
    before: Annotated[tuple[int, ...], Means("sessions before it")]
    after: Annotated[tuple[int, ...], Means("sessions after it")]
    lost: Annotated[tuple[str, ...], Means("hosts with sessions before it and none after")] = ()
    unlike: Annotated[tuple[str, ...], Means("hosts whose facts say otherwise")] = ()
    facts: Annotated[tuple[FactChange, ...], Means("facts of hosts that changed")] = ()
    overlap: bool = False
    planned: Annotated[
        int, Means("hosts that were to change; of a change that was found, that did")
    ] = 0

    @property
    def title(self) -> doc.Inline:
        """`kernel`, `kernel and mitigations`: what was declared, else the first facts that changed."""
        return self.what or joined([name_of(fact.key) for fact in self.facts[:2]])


@dataclass(frozen=True)
class ChangeEffect(OfSection):
    """Effect of a change on one row. base: whose ratio to it changed; None: the platform's own performance.

    alone, of_controls: after / before of either side of hosts for itself.
    at_once: with an interval that holds for all effects of the metric at once (Bonferroni).
    shifts: log(after / before) of each host that changed, and of each control.
    """

    section: Section
    point: ResultPoint
    row: Row
    base: Row | None
    effect: Annotated[Effect, BESIDE]
    alone: Annotated[Effect, Means("after / before of the hosts that changed")]
    of_controls: Annotated[Effect | None, Means("after / before of the controls; null without any")]
    shifts: tuple[tuple[float, ...], tuple[float, ...]]
    p_adjusted: Annotated[float, Means("p-value, Holm-adjusted over the metric")] = 1.0
    at_once: Effect | None = None

    @property
    def platform(self) -> Annotated[str, Means("platform")]:
        """Its name."""
        return self.row.platform.name

    @property
    def levels(self) -> Annotated[Levels, LEVELS]:
        """The levels of its point."""
        return self.point.levels

    @property
    def baseline(
        self,
    ) -> Annotated[str, Means("platform whose ratio to it changed; empty: its own performance")]:
        """Its name."""
        return self.base.platform.name if self.base else ""


def changes_of(analysis: Analysis, hosts: Sequence[MeasuredHost]) -> tuple[ChangeOfHosts, ...]:
    """Return the change that the campaign declared and carried out, else those that facts of hosts show."""
    if len(hosts) < _MIN_HOSTS:
        return ()
    switches = _switches(hosts)
    campaign = campaign_of(analysis.provenance)
    if campaign is not None and campaign.change is not None:
        changes = _declared(campaign.change, hosts, switches)
        return (changes,) if changes else ()
    return tuple(_found(hosts, switches))


def effects_of(
    analysis: Analysis, hosts: Sequence[MeasuredHost], change: ChangeOfHosts
) -> tuple[ChangeEffect, ...]:
    """Return what it did to every platform's own performance and to its ratio to the baseline, in what answers."""
    of_sections: dict[str, list[ChangeEffect]] = defaultdict(list)
    units, confidence = units_on(hosts), analysis.rule.confidence
    names = [host.name for host in hosts]
    blocks = [_blocks_of(change.after, units), _blocks_of(change.before, units)]
    for section, point, row in every_row(analysis.answered):
        for base in (None, point.baseline):
            if row.summary is None or row is base or (base is not None and base.summary is None):
                continue
            with suppress(StatsError):
                logs = logs_on(row, base, units)
                sides = [logs.only(blocks_of_side) for blocks_of_side in blocks]
                shifts = _shifts(sides[0], sides[1], names, units)
                changed, controls = (
                    [shifts[name] for name in side if name in shifts]
                    for side in (change.changed, change.controls)
                )
                effect = ChangeEffect(
                    section,
                    point,
                    row,
                    base,
                    effect_of_change(changed, controls, confidence),
                    effect_of_change(changed, [], confidence),
                    effect_of_change(controls, [], confidence) if controls else None,
                    (tuple(changed), tuple(controls)),
                )
                of_sections[section.name].append(effect)
    return tuple(
        effect for of in of_sections.values() for effect in _adjusted(of, analysis.rule.alpha)
    )


def _adjusted(effects: Sequence[ChangeEffect], alpha: float) -> Iterator[ChangeEffect]:
    p_values = holm([effect.effect.p_value for effect in effects]).tolist()
    confidence = 1 - alpha / len(effects)
    for effect, p_value in zip(effects, p_values, strict=True):
        at_once = effect_of_change(*effect.shifts, confidence)
        yield replace(effect, p_adjusted=p_value, at_once=at_once)


def _blocks_of(sessions: Collection[int], units: Units) -> list[int]:
    """Return the blocks of some sessions."""
    wanted = frozenset(sessions)
    return [block for block, (_, session) in units.items() if session in wanted]


def _shifts(after: Logs, before: Logs, names: Sequence[str], units: Units) -> dict[str, float]:
    """Name of a host -> log(after / before), of every host that has both."""
    after, before = pair(after, before, "host", units)
    shifts = (after.values - before.values).tolist()
    return {names[host]: shift for host, shift in zip(after.units.tolist(), shifts, strict=True)}


def _switches(hosts: Sequence[MeasuredHost]) -> dict[Key, dict[str, Switch]]:
    """Fact -> host -> where it became another, of facts that did so once on a host."""
    switches: dict[Key, dict[str, Switch]] = defaultdict(dict)
    for host in hosts:
        facts = [flat_facts(session.host, host.agents) for session in host.sessions]
        for key in {key for host_facts in facts for key in host_facts if key[0] in _FOUND}:
            values = [host_facts.get(key, "") for host_facts in facts]
            at = next((n for n, value in enumerate(values) if value != values[0]), 0)
            if at and len(set(values[at:])) == 1:
                switches[key][host.name] = (at, values[0], values[-1])
    return dict(
        sorted(
            switches.items(),
            key=lambda key_and_switches: (
                _FOUND.index(key_and_switches[0][0]),
                key_and_switches[0],
            ),
        )
    )


def _found(
    hosts: Sequence[MeasuredHost], switches: Mapping[Key, Mapping[str, Switch]]
) -> Iterator[ChangeOfHosts]:
    """Yield a change for each set of hosts on which facts became others together."""
    keys_by_hosts: dict[frozenset[tuple[str, int]], list[Key]] = defaultdict(list)
    for key, of in switches.items():
        keys_by_hosts[frozenset((name, at) for name, (at, _, _) in of.items())].append(key)
    sets = [(dict(at), keys) for at, keys in keys_by_hosts.items() if len(at) >= _MIN_HOSTS]
    for at, keys in sorted(sets, key=lambda hosts_and_keys: -len(hosts_and_keys[0]))[:_MOST]:
        yield _of_switches(hosts, at, [_fact(key, switches[key], frozenset(at)) for key in keys])


def _of_switches(
    hosts: Sequence[MeasuredHost], at: Mapping[str, int], facts: Sequence[FactChange]
) -> ChangeOfHosts:
    """Return the change of hosts that changed at these positions; the others are split at the median of the
    moments."""
    before, after, ends, begins = set[int](), set[int](), list[float](), list[float]()
    for host in hosts:
        if (split := at.get(host.name)) is not None:
            before |= {*host.numbers[:split]}
            after |= {*host.numbers[split:]}
            ends.append(host.sessions[split - 1].started_at)
            begins.append(host.sessions[split].started_at)
    moment = median((end + begin) / 2 for end, begin in zip(ends, begins, strict=True))
    other_hosts = [host for host in hosts if host.name not in at]
    for session in (session for host in other_hosts for session in host.sessions):
        (after if session.started_at >= moment else before).add(session.number)
    controls = tuple(
        host.name for host in other_hosts if {*host.numbers} & before and {*host.numbers} & after
    )
    return ChangeOfHosts(
        "",
        is_declared=False,
        is_random=False,
        changed=tuple(host.name for host in hosts if host.name in at),
        controls=controls,
        before=tuple(sorted(before)),
        after=tuple(sorted(after)),
        facts=tuple(facts),
        overlap=max(ends) > min(begins),
        planned=len(at),
    )


def _declared(
    change: PlannedChange,
    hosts: Sequence[MeasuredHost],
    switches: Mapping[Key, Mapping[str, Switch]],
) -> ChangeOfHosts | None:
    """Return the change that was declared, from when it was; None where it was not carried out yet."""
    if change.at is None:
        return None
    sessions = [session for host in hosts for session in host.sessions]
    if change.until is not None:
        sessions = [session for session in sessions if session.started_at < change.until]
    before = {session.number for session in sessions if session.started_at < change.at}
    after = {session.number for session in sessions} - before
    names = [host.name for host in hosts]
    first = frozenset(change.first)
    started = {host.name for host in hosts if before.intersection(host.numbers)}
    ended = {host.name for host in hosts if after.intersection(host.numbers)}
    hosts_with_both = started & ended
    facts = []
    with_fact: set[str] = set()
    for key, hosts_of in switches.items():
        fact = _fact(key, hosts_of, first)
        if 2 * fact.changed > len(first & hosts_with_both):
            facts.append(fact)
            with_fact.update(hosts_of)
    unlike = with_fact ^ first if facts else frozenset()
    return ChangeOfHosts(
        change.what,
        is_declared=True,
        is_random=change.seed is not None,
        changed=tuple(name for name in names if name in hosts_with_both & first),
        controls=tuple(name for name in names if name in hosts_with_both - first),
        before=tuple(sorted(before)),
        after=tuple(sorted(after)),
        lost=tuple(name for name in names if name in started - hosts_with_both),
        unlike=tuple(name for name in names if name in hosts_with_both & unlike),
        facts=tuple(facts),
        planned=len(first),
    )


def _fact(key: Key, of: Mapping[str, Switch], changed: frozenset[str]) -> FactChange:
    """How a fact changed on hosts that changed, and how often on others."""
    pairs = [(before, after) for name, (_, before, after) in of.items() if name in changed] or [
        ("", "")
    ]
    before, after = max(sorted(set(pairs)), key=pairs.count)
    inside = sum(name in changed for name in of)
    return FactChange(key, before, after, inside, len(of) - inside)
