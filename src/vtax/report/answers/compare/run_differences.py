"""Differences between two runs besides what is compared: each is part of every ratio."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args

from vtax.benchmarks.length import found_count
from vtax.benchmarks.registry import find_benchmark
from vtax.guest.audit import Fact
from vtax.report import document as doc
from vtax.report.analysis.facts import fact_name, fact_value
from vtax.report.analysis.values import Analysis
from vtax.report.document import joined, msg
from vtax.stats.rules import readers_of
from vtax.store.records import CellRecord
from vtax.study.declared import with_units
from vtax.study.fields import Scratch
from vtax.study.model import DesignTable, GuestTable
from vtax.units import about_size

_MAX_NAMED = 5  # fields of a fact
_AS_MADE = ("blocks", "sessions")  # keys of a design in whose place what was made is compared
_UNITS: Mapping[str, str] = {
    "_mbit_s": "Mbit/s",
    "_bytes": "bytes",
    "_ms": "ms",
    "_us": "µs",
    "_s": "s",
}
"""How the name of a setting ends -> its unit."""
_MOMENTS = frozenset({"measured_at"})  # of a host, not what it is
_ISOLATION = (
    "isolation",
    "own_namespaces",
    "capabilities",
    "no_new_privs",
    "seccomp_mode",
    "seccomp_filters",
)
"""Facts of the audit by which a guest sees what it is isolated with."""


def differences(
    a: Analysis,
    b: Analysis,
    platforms: Collection[str],
    cells: Iterable[tuple[CellRecord, CellRecord]],
    fixed: Collection[str],
) -> Iterator[doc.Inline]:
    """Yield each difference once. platforms: compared with themselves. cells: the pairs compared. fixed: factors that
    a person chose to differ."""
    for fact in sorted({*a.host, *b.host} - _MOMENTS):
        treatment, baseline = a.host.get(fact), b.host.get(fact)
        if _as_shown(fact, treatment) != _as_shown(fact, baseline):
            yield _of_hosts(fact, treatment, baseline)
    if a.image_key != b.image_key:
        yield msg(
            "images differ: {treatment} and {baseline}", treatment=a.image_key, baseline=b.image_key
        )
    if a.vtax_version != b.vtax_version:
        yield msg(
            "versions of vtax differ: {treatment} and {baseline}",
            treatment=a.vtax_version,
            baseline=b.vtax_version,
        )
    yield from _unlike(
        "guest", *(with_units(GuestTable, run.declared.get("guest") or {}) for run in (a, b))
    )
    yield from _places_of_scratch(a, b)
    yield from _of_designs(a, b)
    versions = {p.name: p.version for p in b.platforms if p.name in platforms}
    for platform in a.platforms:
        if versions.get(platform.name, platform.version) != platform.version:
            yield _versions(platform.name, platform.version, versions[platform.name])
    yield from _of_isolation(a, b, platforms)
    texts: dict[str, doc.Inline] = {}
    for treatment_cell, baseline_cell in cells:
        for text in _of_cells(treatment_cell, baseline_cell, fixed):
            texts[repr(text)] = text
    yield from texts.values()


def _of_isolation(a: Analysis, b: Analysis, platforms: Collection[str]) -> Iterator[doc.Inline]:
    """Yield the platforms whose guests saw another isolation in one run than in the other: they are not comparable.

    A fact that one of the runs did not record is not looked at.
    """
    first: tuple[dict[str, Mapping[str, Fact]], ...] = ({}, {})
    for run, facts in zip((a, b), first, strict=True):
        for guest in run.guests:
            if guest.facts:
                facts.setdefault(guest.platform, guest.facts)
    for name in sorted(set(platforms) & first[0].keys() & first[1].keys()):
        treatment, baseline = first[0][name], first[1][name]
        shared = [fact for fact in _ISOLATION if fact in treatment and fact in baseline]
        unlike = [fact for fact in shared if treatment[fact] != baseline[fact]]
        if unlike:
            yield msg(
                "guests of {name} are isolated by other means, and not comparable: {facts} differ",
                name=name,
                facts=", ".join(unlike),
            )


def _as_shown(key: str, value: Any) -> Any:
    """Return a fact without what is not printed of it: bytes of RAM that a kernel keeps for itself."""
    return about_size(value) if key.endswith("_bytes") and isinstance(value, int | float) else value


def _of_hosts(key: str, treatment: Any, baseline: Any) -> doc.Inline:
    """Return how a fact differs; of one that has fields, which of them."""
    fact = fact_name(key)
    if not isinstance(treatment, Mapping) and not isinstance(baseline, Mapping):
        sides = {
            "treatment": _cut(fact_value(key, treatment)),
            "baseline": _cut(fact_value(key, baseline)),
        }
        return msg("hosts differ in {fact}: {treatment} and {baseline}", fact=fact, **sides)
    if not isinstance(treatment, Mapping) or not isinstance(baseline, Mapping):
        return msg("hosts may differ in {fact}: one of the runs did not record them", fact=fact)
    fields = sorted({*treatment, *baseline})
    names = [str(name) for name in fields if treatment.get(name) != baseline.get(name)]
    if len(names) <= _MAX_NAMED:
        return msg("hosts differ in {fact}: {names}", fact=fact, names=", ".join(names))
    named_hosts, further_count = ", ".join(names[:_MAX_NAMED]), doc.Count(len(names) - _MAX_NAMED)
    return msg(
        "hosts differ in {fact}: {names} and {count} more",
        fact=fact,
        names=named_hosts,
        count=further_count,
    )


def _of_designs(a: Analysis, b: Analysis) -> Iterator[doc.Inline]:
    """Yield what differs in the keys that both rules read, and in the blocks and sessions that were made."""
    rules = {a.rule.name, b.rule.name}
    designs = []
    for run in (a, b):
        design = run.declared.get("design") or {}
        keys = [key for key in design if key not in _AS_MADE and rules <= {*readers_of(key)}]
        designs.append({key: design[key] for key in keys})
    yield from _unlike("design", *(with_units(DesignTable, design) for design in designs))
    if a.blocks != b.blocks:
        yield msg(
            "numbers of blocks differ: {treatment} and {baseline}",
            treatment=doc.Count(a.blocks),
            baseline=doc.Count(b.blocks),
        )
    if len(a.sessions) != len(b.sessions):
        sides = {"treatment": doc.Count(len(a.sessions)), "baseline": doc.Count(len(b.sessions))}
        yield msg("numbers of sessions differ: {treatment} and {baseline}", **sides)


def _versions(of: str, treatment: str, baseline: str) -> doc.Inline:
    return msg(
        "versions of {name} differ: {treatment} and {baseline}",
        name=of,
        treatment=treatment,
        baseline=baseline,
    )


def _of_cells(
    treatment_cell: CellRecord, baseline_cell: CellRecord, fixed: Collection[str]
) -> Iterator[doc.Inline]:
    if treatment_cell.tool_version != baseline_cell.tool_version:
        yield _versions(
            treatment_cell.benchmark, treatment_cell.tool_version, baseline_cell.tool_version
        )
    yield from setting_differences(treatment_cell, baseline_cell, fixed)


def setting_differences(
    treatment_cell: CellRecord, baseline_cell: CellRecord, fixed: Collection[str]
) -> Iterator[doc.Inline]:
    """Yield how topology, parameters and link of two cells differ. fixed: factors that are not looked at."""
    if treatment_cell.topology != baseline_cell.topology:
        sides = {"treatment": treatment_cell.topology, "baseline": baseline_cell.topology}
        yield msg(
            "topologies of {name} differ: {treatment} and {baseline}",
            name=treatment_cell.label,
            **sides,
        )
    cells = treatment_cell, baseline_cell
    parameters = [_without(cell.parameters, fixed) for cell in cells]
    links = [_without(cell.link, fixed) for cell in cells]
    benchmark = find_benchmark(treatment_cell.benchmark)
    if benchmark is not None:
        for side in parameters:
            work_count = found_count(benchmark, side)
            if work_count:  # trials of equal time: each side has a count of its own
                del side[work_count[0]]
        parameters = [
            with_units(benchmark.Parameters, cell_parameters) for cell_parameters in parameters
        ]
    yield from _unlike(treatment_cell.label, *parameters)
    yield from _unlike(msg("link of {name}", name=treatment_cell.label), *links)


def design_differences(
    earlier: Analysis, later: Analysis, cells: tuple[CellRecord, CellRecord]
) -> list[doc.Inline]:
    """Return what makes two runs measure different things at one point: baseline, guest, topology, parameters, link.

    cells: of both runs. What only one of them recorded is not looked at, since another version may record more.
    """
    a, b = cells
    sentences: list[doc.Inline] = []
    if earlier.baseline != later.baseline:
        sides = {"treatment": earlier.baseline, "baseline": later.baseline}
        sentences.append(msg("baselines differ: {treatment} and {baseline}", **sides))
    guest_tables = _shared(earlier.declared.get("guest") or {}, later.declared.get("guest") or {})
    parameters, links = _shared(a.parameters, b.parameters), _shared(a.link, b.link)
    alike_cells = [
        replace(cell, parameters=parameters[n], link=links[n]) for n, cell in enumerate(cells)
    ]
    guests = [with_units(GuestTable, guest) for guest in guest_tables]
    sentences += _places_of_scratch(earlier, later)
    return [
        *sentences,
        *_unlike("guest", *guests),
        *setting_differences(alike_cells[0], alike_cells[1], ()),
    ]


def _places_of_scratch(a: Analysis, b: Analysis) -> Iterator[doc.Inline]:
    """Yield how the places of /scratch differ, by the study and by the options of each platform that both have.

    A run from before places were declared had a container's own layer, and on native a directory: it is like no other.
    """
    places = [", ".join(run.declared.get("scratch") or ["not declared"]) for run in (a, b)]
    if places[0] != places[1]:
        yield msg(
            "places of /scratch differ: {treatment} and {baseline}",
            treatment=places[0],
            baseline=places[1],
        )
    options = [{p.name: _scratch_option(p.identity) for p in run.platforms} for run in (a, b)]
    for name in sorted(options[0].keys() & options[1].keys()):
        if options[0][name] != options[1][name]:
            yield msg(
                "places of /scratch of {name} differ: {treatment} and {baseline}",
                name=name,
                treatment=options[0][name] or "as the study says",
                baseline=options[1][name] or "as the study says",
            )


def _scratch_option(identity: Mapping[str, Any]) -> str:
    """Return the place of /scratch that a platform's option names; empty for none. Of machines it is a path."""
    place = (identity.get("options") or {}).get("scratch")
    return str(place) if place in get_args(Scratch) else ""


