"""Hosts that show something else than the others, and the facts that they alone have.

Hosts are compared with hosts of the same CPU model, or with their group in the inventory where each group of that
model has enough hosts. Every host is compared with the others of these, and so are all hosts that have a fact in common
which most have not: a microcode, a governor, a kernel, an agent. Both kinds of comparison of a run are a family each,
of half of the error rate where there are both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Annotated, Any

from vtax.described import BESIDE, Means
from vtax.grouping import by_key
from vtax.report import document as doc
from vtax.report.analysis.facts import fact_name
from vtax.report.analysis.values import Analysis, OfSection, ResultPoint, Row, Section, every_row
from vtax.report.answers.hosts.compute import MeasuredHost, logs_on, units_on
from vtax.report.document import joined, msg
from vtax.stats.checks import StatsError
from vtax.stats.intervals import Interval
from vtax.stats.odd_hosts import (
    FEWEST_HOSTS,
    MIN_OTHERS,
    Apart,
    against_the_others,
    p_of_hosts,
)
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
_AS_FAR = 0.7  # of the distance of the farthest host of a set
_WITHIN = 0.05  # of all hosts of a set that is odd together
Key = tuple[str, str]
"""A fact and its field; the field is empty of a fact that has none."""
Keys = tuple[tuple[Key, str], ...]
"""Facts, each with its value."""


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
    """Hosts that lie apart from the others in one row. keys: facts, with values that they alone have.

    is_within: whether they lie apart even from hosts with which they lie apart from all others.
    """

    section: Section
    point: ResultPoint
    row: Row
    hosts: Annotated[tuple[str, ...], Means("hosts that lie apart")]
    apart: Annotated[Apart, BESIDE]
    keys: Keys
    is_within: bool = False

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

    @property
    def share(self) -> Interval:
        """Their performance as a share of the others'; of a cost its inverse."""
        return self.apart.efficiency(self.section.better)


@dataclass(frozen=True)
class OddSet:
    """Hosts that lie apart together, in one row or several: what one line says of them."""

    hosts: tuple[str, ...]
    findings: tuple[OddHosts, ...]
    keys: Keys

    @property
    def distance(self) -> float:
        """How far they lie from the others, as a logarithm, in the row in which that is farthest."""
        return max(abs(_log(finding.apart.estimate)) for finding in self.findings)


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
    facts_by_key: dict[Key, str] = {(_AGENTS, name): "yes" for name in agents}
    for fact, value in host.items():
        if fact in _OF_NOBODY:
            continue
        if isinstance(value, Mapping):
            facts_by_key |= {
                (fact, str(field)): str(field_value) for field, field_value in value.items()
            }
        elif fact.endswith("_bytes") and isinstance(value, int | float):
            facts_by_key[fact, ""] = f"{value / _GIB:.1f} GiB"
        else:
            facts_by_key[fact, ""] = (
                ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            )
    return facts_by_key


