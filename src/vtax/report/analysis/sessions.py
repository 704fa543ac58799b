"""The sessions of a run: which blocks each has, what the host was in it, and what differs between them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from vtax.described import Means
from vtax.grouping import by_key
from vtax.pairing import pair_rows
from vtax.report import document as doc
from vtax.report.analysis.campaign import campaign_of
from vtax.report.analysis.facts import fact_name, facts_of
from vtax.report.document import joined, msg
from vtax.stats.checks import StatsError, Values
from vtax.stats.level_shares import share_intervals
from vtax.stats.means import grouped
from vtax.stats.ratio import Ratio
from vtax.stats.sessions import Units, ratio_over_sessions
from vtax.store.hosts import HARDWARE_ID, host_id
from vtax.store.provenance import versions_of
from vtax.store.query import RunData
from vtax.store.records import SessionRecord

if TYPE_CHECKING:
    from vtax.report.analysis.values import Row

VERSIONS = "platform_versions"
"""The fact of a host in a merged run that maps platforms to the versions of their runtimes."""
_MOMENTS = frozenset({"measured_at", "peers"})  # of a host, not what it is


@dataclass(frozen=True)
class MeasuredSession:
    """A session that has a trial.

    blocks: their numbers from 0, ascending.
    host: see store.records.
    machine: identity of its host in this run, see `machines_of`; empty where it is not known.
    """

    number: Annotated[int, Means("number, from 1")]
    boot_id: Annotated[str, Means("boot of the host's kernel; empty when it is not known")]
    host: Mapping[str, Any]
    started_at: Annotated[float, Means("start of the session", name="started", is_time=True)]
    blocks: tuple[int, ...]
    machine: str = ""

    @property
    def numbers(self) -> Annotated[tuple[int, ...], Means("its blocks, from 1", name="blocks")]:
        """Its blocks as people count them."""
        return tuple(block + 1 for block in self.blocks)

    @property
    def kernel(self) -> Annotated[str, Means("kernel of the host when it started")]:
        """Empty when it is not known."""
        return str(self.host.get("kernel", ""))


@dataclass(frozen=True)
class HostChange:
    """A fact of the host that is not the same in all sessions. values: of each, in their order."""

    name: Annotated[doc.Inline, Means("fact of the host", name="fact")]
    values: Annotated[tuple[Any, ...], Means("its value in each session")]


def units_of_blocks(data: RunData) -> Units:
    """Return the host and the session of every block, by its first trial."""
    blocks, _, counts = grouped(data.trials.block)
    first = np.cumsum(counts) - counts
    if (np.diff(data.trials.block) < 0).any():
        blocks, first = np.unique(data.trials.block, return_index=True)
    numbers = data.trials.session[first].tolist()
    machines = machines_of(data.run.sessions, data.run.provenance)
    hosts = {number: _numbered(machine) for number, machine in machines.items()}
    labels = np.array([(hosts[number], number) for number in numbers], np.int64)
    return Units(blocks.astype(np.int64), labels.reshape(-1, 2))


def units_of(sessions: Sequence[MeasuredSession]) -> Units:
    """Return the same of blocks of these sessions."""
    blocks: list[int] = []
    labels: list[tuple[int, int]] = []
    for session in sessions:
        blocks += session.blocks
        labels += [(_numbered(session.machine), session.number)] * len(session.blocks)
    order = np.argsort(np.array(blocks, np.int64), kind="stable")
    return Units(
        np.array(blocks, np.int64)[order], np.array(labels, np.int64).reshape(-1, 2)[order]
    )


def _numbered(machine: str) -> int:
    """Return a number that tells hosts apart, the same in every run; 0 of one that is not known."""
    return int(hashlib.sha256(machine.encode()).hexdigest()[:12], 16) if machine else 0


def machines_of(sessions: Sequence[SessionRecord], provenance: Mapping[str, Any]) -> dict[int, str]:
    """Return of every session the identity of its host; empty where it is not known.

    In a campaign a host is its name in the inventory, whatever its machine-id, so that it stays the same host when it
    is installed again. Hardware of which one name alone was measured tells two hosts of that name apart. Without a
    campaign it is machine-id and hardware together.

    sessions: of the run, measured or not.
    provenance: of the run, as stored.
    """
    campaign = campaign_of(provenance)
    names: dict[int, str] = {}
    for host in campaign.hosts if campaign else ():
        names.update(dict.fromkeys(host.sessions, host.host))
    owners: dict[str, set[str]] = {}
    for session in sessions:
        if session.number in names:
            hardware = str(session.host.get(HARDWARE_ID, ""))
            owners.setdefault(hardware, set()).add(names[session.number])
    names_of_hardware: dict[str, set[str]] = {}
    for hardware, host_names in owners.items():
        if hardware and len(host_names) == 1:
            names_of_hardware.setdefault(min(host_names), set()).add(hardware)
    machines = {}
    for session in sessions:
        name = names.get(session.number, "")
        hardware = str(session.host.get(HARDWARE_ID, ""))
        if not name:
            machines[session.number] = host_id(session.host)
        elif len(names_of_hardware.get(name, ())) > 1 and hardware in names_of_hardware[name]:
            machines[session.number] = f"{name} {hardware}"
        else:
            machines[session.number] = name
    return machines


def measured_sessions(data: RunData) -> tuple[MeasuredSession, ...]:
    """Return the sessions of a run that have a trial of a block."""
    blocks_by_session: dict[int, list[int]] = {}
    units = units_of_blocks(data)
    for block, (_, number) in zip(units.blocks.tolist(), units.labels.tolist(), strict=True):
        blocks_by_session.setdefault(number, []).extend([block] if block >= 0 else [])
    versions, measured = versions_of(data.run.provenance), []
    machines = machines_of(data.run.sessions, data.run.provenance)
    for session in data.run.sessions:
        if blocks := tuple(blocks_by_session.get(session.number, ())):
            host = dict(facts_of(session.host))
            if recorded := versions.get(session.number):
                host[VERSIONS] = recorded
            measured.append(
                MeasuredSession(
                    session.number,
                    session.boot_id,
                    host,
                    session.started_at,
                    blocks,
                    machines[session.number],
                )
            )
    return tuple(measured)


def boots(sessions: Sequence[MeasuredSession]) -> int | None:
    """In how many boots of the host they ran; None when that of one is not known."""
    boots_of_sessions = [
        [facts.get("boot_id", "") for facts in session.host.get("boots", {}).values()]
        for session in sessions
    ]
    boot_ids = {
        boot
        for session, ids in zip(sessions, boots_of_sessions, strict=True)
        for boot in (ids or [session.boot_id])
    }
    return None if "" in boot_ids else len(boot_ids)


def blocks_of(sessions: Iterable[MeasuredSession]) -> list[int]:
    """Return the blocks of sessions."""
    return [block for session in sessions for block in session.blocks]


def of_hosts(sessions: Sequence[MeasuredSession]) -> dict[str, list[MeasuredSession]]:
    """Identity of a host -> its sessions, in order; those of hosts that are not known together."""
    return by_key((session.machine, session) for session in sessions)


def logs_in(row: Row, base: Row, sessions: Sequence[MeasuredSession]) -> tuple[Values, Values]:
    """(log-ratio, host and session) of every block that both rows have in these sessions. Raises StatsError."""
    units = units_of(sessions)
    logs = pair_rows(row.means_of_blocks, base.means_of_blocks, units.blocks)
    return logs.values, units.of(logs.units)


def ratio_in(
    row: Row, base: Row, sessions: Sequence[MeasuredSession], confidence: float
) -> Ratio | None:
    """Return the ratio of a row to its baseline over some sessions, such as one host's; None without a block."""
    try:
        return ratio_over_sessions(*logs_in(row, base, sessions), confidence)
    except StatsError:
        return None


