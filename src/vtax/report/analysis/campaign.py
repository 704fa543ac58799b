"""The campaign that a merged run is of: its hosts by name, those without a result, and a change that was planned.

It stands in the run's provenance, where collecting put it (store.provenance), and is not trusted: an imported run
brings its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from vtax.described import Means
from vtax.foreign_text import clean
from vtax.store.provenance import CAMPAIGN


@dataclass(frozen=True)
class HostRecord:
    """A host of the inventory. sessions: numbers in the merged run. agents: programs that stay on it."""

    host: Annotated[str, Means("its name in the inventory")]
    group: Annotated[str, Means("its group in the inventory; empty without one")] = ""
    sessions: Annotated[tuple[int, ...], Means("its sessions in this run")] = ()
    planned: Annotated[int, Means("sessions that the campaign asks for")] = 0
    agents: Annotated[
        tuple[str, ...], Means("resident programs that use CPU time, such as kubelet")
    ] = ()
    state: Annotated[str, Means("how far the campaign is on it; see campaigns.md")] = ""
    code: Annotated[
        str, Means("why it has no more sessions, as a code; empty without a reason")
    ] = ""
    detail: Annotated[str, Means("the same in words")] = ""

    @property
    def is_missing(self) -> bool:
        """Whether it has fewer sessions than planned."""
        return len(self.sessions) < self.planned


@dataclass(frozen=True)
class PlannedChange:
    """A change that the campaign declared. first: the hosts that change first, the others are controls.

    at, until: Unix time from which sessions are after the change, and from which the controls change too; None: not
    yet. seed: of drawing the first; None where they were named.
    """

    what: str
    first: tuple[str, ...]
    at: float | None = None
    until: float | None = None
    seed: int | None = None


@dataclass(frozen=True)
class CampaignRecord:
    """Campaign of a merged run."""

    name: str
    hosts: tuple[HostRecord, ...]
    change: PlannedChange | None = None

    @property
    def planned_sessions(self) -> int:
        """The sessions that it asks for, of all hosts."""
        return sum(host.planned for host in self.hosts)

    @property
    def missing(self) -> tuple[HostRecord, ...]:
        """Hosts with fewer sessions than planned."""
        return tuple(host for host in self.hosts if host.is_missing)


def campaign_of(provenance: Mapping[str, Any]) -> CampaignRecord | None:
    """Return the campaign of a run; None of one that is of none. provenance: as stored, untrusted."""
    record = provenance.get(CAMPAIGN)
    if not isinstance(record, Mapping):
        return None
    hosts = tuple(_host(host) for host in _list(record.get("hosts")) if isinstance(host, Mapping))
    return CampaignRecord(clean(str(record.get("name", ""))), hosts, _change(record.get("change")))


def _host(record: Mapping[str, Any]) -> HostRecord:
    sessions = tuple(
        session for session in _list(record.get("sessions")) if isinstance(session, int)
    )
    planned_sessions = record.get("planned")
    return HostRecord(
        _text(record, "host"),
        _text(record, "group"),
        sessions,
        planned_sessions if isinstance(planned_sessions, int) else 0,
        _texts(record.get("agents")),
        _text(record, "state"),
        _text(record, "code"),
        _text(record, "detail"),
    )


def _change(record: Any) -> PlannedChange | None:
    if not isinstance(record, Mapping) or not (first := _texts(record.get("first"))):
        return None
    seed = record.get("seed")
    at, until = (
        float(moment) if isinstance(moment, int | float) else None
        for moment in (record.get("at"), record.get("until"))
    )
    return PlannedChange(
        _text(record, "what"), first, at, until, seed if isinstance(seed, int) else None
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(record: Mapping[str, Any], name: str) -> str:
    return clean(str(record.get(name) or ""))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(clean(str(item)) for item in _list(value))
