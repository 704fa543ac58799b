"""The equivalence audit of a run: what differs between platforms' guests, and what changed between guests of one.

Only guests that were started alike (same tuning, topology, links) are compared; see `guest.audit.started_alike`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vtax.grouping import by_key
from vtax.guest.audit import Fact, changes, differences, started_alike
from vtax.report.analysis.sessions import HostChange, host_changes
from vtax.report.analysis.values import Analysis


@dataclass(frozen=True)
class UnevenFact:
    """A fact that is not the same on all platforms.

    where: how the guests were started in which it was found; empty when it is so however they are started. shown:
    (platforms, what all of these show).
    """

    field: str
    where: str
    shown: tuple[tuple[tuple[str, ...], str], ...]


@dataclass(frozen=True)
class AuditedChange:
    """A fact that was not the same in all guests of one platform that were started alike. values: in order."""

    platform: str
    field: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Audit:
    """guests: (platform, how it was started) -> facts of the first such guest. compared: platforms with an audit.

    clocks: platform -> seconds by which the wall clocks of its guests are ahead of the host's: the max. offset.
    host_changes: facts of the host that differ between sessions.
    """

    findings: tuple[UnevenFact, ...]
    changes: tuple[AuditedChange, ...]
    guests: Mapping[tuple[str, str], Mapping[str, Fact]]
    compared: tuple[str, ...]
    clocks: Mapping[str, float]
    host_changes: tuple[HostChange, ...] = ()


def audit(analysis: Analysis) -> Audit:
    """Return the audit of a stored run."""
    groups = started_alike(
        (guest.platform, guest.facts) for guest in analysis.guests if guest.facts
    )
    order = [platform.name for platform in analysis.platforms]
    places: dict[tuple[str, tuple[tuple[tuple[str, ...], str], ...]], list[str]] = {}
    changed: list[AuditedChange] = []
    guests: dict[tuple[str, str], Mapping[str, Fact]] = {}
    comparing = 0
    for start, audits_of in groups.items():
        first = {name: audits_of[name][0] for name in sorted(audits_of, key=order.index)}
        for name, facts in first.items():
            guests[name, start] = facts
            for field, change in changes(audits_of[name]).items():
                changed.append(AuditedChange(name, field, change))
        if len(first) < 2:
            continue
        comparing += 1
        for difference in differences(first):
            values = _by_text(difference.values)
            places.setdefault((difference.field, values), []).append(start)
    uneven = []
    for (field, values), hows in sorted(places.items()):
        where = "" if len(hows) == comparing else "; ".join(hows)
        uneven.append(UnevenFact(field, where, values))
    audited = {platform for platform, _ in guests}
    return Audit(
        tuple(uneven),
        tuple(changed),
        guests,
        tuple(name for name in order if name in audited),
        _clocks(analysis),
        host_changes(analysis.sessions),
    )


def _clocks(analysis: Analysis) -> dict[str, float]:
    offsets_by_platform: dict[str, float] = {}
    for platform in analysis.platforms:
        offsets = [
            guest.clock_offset_s
            for guest in analysis.guests
            if guest.platform == platform.name and guest.clock_offset_s is not None
        ]
        if offsets:
            offsets_by_platform[platform.name] = max(offsets, key=abs)
    return offsets_by_platform


def _by_text(values: Mapping[str, str]) -> tuple[tuple[tuple[str, ...], str], ...]:
    names_by_text = by_key((text, platform) for platform, text in values.items())
    return tuple((tuple(names), text) for text, names in names_by_text.items())
