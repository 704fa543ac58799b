"""Hosts of a run: their names, what each shows, groups of alike ones, and whether the ratios of the groups differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from vtax.described import Means
from vtax.grouping import by_key
from vtax.pairing import Logs, Units, pair_rows
from vtax.report.analysis.campaign import campaign_of
from vtax.report.analysis.sessions import (
    MeasuredSession,
    blocks_of,
    logs_in,
    of_hosts,
    ratio_in,
)
from vtax.report.analysis.values import Analysis, ResultPoint, Row, Section, every_row
from vtax.stats.checks import StatsError
from vtax.stats.ratio import Ratio, block_contrast
from vtax.stats.sessions import unpaired_over_sessions
from vtax.stats.verdict import holm
from vtax.store.hosts import MACHINE_ID

_ID_DIGITS = 8  # of the identity of a host, in place of a name
_UNKNOWN = "unknown"


@dataclass(frozen=True)
class MeasuredHost:
    """A host that has a session. sessions: in order. agents: resident programs, where a campaign says them."""

    name: Annotated[
        str,
        Means(
            "its name in the inventory of a campaign, else eight digits of its identity, or `unknown`",
            name="host",
        ),
    ]
    sessions: tuple[MeasuredSession, ...]
    group: Annotated[str, Means("its group in the inventory; empty without one")] = ""
    agents: tuple[str, ...] = ()

    @property
    def numbers(self) -> Annotated[tuple[int, ...], Means("its sessions", name="sessions")]:
        """As people count them."""
        return tuple(session.number for session in self.sessions)

    @property
    def periods(
        self,
    ) -> Annotated[
        tuple[tuple[int, ...], ...],
        Means("the same by machine-id: a second period begins where it was installed again"),
    ]:
        """The sessions of each machine-id that it had, in order."""
        periods: list[list[int]] = []
        for number, session in enumerate(self.sessions):
            machine = session.host.get(MACHINE_ID)
            if number == 0 or machine != self.sessions[number - 1].host.get(MACHINE_ID):
                periods.append([])
            periods[-1].append(session.number)
        return tuple(map(tuple, periods))

    @property
    def blocks(self) -> list[int]:
        """The blocks that were measured on it."""
        return blocks_of(self.sessions)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts of its last session."""
        return self.sessions[-1].host


@dataclass(frozen=True)
class HostGroup:
    """Hosts of one CPU model and kernel. sessions: on them, in order."""

    cpu_model: Annotated[str, Means("CPU of its hosts; empty when it is not known")]
    kernel: Annotated[str, Means("kernel of its hosts; empty when it is not known")]
    sessions: tuple[MeasuredSession, ...]

    @property
    def numbers(self) -> Annotated[tuple[int, ...], Means("its sessions", name="sessions")]:
        """As people count them."""
        return tuple(session.number for session in self.sessions)

    @property
    def hosts(self) -> Annotated[int, Means("how many hosts")]:
        """Those that are not known count as one."""
        return len(of_hosts(self.sessions))


@dataclass(frozen=True)
class GroupRatio:
    """A row's ratio to the baseline in one group of hosts, and how it compares with the first group's.

    relative: the ratio of the two ratios, over hosts, or over sessions where a group has one host.
    """

    group: int
    ratio: Annotated[
        Ratio | None, Means("ratio to the baseline over the group's hosts; null without one")
    ]
    relative: Annotated[
        Ratio | None, Means("how many times the first group's; null with one session on a side")
    ]
    p_value: Annotated[
        float | None, Means("that the two groups are alike, Holm-adjusted over the metric")
    ] = None