def differing_facts(hosts: Sequence[MeasuredHost]) -> tuple[DifferingFact, ...]:
    """Return the facts that differ between hosts; without those of which most hosts have a value of their own."""
    facts = {host.name: flat_facts(host.facts, host.agents) for host in hosts}
    differences = []
    for key in sorted({key for of in facts.values() for key in of}):
        values = by_key((of.get(key, ""), name) for name, of in facts.items())
        if 1 < len(values) <= max(2, len(hosts) // 2):
            values_in_order = sorted(
                values.items(),
                key=lambda value_and_hosts: (-len(value_and_hosts[1]), value_and_hosts[0]),
            )
            differences.append(
                DifferingFact(key, tuple((value, tuple(names)) for value, names in values_in_order))
            )
    return tuple(differences)


def peers_of(hosts: Sequence[MeasuredHost]) -> tuple[tuple[MeasuredHost, ...], ...]:
    """Return the hosts that are compared with one another: those of a CPU model, or its groups of the inventory."""
    models = by_key((str(host.facts.get("cpu_model", "")), host) for host in hosts)
    peers: list[tuple[MeasuredHost, ...]] = []
    for of_model in models.values():
        groups = by_key((host.group, host) for host in of_model)
        if min(map(len, groups.values())) < FEWEST_HOSTS:
            groups = {"": of_model}
        peers += map(tuple, groups.values())
    return tuple(peers)


@dataclass(frozen=True)
class _Compared:
    """Figures of one row on hosts that are compared with one another: name -> logarithm."""

    section: Section
    point: ResultPoint
    row: Row
    means: Mapping[str, float]


def odd_hosts(analysis: Analysis, hosts: Sequence[MeasuredHost]) -> tuple[OddHosts, ...]:
    """Return what lies apart in what answers, the farthest first; nothing among fewer hosts than can show it."""
    own_facts = facts_alone(hosts)
    rows: list[_Compared] = []
    minorities: list[OddHosts] = []
    for peers in peers_of(hosts):
        for row in _compared(analysis, peers):
            rows.append(row)
            minorities += _minorities(row, own_facts, analysis)
    families = 2 if rows and minorities else 1
    adjusted = (
        holm([finding.apart.p_value for finding in minorities]).tolist() if minorities else []
    )
    findings = [
        replace(finding, apart=replace(finding.apart, p_value=min(1.0, p * families)))
        for finding, p in zip(minorities, adjusted, strict=True)
        if p * families <= analysis.rule.alpha
    ]
    for row in rows:
        findings += _single(row, own_facts, analysis, len(rows) * families)
    findings_kept = list(_kept(findings, rows))
    return tuple(sorted(findings_kept, key=lambda finding: -abs(_log(finding.apart.estimate))))


def odd_sets(odd: Sequence[OddHosts], hosts: Sequence[MeasuredHost]) -> tuple[OddSet, ...]:
    """Return one set for hosts that lie apart together, the farthest first.

    Hosts with a fact in common are one, and so are single hosts that lie apart about as far on the same platforms in
    the same direction. A host that is in a set for a platform is named again only where it lies apart from the others
    of the set.
    """
    facts = facts_alone(hosts)
    of_hosts = by_key((finding.hosts, finding) for finding in odd if len(finding.hosts) > 1)
    told = {
        (host, *_direction(finding))
        for findings in of_hosts.values()
        for finding in findings
        for host in finding.hosts
    }
    sets = [OddSet(names, tuple(of), facts.get(names, ())) for names, of in of_hosts.items()]
    alone: dict[str, list[OddHosts]] = {}
    for finding in odd:
        if len(finding.hosts) == 1:
            (host,) = finding.hosts
            if finding.is_within or (host, *_direction(finding)) not in told:
                alone.setdefault(host, []).append(finding)
    alike: dict[Any, list[OddSet]] = {}
    for host, findings in alone.items():
        likeness = frozenset(map(_direction, findings))
        odd_set = OddSet((host,), tuple(findings), facts.get((host,), ()))
        alike.setdefault((likeness, odd_set.keys), []).append(odd_set)
    for of in alike.values():
        sets += [_together(near, facts) for near in _near(of)]
    return tuple(sorted(sets, key=lambda odd_set: -odd_set.distance))


def _near(sets: Sequence[OddSet]) -> Iterator[list[OddSet]]:
    """Yield sets that lie about as far apart together, the farthest first."""
    near: list[OddSet] = []
    for found in sorted(sets, key=lambda candidate: -candidate.distance):
        if near and found.distance < _AS_FAR * near[0].distance:
            yield near
            near = []
        near.append(found)
    if near:
        yield near


def _together(sets: Sequence[OddSet], facts: Mapping[tuple[str, ...], Keys]) -> OddSet:
    names = tuple(sorted(name for odd_set in sets for name in odd_set.hosts))
    findings = tuple(finding for odd_set in sets for finding in odd_set.findings)
    return OddSet(names, findings, facts.get(names, ()))


def _direction(finding: OddHosts) -> tuple[str, bool]:
    return finding.platform, finding.apart.estimate < 1


def _log(estimate: float) -> float:
    return math.log(estimate) if 0 < estimate < math.inf else math.inf


def facts_alone(hosts: Sequence[MeasuredHost]) -> dict[tuple[str, ...], Keys]:
    """Return each host and each minority with a fact in common -> the facts that they alone have among hosts like
    them."""
    alone: dict[tuple[str, ...], list[tuple[Key, str]]] = {(host.name,): [] for host in hosts}
    for peers in peers_of(hosts):
        for fact in differing_facts(peers):
            for value, names in fact.values:
                if 2 * len(names) <= len(peers):
                    alone.setdefault(tuple(sorted(names)), []).append((fact.key, value))
    return {names: tuple(keys) for names, keys in alone.items()}


def _compared(analysis: Analysis, hosts: Sequence[MeasuredHost]) -> Iterator[_Compared]:
    """Yield what enough of these hosts show: the baseline by itself, other platforms by their ratio to it."""
    units = units_on(hosts)
    for section, point, row in every_row(analysis.primary):
        if row.summary is None or point.baseline is None:
            continue
        try:
            base = None if row is point.baseline else point.baseline
            logs = logs_on(row, base, units).averaged("host", units)
        except StatsError:
            continue
        names = [hosts[number].name for number in logs.units.tolist()]
        if len(names) >= FEWEST_HOSTS:
            means = dict(zip(names, logs.values.tolist(), strict=True))
            yield _Compared(section, point, row, means)


def _minorities(
    compared: _Compared,
    alone: Mapping[tuple[str, ...], Keys],
    analysis: Analysis,
) -> Iterator[OddHosts]:
    """Yield hosts with a fact in common against all others."""
    for names, keys in alone.items():
        if len(names) > 1 and (apart := _apart(compared.means, names, analysis)):
            yield OddHosts(compared.section, compared.point, compared.row, names, apart, keys)


def _single(
    compared: _Compared,
    alone: Mapping[tuple[str, ...], Keys],
    analysis: Analysis,
    family: int,
) -> Iterator[OddHosts]:
    """Yield the hosts that lie apart one by one, against those that do not. family: rows that are looked at."""
    p_values = dict(zip(compared.means, p_of_hosts([*compared.means.values()]), strict=True))
    odd = {name: p * family for name, p in p_values.items() if p * family <= analysis.rule.alpha}
    for name, p_value in odd.items():
        means = {
            host: mean for host, mean in compared.means.items() if host == name or host not in odd
        }
        if apart := _apart(means, (name,), analysis):
            yield OddHosts(
                compared.section,
                compared.point,
                compared.row,
                (name,),
                replace(apart, p_value=p_value),
                alone[name,],
            )


def _apart(means: Mapping[str, float], names: Sequence[str], analysis: Analysis) -> Apart | None:
    """Return how far some hosts lie from the others; None where too few are left on a side."""
    some = [means[name] for name in names if name in means]
    others = [mean for name, mean in means.items() if name not in names]
    if not some or len(others) < MIN_OTHERS:
        return None
    return against_the_others(some, others, analysis.rule.confidence)


def _kept(odd: Sequence[OddHosts], rows: Sequence[_Compared]) -> Iterator[OddHosts]:
    """Yield what no larger set tells: hosts of a set that is odd in the same row are told by it, unless they lie apart
    even from the rest of it."""
    means = {
        (id(compared.row), name): compared.means for compared in rows for name in compared.means
    }
    for finding in odd:
        in_row = {name for other in odd if other.row is finding.row for name in other.hosts}
        larger = [
            other
            for other in odd
            if other.row is finding.row and set(finding.hosts) < set(other.hosts)
        ]
        of_row = means[id(finding.row), finding.hosts[0]]
        if not larger:
            yield finding
        elif all(_is_within(finding.hosts, other.hosts, in_row, of_row) for other in larger):
            yield replace(finding, is_within=True)


def _is_within(
    some: Sequence[str], larger: Sequence[str], odd: Set[str], means: Mapping[str, float]
) -> bool:
    """Return whether hosts of a set lie farther from the others than the rest of it, by the scatter of hosts that are
    not odd."""
    inside = [means[name] for name in some if name in means]
    rest = [means[name] for name in larger if name in means and name not in some]
    clean = [mean for name, mean in means.items() if name not in odd]
    if not inside or not rest or len(clean) < MIN_OTHERS:
        return False
    shift = fmean(clean) - fmean(rest)
    if abs(fmean(inside) - fmean(clean)) <= abs(shift):
        return False
    apart = against_the_others([value + shift for value in inside], clean)
    return apart.p_value * len(larger) <= _WITHIN