def _without(settings: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


def _shared(
    a: Mapping[str, Any], b: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    keys = a.keys() & b.keys()
    return {key: a[key] for key in keys}, {key: b[key] for key in keys}


def _unlike(
    place: doc.Inline, treatment: Mapping[str, Any], baseline: Mapping[str, Any]
) -> Iterator[doc.Inline]:
    for key in sorted({*treatment, *baseline}):
        if isinstance(treatment.get(key), Mapping) and isinstance(baseline.get(key), Mapping):
            of_treatment = {f"{key}.{name}": value for name, value in treatment[key].items()}
            of_baseline = {f"{key}.{name}": value for name, value in baseline[key].items()}
            yield from _unlike(place, of_treatment, of_baseline)
        elif treatment.get(key) != baseline.get(key):
            name, unit = _named(key)
            yield msg(
                "{what}: {key} {treatment} against {baseline}",
                what=place,
                key=name,
                treatment=_setting(treatment, key, unit),
                baseline=_setting(baseline, key, unit),
            )


def _setting(side: Mapping[str, Any], key: str, unit: str) -> doc.Inline:
    return _valued(side[key], unit) if key in side else msg("not set")


def _named(key: str) -> tuple[str, str]:
    """Return (the words of a setting, its unit): `duration_s` is a duration in s."""
    suffix = next((unit_suffix for unit_suffix in _UNITS if key.endswith(unit_suffix)), "")
    return key.removesuffix(suffix).replace("_", " "), _UNITS.get(suffix, "")


def _valued(value: Any, unit: str) -> doc.Inline:
    """`5 s`."""
    text = _short(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return joined([text, unit if is_number else ""], "\N{NO-BREAK SPACE}")


def _short(value: Any) -> doc.Inline:
    if value is None:
        return msg("none")
    if isinstance(value, bool):
        return "true" if value else "false"  # as studies and JSON write it
    if isinstance(value, Mapping):
        value = ", ".join(f"{name}={item}" for name, item in value.items())
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return _cut(f"{value:.15g}" if isinstance(value, float) else str(value))


def _cut(text: doc.Inline) -> doc.Inline:
    return f"{text[:57]}..." if isinstance(text, str) and len(text) > 60 else text
