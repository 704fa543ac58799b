"""Hosts that show something else than the others, and the facts that they alone have.

Every host is compared with all others, and so are all hosts that have a fact in common which most have not: a
microcode, a governor, a kernel, an agent. All comparisons of a run are one family.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from vtax.described import BESIDE, Means
from vtax.report import document as doc
from vtax.report.analysis.facts import fact_name
from vtax.report.analysis.hosts import MeasuredHost, logs_on, units_on
from vtax.report.analysis.values import Analysis, OfSection, ResultPoint, Row, Section, every_row
from vtax.report.document import joined, msg
from vtax.stats.checks import StatsError
from vtax.stats.odd_hosts import MIN_OTHERS, Apart, against_the_others
from vtax.stats.verdict import holm
from vtax.store.hosts import HARDWARE_ID, IMAGE_DIGEST, MACHINE_ID
from vtax.store.records import LEVELS

_OF_NOBODY = frozenset(
    {
        MACHINE_ID,
        HARDWARE_ID,
        IMAGE_DIGEST,
        "boot_id",
        "boots",
        "measured_at",
        "not_counted",
        "python",
    }
)
"""Facts that say who a host is or how it was measured, and nothing of how fast it is."""
_GIB, _AGENTS = 1 << 30, "agents"
Key = tuple[str, str]
"""A fact and its field; the field is empty of a fact that has none."""


@dataclass(frozen=True)
class DifferingFact:
    """A fact that is not the same on all hosts. values: each with its hosts, the most common first."""

    key: Key
    values: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def name(self) -> doc.Inline:
        """As people call it."""
        return name_of(self.key)


@dataclass(frozen=True)
class OddHosts(OfSection):
    """Hosts that lie apart from the others in one row. keys: facts, with values that they alone have."""

    section: Section
    point: ResultPoint
    row: Row
    hosts: Annotated[tuple[str, ...], Means("hosts that lie apart")]
    apart: Annotated[Apart, BESIDE]
    keys: tuple[tuple[Key, str], ...]

    @property
    def platform(
        self,
    ) -> Annotated[str, Means("platform; of the baseline its own values, else the ratio to it")]:
        """Its name."""
        return self.row.platform.name

    @property
    def levels(self) -> Annotated[Mapping[str, Any], LEVELS]:
        """The levels of its point."""
        return self.point.levels

    @property
    def facts(
        self,
    ) -> Annotated[tuple[str, ...], Means("facts that they alone have, such as `kernel = 6.1.0`")]:
        """For programs."""
        return tuple(f"{written_key(key)} = {value}" for key, value in self.keys)


def written_key(key: Key) -> str:
    """Return a fact as programs read it: `kernel`, `platform_versions.podman`."""
    return ".".join(filter(None, key))


def name_of(key: Key) -> doc.Inline:
    """Return what a fact is called, with its field."""
    fact, field = key
    name = msg("resident agent") if fact == _AGENTS else fact_name(fact)
    return joined([name, field], ": ") if field else name


def shown_value(key: Key, value: str) -> doc.Inline:
    """Return a value of a fact as people read it."""
    if key[0] == _AGENTS:
        return msg("yes") if value else msg("no")
    return value or msg("(not reported)")


def fact_with(key: Key, value: str) -> doc.Inline:
    """`kernel 6.1`, `resident agent: kubelet`: a fact with its value, in a sentence."""
    if key[0] == _AGENTS and value:
        return name_of(key)
    return joined([name_of(key), shown_value(key, value)], " ")


def flat_facts(host: Mapping[str, Any], agents: Sequence[str] = ()) -> dict[Key, str]:
    """Return the facts of a host that may bear on its speed, as texts. host: as stored."""
    found: dict[Key, str] = {(_AGENTS, name): "yes" for name in agents}
    for fact, value in host.items():
        if fact in _OF_NOBODY:
            continue
        if isinstance(value, Mapping):
            found |= {(fact, str(field)): str(each) for field, each in value.items()}
        elif fact.endswith("_bytes") and isinstance(value, int | float):
            found[fact, ""] = f"{value / _GIB:.1f} GiB"
        else:
            found[fact, ""] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return found


def differing_facts(hosts: Sequence[MeasuredHost]) -> tuple[DifferingFact, ...]:
    """Return the facts that differ between hosts; without those of which most hosts have a value of their own."""
    facts = {host.name: flat_facts(host.facts, host.agents) for host in hosts}
    found = []
    for key in sorted({key for of in facts.values() for key in of}):
        values: dict[str, list[str]] = defaultdict(list)
        for name, of in facts.items():
            values[of.get(key, "")].append(name)
        if 1 < len(values) <= max(2, len(hosts) // 2):
            ordered = sorted(values.items(), key=lambda each: (-len(each[1]), each[0]))
            found.append(
                DifferingFact(key, tuple((value, tuple(names)) for value, names in ordered))
            )
    return tuple(found)


def odd_hosts(
    analysis: Analysis, hosts: Sequence[MeasuredHost], facts: Sequence[DifferingFact]
) -> tuple[OddHosts, ...]:
    """Return what lies apart in primary metrics, the farthest first; nothing of fewer hosts than can show it."""
    if len(hosts) <= MIN_OTHERS:
        return ()
    found = list(_tested(analysis, hosts, _sets(hosts, facts)))
    adjusted = holm([each.apart.p_value for each in found]).tolist() if found else []
    odd = [
        replace(each, apart=replace(each.apart, p_value=p))
        for each, p in zip(found, adjusted, strict=True)
        if p <= analysis.rule.alpha
    ]
    return tuple(sorted(_largest(odd), key=lambda each: each.apart.p_value))


def _sets(
    hosts: Sequence[MeasuredHost], facts: Sequence[DifferingFact]
) -> dict[frozenset[str], list[tuple[Key, str]]]:
    """Hosts that are compared with all others -> the facts that they alone have: each host, and each minority."""
    found: dict[frozenset[str], list[tuple[Key, str]]] = {
        frozenset({host.name}): [] for host in hosts
    }
    for fact in facts:
        for value, names in fact.values:
            if 2 * len(names) <= len(hosts):
                found.setdefault(frozenset(names), []).append((fact.key, value))
    return found


def _tested(
    analysis: Analysis,
    hosts: Sequence[MeasuredHost],
    sets: Mapping[frozenset[str], list[tuple[Key, str]]],
) -> Iterator[OddHosts]:
    units = units_on(hosts)
    for section, point, row in every_row(analysis.primary):
        if row.summary is None or point.baseline is None:
            continue
        try:
            base = None if row is point.baseline else point.baseline
            logs = logs_on(row, base, units).averaged("host", units)
        except StatsError:
            continue
        names_here = [hosts[number].name for number in logs.units.tolist()]
        means = dict(zip(names_here, logs.values.tolist(), strict=True))
        for names, keys in sets.items():
            some = [means[name] for name in names if name in means]
            others = [mean for name, mean in means.items() if name not in names]
            if some and len(others) >= MIN_OTHERS:
                apart = against_the_others(some, others, analysis.rule.confidence)
                yield OddHosts(section, point, row, tuple(sorted(names)), apart, tuple(keys))


def _largest(odd: Sequence[OddHosts]) -> Iterator[OddHosts]:
    """Yield what is odd without hosts of a larger set that is odd in the same row."""
    for each in odd:
        if not any(
            other.row is each.row and set(each.hosts) < set(other.hosts) and other.keys
            for other in odd
        ):
            yield each