def hosts_of(analysis: Analysis) -> tuple[MeasuredHost, ...]:
    """Return the hosts that a run was measured on, by name; those that are not known are one.

    The second host of a name, which is other hardware, is `NAME (2)`.
    """
    campaign = campaign_of(analysis.provenance)
    known_sessions = (
        {number: host for host in campaign.hosts for number in host.sessions} if campaign else {}
    )
    hosts = []
    times: Counter[str] = Counter()
    for identity, sessions in of_hosts(analysis.sessions).items():
        sessions_in_order = tuple(
            sorted(sessions, key=lambda session: (session.started_at, session.number))
        )
        record = known_sessions.get(sessions_in_order[0].number)
        name = record.host if record else identity[:_ID_DIGITS] or _UNKNOWN
        times[name] += 1
        if times[name] > 1:
            name = f"{name} ({times[name]})"
        if record:
            hosts.append(MeasuredHost(name, sessions_in_order, record.group, record.agents))
        else:
            hosts.append(MeasuredHost(name, sessions_in_order))
    return tuple(sorted(hosts, key=lambda host: host.name))


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return how hosts are shown: their names without the domain that all of them have, such as `.dc1.example.net`.

    names: in full, with the number of a host behind them or not. A suffix without a letter is none, such as the last
    byte of an address.
    """
    parts = {name: name.partition(" ")[0].split(".") for name in names}
    shared = 0
    if len(parts) > 1:
        most_parts = min(len(labels) for labels in parts.values()) - 1
        while shared < most_parts and len({labels[-shared - 1] for labels in parts.values()}) == 1:
            shared += 1
    suffix = next(iter(parts.values()))[-shared:] if shared else []
    if not any(letter.isalpha() for letter in "".join(suffix)):
        shared = 0
    short = {}
    for name, labels in parts.items():
        _, space, number = name.partition(" ")
        short[name] = ".".join(labels[: len(labels) - shared]) + space + number
    return short


def units_on(hosts: Sequence[MeasuredHost]) -> Units:
    """Return of every block that was measured on some hosts the place of its host among them, and its session."""
    return {
        block: (number, session.number)
        for number, host in enumerate(hosts)
        for session in host.sessions
        for block in session.blocks
    }


def logs_on(row: Row, base: Row | None, units: Units) -> Logs:
    """Return what a row shows in blocks on some hosts: ratios to its baseline, or its own values where that is None.

    Raises StatsError for values that have no logarithm.
    """
    own_means = row.means_of_blocks
    if base is None:
        return Logs(own_means.blocks, block_contrast(own_means)).only(units)
    return pair_rows(own_means, base.means_of_blocks, units).known()


def groups_of(sessions: Sequence[MeasuredSession]) -> tuple[HostGroup, ...]:
    """Return the groups of hosts that sessions were measured on; none where all are alike or of one host.

    Nor where a host became one of another group: it cannot be compared with itself as if it were two.
    """
    if len(of_hosts(sessions)) < 2:
        return ()
    sessions_by_group = by_key(
        ((str(session.host.get("cpu_model", "")), session.kernel), session) for session in sessions
    )
    if len(sessions_by_group) < 2 or sum(
        len(of_hosts(of)) for of in sessions_by_group.values()
    ) > len(of_hosts(sessions)):
        return ()
    return tuple(
        HostGroup(cpu, kernel, tuple(of)) for (cpu, kernel), of in sessions_by_group.items()
    )


def group_ratios(
    section: Section, groups: Sequence[HostGroup], confidence: float
) -> list[tuple[ResultPoint, Row, tuple[GroupRatio, ...]]]:
    """Return the ratios of every row in every group of hosts; p-values are of one family."""
    ratios = []
    for _, point, row in every_row([section]):
        base = point.baseline
        if base is not None and row is not base and row.summary is not None:
            ratios.append((point, row, _ratios(row, base, groups, confidence)))
    ratios_to_test = [group.relative for *_, of_row in ratios for group in of_row if group.relative]
    adjusted = iter(holm([relative.p_value for relative in ratios_to_test]).tolist())
    judged_ratios = []
    for point, row, of_row in ratios:
        for number, group in enumerate(of_row):
            if group.relative:
                of_row[number] = replace(group, p_value=next(adjusted))
        judged_ratios.append((point, row, tuple(of_row)))
    return judged_ratios


def _ratios(
    row: Row, base: Row, groups: Sequence[HostGroup], confidence: float
) -> list[GroupRatio]:
    ratios = []
    for number, group in enumerate(groups):
        ratio = ratio_in(row, base, group.sessions, confidence)
        relative = _relative(row, base, groups[0], group, confidence) if number and ratio else None
        ratios.append(GroupRatio(number, ratio, relative))
    return ratios


def _relative(
    row: Row, base: Row, first: HostGroup, group: HostGroup, confidence: float
) -> Ratio | None:
    """Return how many times the first group's ratio a group's is; None with one session on a side."""
    try:
        sides = [logs_in(row, base, group_of_hosts.sessions) for group_of_hosts in (group, first)]
        return unpaired_over_sessions(sides[0], sides[1], confidence)
    except StatsError:
        return None
