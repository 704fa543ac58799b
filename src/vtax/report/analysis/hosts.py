"""Hosts of a run: groups of alike ones, and whether the ratios of the groups differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from vtax.described import Means
from vtax.report.analysis.sessions import MeasuredSession, logs_in, of_hosts, ratio_in
from vtax.report.analysis.values import ResultPoint, Row, Section
from vtax.stats.checks import StatsError
from vtax.stats.ratio import Ratio
from vtax.stats.sessions import unpaired_over_sessions
from vtax.stats.verdict import holm


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
    ratio: Annotated[Ratio | None, Means("ratio to the baseline over the group's hosts; null without one")]
    relative: Annotated[Ratio | None, Means("how many times the first group's; null with one session on a side")]
    p_value: Annotated[float | None, Means("that the two groups are alike, Holm-adjusted over the metric")] = None


def groups_of(sessions: Sequence[MeasuredSession]) -> tuple[HostGroup, ...]:
    """Return the groups of hosts that sessions were measured on; none where all are alike or of one host."""
    if len(of_hosts(sessions)) < 2:
        return ()
    found: dict[tuple[str, str], list[MeasuredSession]] = {}
    for session in sessions:
        found.setdefault((str(session.host.get("cpu_model", "")), session.kernel), []).append(session)
    if len(found) < 2:
        return ()
    return tuple(HostGroup(cpu, kernel, tuple(of)) for (cpu, kernel), of in found.items())


def group_ratios(
    section: Section, groups: Sequence[HostGroup], confidence: float
) -> list[tuple[ResultPoint, Row, tuple[GroupRatio, ...]]]:
    """Return the ratios of every row in every group of hosts; p-values are of one family."""
    found = [
        (point, row, tuple(_ratios(row, point.baseline, groups, confidence)))
        for point in section.points
        for row in point.rows
        if point.baseline is not None and row is not point.baseline and row.summary is not None
    ]
    tested = [each for _, _, of_row in found for each in of_row if each.relative is not None]
    adjusted = iter(holm([each.relative.p_value for each in tested if each.relative is not None]).tolist())
    return [
        (point, row, tuple(replace(each, p_value=next(adjusted)) if each.relative else each for each in of_row))
        for point, row, of_row in found
    ]


def _ratios(row: Row, base: Row, groups: Sequence[HostGroup], confidence: float) -> list[GroupRatio]:
    found = []
    for number, group in enumerate(groups):
        ratio = ratio_in(row, base, group.sessions, confidence)
        relative = _relative(row, base, groups[0], group, confidence) if number and ratio else None
        found.append(GroupRatio(number, ratio, relative))
    return found


def _relative(row: Row, base: Row, first: HostGroup, group: HostGroup, confidence: float) -> Ratio | None:
    """Return how many times the first group's ratio a group's is; None with one session on a side."""
    try:
        sides = [logs_in(row, base, each.sessions) for each in (group, first)]
        return unpaired_over_sessions(sides[0], sides[1], confidence)
    except StatsError:
        return None
