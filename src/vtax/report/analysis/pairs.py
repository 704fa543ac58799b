"""Pairs of hosts that a run was measured on: who measured with whom, and what each shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from vtax.described import Means
from vtax.report.analysis.campaign import campaign_of
from vtax.report.analysis.hosts import ID_DIGITS, MeasuredHost
from vtax.report.analysis.sessions import MeasuredSession
from vtax.report.analysis.values import Analysis
from vtax.store.hosts import host_id, peer_id


@dataclass(frozen=True)
class MeasuredPair:
    """A host that measured with another one. sessions: in order."""

    host: Annotated[str, Means("the host that measured, as in `hosts`")]
    peer: Annotated[str, Means("the other one")]
    sessions: tuple[MeasuredSession, ...]

    @property
    def numbers(self) -> Annotated[tuple[int, ...], Means("its sessions", name="sessions")]:
        """As people count them."""
        return tuple(session.number for session in self.sessions)


def pairs_of(analysis: Analysis, hosts: Sequence[MeasuredHost]) -> tuple[MeasuredPair, ...]:
    """Return the pairs of a run, by name; none where a session is of no pair. hosts: of the run."""
    campaign = campaign_of(analysis.provenance)
    names = (
        {host.identity: host.host for host in campaign.hosts if host.identity} if campaign else {}
    )
    names |= {host_id(host.facts): host.name for host in hosts}
    found: dict[tuple[str, str], list[MeasuredSession]] = {}
    for host in hosts:
        for session in host.sessions:
            if not (peer := peer_id(session.host)):
                return ()
            found.setdefault((host.name, names.get(peer, peer[:ID_DIGITS])), []).append(session)
    return tuple(MeasuredPair(*ends, tuple(of)) for ends, of in sorted(found.items()))
