"""The equivalence audit of a run: what differs between platforms' guests, and what changed between guests of one.

Only guests that were started alike (same tuning, topology, links) are compared; see `guest.audit.started_alike`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from vtax.guest.audit import COMMON, Fact, changes, differences, started_alike, text_of
from vtax.report.analysis import Analysis
from vtax.report.grid import Grid

_SIGNS = "+ marks what not every platform has; what all of them have is left out."
_REMARKS = {
    "tcp_congestion_control": "is the kernel's default: in a lab every route names its own, the same at every end "
    "(but for gVisor's own network stack).",
}


@dataclass(frozen=True)
class Finding:
    """A fact that is not the same on all platforms.

    where: how the guests were started in which it was found; empty when it is so however they are started. shown:
    (platforms, what all of these show).
    """

    field: str
    where: str
    shown: tuple[tuple[tuple[str, ...], str], ...]


@dataclass(frozen=True)
class Change:
    """A fact that was not the same in all guests of one platform that were started alike. text: in order."""

    platform: str
    field: str
    text: str


@dataclass(frozen=True)
class Audit:
    """guests: (platform, how it was started) -> facts of the first such guest. compared: platforms with an audit.

    clocks: platform -> seconds by which the wall clock of its guest that is furthest off is ahead of the host's.
    """

    findings: tuple[Finding, ...]
    changes: tuple[Change, ...]
    guests: Mapping[tuple[str, str], Mapping[str, Fact]]
    compared: tuple[str, ...]
    clocks: Mapping[str, float]

    @property
    def legend(self) -> str:
        """What must be known to read the findings; empty for nothing."""
        texts = [text for finding in self.findings for _, text in finding.shown]
        used = any(text == COMMON or text.startswith("+") for text in texts)
        fields = {finding.field for finding in self.findings}
        known = [f"{field} {remark}" for field, remark in _REMARKS.items() if field in fields]
        return " ".join([*([_SIGNS] if used else []), *known])


def audit(analysis: Analysis) -> Audit:
    """The audit of a stored run."""
    groups = started_alike((guest.platform, guest.facts) for guest in analysis.guests if guest.facts)
    order = [platform.name for platform in analysis.platforms]
    places: dict[tuple[str, tuple[tuple[tuple[str, ...], str], ...]], list[str]] = {}
    found: list[Change] = []
    guests: dict[tuple[str, str], Mapping[str, Fact]] = {}
    comparing = 0
    for how, of in groups.items():
        names = sorted(of, key=order.index)
        guests |= {(name, how): of[name][0] for name in names}
        found += [Change(name, field, text) for name in names for field, text in changes(of[name]).items()]
        comparing += len(names) > 1
        for difference in differences({name: of[name][0] for name in names}) if len(names) > 1 else ():
            places.setdefault((difference.field, _by_text(difference.values)), []).append(how)
    findings = [
        Finding(field, "" if len(hows) == comparing else "; ".join(hows), shown)
        for (field, shown), hows in sorted(places.items())
    ]
    compared = tuple(name for name in order if any(name == platform for platform, _ in guests))
    return Audit(tuple(findings), tuple(found), guests, compared, _clocks(analysis))


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


def audit_parts(found: Audit, *, every_field: bool) -> list[RenderableType]:
    """The differences as a table, and what changed; every_field: also all that each platform's first guest said."""
    parts: list[RenderableType] = []
    if found.findings:
        table = _table("fact", "on", "is")
        for finding in found.findings:
            name = finding.field + (f" ({finding.where})" if finding.where else "")
            for number, (platforms, text) in enumerate(finding.shown):
                table.add_row(Text("" if number else name), Text(", ".join(platforms)), Text(text))
        legend = [Text(found.legend, style="dim")] if found.legend else []
        parts += [Text("What differs between guests", style="bold"), table, *legend, Text()]
    elif len(found.compared) > 1:
        parts += [Text("The audit shows no difference between guests."), Text()]
    else:
        parts += [Text("There is no audit of at least two platforms to compare."), Text()]
    if found.changes:
        table = _table("platform", "fact", "was")
        for change in found.changes:
            table.add_row(Text(change.platform), Text(change.field), Text(change.text))
        parts += [Text("What changed between guests of one platform", style="bold"), table, Text()]
    if found.clocks:
        table = _table("platform", "furthest off the host's")
        for name, offset_s in found.clocks.items():
            table.add_row(Text(name), Text(f"{offset_s:+.3f} s"))
        parts += [Text("Wall clocks of guests", style="bold"), table, Text()]
    for (platform, how), facts in found.guests.items() if every_field else ():
        table = _table("fact", "is")
        for field, value in sorted(facts.items()):
            table.add_row(Text(field), Text(text_of(value, field)))
        parts += [Text(platform + (f" ({how})" if how else ""), style="bold"), table, Text()]
    return parts


def audit_json(found: Audit) -> dict[str, Any]:
    """The same as plain data, with every field of each platform's first guests."""
    return {
        "differences": [
            {"field": f.field, "where": f.where, "shown": [{"platforms": list(p), "value": t} for p, t in f.shown]}
            for f in found.findings
        ],
        "changes": [{"platform": c.platform, "field": c.field, "was": c.text} for c in found.changes],
        "clocks": [{"platform": name, "furthest_off_s": offset_s} for name, offset_s in found.clocks.items()],
        "guests": [
            {"platform": platform, "started": how, "facts": dict(facts)}
            for (platform, how), facts in found.guests.items()
        ],
    }


def _table(*columns: str) -> Grid:
    table = Grid()
    for column in columns:
        table.add_column(column)
    return table