def shares_in(
    row: Row, base: Row, sessions: Sequence[MeasuredSession], confidence: float
) -> Mapping[str, tuple[float, float]]:
    """Map each unit of a level to the bounds of its share of the variance of the ratios; see stats.level_shares."""
    try:
        logs, labels = logs_in(row, base, sessions)
    except StatsError:
        return {}
    return share_intervals(np.asarray(logs), np.asarray(labels), confidence)


def host_changes(sessions: Sequence[MeasuredSession]) -> tuple[HostChange, ...]:
    """Facts of the host that differ between sessions; of one that has fields, each field that does."""
    return tuple(_changes([_by_boot(session.host) for session in sessions]))


def _by_boot(host: Mapping[str, Any]) -> Mapping[str, Any]:
    """Facts of a host; of one with several boots in a session the facts of each, by its name."""
    if not host.get("boots"):
        return host
    return {
        boot: {name: value for name, value in facts.items() if name != "boot_id"}
        for boot, facts in host["boots"].items()
    }


def _changes(hosts: Sequence[Mapping[str, Any]]) -> Iterator[HostChange]:
    for fact in sorted({name for host in hosts for name in host} - _MOMENTS):
        values = [host.get(fact) for host in hosts]
        if all(value == values[0] for value in values):
            continue
        fields = sorted(
            {str(name) for value in values if isinstance(value, Mapping) for name in value}
        )
        if not fields:
            yield HostChange(fact_name(fact), tuple(values))
        for field in fields:
            field_values = tuple(
                value.get(field) if isinstance(value, Mapping) else None for value in values
            )
            if any(value != field_values[0] for value in field_values):
                yield HostChange(joined([fact_name(fact), field], ": "), field_values)


def scope(sessions: Sequence[MeasuredSession]) -> doc.Inline:
    """Return one sentence: what intervals over these sessions contain, and what they leave out; empty without any."""
    if not sessions:
        return ""
    if len(sessions) == 1:
        return msg("measured in one session; results may differ after a reboot")
    count, of_boots = doc.Count(len(sessions)), boots(sessions)
    if (hosts := len(of_hosts(sessions))) > 1:
        return msg(
            "{sessions} sessions on {hosts} hosts: intervals are over hosts, and hold for hosts like these",
            sessions=count,
            hosts=doc.Count(hosts),
        )
    if names := list(
        dict.fromkeys(name for session in sessions for name in session.host.get("boots", {}))
    ):
        return msg(
            "{sessions} sessions, each in boots of its own ({names}): intervals contain what a reboot changes",
            sessions=count,
            names=", ".join(names),
        )
    if of_boots == 1:
        return msg(
            "{sessions} sessions in one boot of the host: results may differ after a reboot",
            sessions=count,
        )
    if of_boots is None:
        return msg("{sessions} sessions: intervals are over sessions", sessions=count)
    return msg(
        "{sessions} sessions in {boots} boots of the host: intervals are over sessions",
        sessions=count,
        boots=doc.Count(of_boots),
    )
