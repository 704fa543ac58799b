"""All that a run of several hosts says of them: what its first screen and the view of hosts are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vtax.report.analysis.campaign import CampaignRecord, campaign_of
from vtax.report.analysis.values import Analysis
from vtax.report.answers.hosts.compute import MeasuredHost, hosts_of, short_names
from vtax.report.answers.hosts.host_change import (
    ChangeEffect,
    ChangeOfHosts,
    changes_of,
    effects_of,
)
from vtax.report.answers.hosts.odd_hosts import (
    DifferingFact,
    OddHosts,
    OddSet,
    differing_facts,
    odd_hosts,
    odd_sets,
    peers_of,
)
from vtax.stats.odd_hosts import FEWEST_HOSTS


@dataclass(frozen=True)
class Fleet:
    """The hosts of a run.

    hosts: that were measured.
    hosts_before: the same with their sessions before the first change alone, which are of one state.
    campaign: that they are of; None of a run that was merged by hand.
    short: name of a host, measured or missing -> as it is shown.
    facts: that differ between them.
    odd: that lie apart, in one row each.
    changes: of hosts, each with its effects.
    labels: the benchmark tables of primary metrics.
    """

    hosts: tuple[MeasuredHost, ...]
    hosts_before: tuple[MeasuredHost, ...]
    campaign: CampaignRecord | None
    short: Mapping[str, str]
    facts: tuple[DifferingFact, ...]
    odd: tuple[OddHosts, ...]
    changes: tuple[tuple[ChangeOfHosts, tuple[ChangeEffect, ...]], ...]
    labels: frozenset[str]

    @property
    def odd_sets(self) -> tuple[OddSet, ...]:
        """Hosts that lie apart together, the farthest first."""
        return odd_sets(self.odd, self.hosts_before)

    @property
    def too_few(self) -> tuple[tuple[MeasuredHost, ...], ...]:
        """Hosts of one CPU model that are too few to tell whether one of them lies apart."""
        return tuple(peers for peers in peers_of(self.hosts_before) if len(peers) < FEWEST_HOSTS)

    @property
    def planned_change(self) -> bool:
        """Whether the campaign carried out a change that it had planned, so that its sessions are of two states."""
        return any(change.is_declared for change, _ in self.changes)

    def names(self, hosts: Sequence[str]) -> list[str]:
        """Return hosts as they are shown."""
        return [self.short.get(name, name) for name in hosts]


def fleet_of(analysis: Analysis) -> Fleet | None:
    """Return the hosts of a whole run; None of a run of one host and no campaign."""
    hosts, campaign = hosts_of(analysis), campaign_of(analysis.provenance)
    if len(hosts) < 2 and campaign is None:
        return None
    missing_hosts = [host.host for host in campaign.missing] if campaign else []
    changes = []
    for change in changes_of(analysis, hosts):
        changes.append((change, effects_of(analysis, hosts, change)))
    hosts_before = _before(hosts, changes[0][0]) if changes else hosts
    return Fleet(
        hosts,
        hosts_before,
        campaign,
        short_names([*(host.name for host in hosts), *missing_hosts]),
        differing_facts(hosts),
        odd_hosts(analysis, hosts_before),
        tuple(changes),
        frozenset(section.label for section in analysis.primary),
    )


def _before(hosts: Sequence[MeasuredHost], change: ChangeOfHosts) -> tuple[MeasuredHost, ...]:
    """Return the hosts that were measured before a change, with these sessions alone."""
    sessions_before = frozenset(change.before)
    of_hosts = []
    for host in hosts:
        sessions = tuple(session for session in host.sessions if session.number in sessions_before)
        if sessions:
            of_hosts.append(replace(host, sessions=sessions))
    return tuple(of_hosts)
