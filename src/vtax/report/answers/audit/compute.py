"""The equivalence audit of a run: what differs between platforms' guests, and what changed between guests of one.

Only guests that were started alike (same tuning, topology, links) are compared; see `guest.audit.started_alike`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    found: list[AuditedChange] = []
    guests: dict[tuple[str, str], Mapping[str, Fact]] = {}
    comparing = 0
    for how, of in groups.items():
        names = sorted(of, key=order.index)
        guests |= {(name, how): of[name][0] for name in names}
        found += [
            AuditedChange(name, *change) for name in names for change in changes(of[name]).items()
        ]
        comparing += len(names) > 1
        for difference in (
            differences({name: of[name][0] for name in names}) if len(names) > 1 else ()
        ):
            places.setdefault((difference.field, _by_text(difference.values)), []).append(how)
    findings = [
        UnevenFact(field, "" if len(hows) == comparing else "; ".join(hows), shown)
        for (field, shown), hows in sorted(places.items())
    ]
    compared = tuple(name for name in order if any(name == platform for platform, _ in guests))
    return Audit(
        tuple(findings),
        tuple(found),
        guests,
        compared,
        _clocks(analysis),
        host_changes(analysis.sessions),
    )


def _clocks(analysis: Analysis) -> dict[str, float]:
    found: dict[str, float] = {}
    for platform in analysis.platforms:
        offsets = [
            guest.clock_offset_s
            for guest in analysis.guests
            if guest.platform == platform.name and guest.clock_offset_s is not None
        ]
        if offsets:
            found[platform.name] = max(offsets, key=abs)
    return found


def _by_text(values: Mapping[str, str]) -> tuple[tuple[tuple[str, ...], str], ...]:
    groups: dict[str, list[str]] = {}
    for platform, text in values.items():
        groups.setdefault(text, []).append(platform)
    return tuple((tuple(names), text) for text, names in groups.items())
