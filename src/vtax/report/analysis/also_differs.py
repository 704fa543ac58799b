"""Facts of the audit that differ from the baseline's beside the layer under test, and matter for what was measured.

A container at 88 % of native whose files lie in an overlay, while native's lie on ext4, has paid for the overlay. So
an answer names such a fact beside its verdict, once for the platforms and benchmarks where it holds.

What *is* the layer is not named. It depends on the kind of platform, which the fact `isolation` records:

- `nothing`, `confined` (native, containers, sandboxes of namespaces): the kernel is shared, and the layer is
  namespaces, filters and a root of layers. Every fact of the table is beside it: the directory that a benchmark uses
  can lie elsewhere, limits and settings can be the same.
- `kernel` (virtual machines, gVisor): the layer is a kernel of its own on devices of its own. Its release, its clock,
  what it does about the processor's flaws, its virtual processor, disk and interface are what is measured
  (`_OF_KERNEL`). Limits of processes, huge pages, libraries and the MTU are not: they can be the same.
- `elsewhere` (machines of the user's): hardware, kernel and files are not the layer but another machine, and all of
  them is named.

Congestion control is not in the table: every route of a lab sets its own, equal at every end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from vtax.benchmarks.base import Resource
from vtax.benchmarks.registry import resource_of
from vtax.described import Means
from vtax.grouping import by_key
from vtax.guest.audit import Fact, started_alike, text_of
from vtax.messages import Note
from vtax.report import document as doc
from vtax.report.analysis.drivers import drivers_of
from vtax.report.analysis.values import Analysis, Section

_ALWAYS = (
    "clock_between_cpus",
    "clock_source",
    "limit.open_files",
    "limit.processes",
    "limit.tasks",
)
_CPU = (
    "cpu_model",
    "frequency_governor",
    "hash",
    "kernel_release",
    "libc_version",
    "mitigation",
    "speculative_indirect_branch",
    "speculative_store_bypass",
)
_MEMORY = (
    "hash",
    "libc_version",
    "limit.address_space",
    "limit.locked_memory",
    "limit.stack_size",
    "transparent_huge_pages",
)
_DISK = ("kernel_release", "scratch", "scratch_file_system", "scratch_mount_options")
_NETWORK = ("interface", "kernel_release", "tcp_receive_buffer", "tcp_send_buffer")
FACTS: Mapping[Resource, frozenset[str]] = {
    "cpu": frozenset((*_ALWAYS, *_CPU)),
    "memory": frozenset((*_ALWAYS, *_MEMORY)),
    "disk": frozenset((*_ALWAYS, *_DISK)),
    "network": frozenset((*_ALWAYS, *_NETWORK)),
    "kernel": frozenset((*_ALWAYS, *_CPU)),
    "start": frozenset((*_ALWAYS, *_CPU)),
    "application": frozenset((*_ALWAYS, *_CPU, *_MEMORY, *_DISK, *_NETWORK)),
}
"""Facts that matter for a resource. A name also stands for all that go on after it with a dot, shown together."""
_OF_KERNEL = frozenset(
    {
        "clock_source",
        "cpu_model",
        "driver",
        "frequency_governor",
        "kernel_release",
        "limit.tasks",
        "mitigation",
        "offloads",
        "scratch_file_system",
        "scratch_mount_options",
        "speculative_indirect_branch",
        "speculative_store_bypass",
        "tcp_receive_buffer",
        "tcp_send_buffer",
    }
)
NO_FACTS: Mapping[Resource, frozenset[str]] = {}
_FOR_SPEED = frozenset({
    "async", "cache", "commit", "compress", "compress-force", "data", "dax", "delalloc", "dirsync", "discard", "lazytime",
    "metacopy", "msize", "noac", "noatime", "nobarrier", "nodatacow", "nodelalloc", "relatime", "rsize", "strictatime",
    "sync", "volatile", "wsize",
})  # fmt: skip
"""Options of mounts that make files faster or slower; others say who may do what."""
_IMPLIES = (
    ("scratch_file_system", "scratch_mount_options"),
    ("scratch_file_system", "scratch"),
)
"""Pairs of facts that differ for one reason: the first of them is said."""
_IN_LAB = "started.topology"
_SHOWN = {
    "scratch": "place of /scratch",
    "scratch_file_system": "/scratch",
    "scratch_mount_options": "/scratch",
}


@dataclass(frozen=True)
class AlsoDiffers:
    """A fact that differs beside the layer.

    labels: benchmark tables of whose answer it may be a cause.
    """

    fact: Annotated[str, Means("fact of the audit")]
    platforms: Annotated[tuple[str, ...], Means("platforms that have this value")]
    labels: Annotated[tuple[str, ...], Means("benchmark tables for which it matters")]
    value: Annotated[str, Means("value of these platforms")]
    baseline_value: Annotated[str, Means("value of the baseline")]
    text: Annotated[doc.Inline, Means("the same as a sentence")]


def also_differs(
    analysis: Analysis, of_layer: Mapping[Resource, frozenset[str]] = NO_FACTS
) -> tuple[AlsoDiffers, ...]:
    """Return what differs from the baseline beside the layer, for every benchmark and platform that is compared.

    of_layer: facts of the layer itself to compare, too, by the resource for which they matter.
    What the options of a ladder's rungs make is left out, since the ladder measures it.
    """
    rungs = _rungs(analysis)
    drivers = drivers_of(analysis) if rungs else {}  # they take long to import
    platforms_and_labels: dict[tuple[str, str, str], tuple[dict[str, None], dict[str, None]]] = {}
    sections = []
    for section in analysis.sections:
        resource = resource_of(section.benchmark)
        fields_of_layer = of_layer.get(resource, frozenset())
        sections.append(
            (section.label, FACTS[resource], fields_of_layer, tuple(_compared(section)))
        )
    for facts in _first_together(analysis):
        baseline = facts[analysis.baseline]
        for label, fields, fields_of_layer, platforms_of_label in sections:
            for platform in platforms_of_label:
                for difference in _differences(
                    facts.get(platform, {}), baseline, fields, fields_of_layer
                ):
                    driver = drivers.get(platform) if platform in rungs else None
                    if driver and driver.Options.choice_behind(*difference):
                        continue
                    platforms, labels = platforms_and_labels.setdefault(difference, ({}, {}))
                    platforms[platform] = labels[label] = None
    return tuple(
        AlsoDiffers(
            fact,
            tuple(platforms),
            tuple(labels),
            value,
            baseline_value,
            Note(
                "also-differs",
                fact=_SHOWN.get(fact, fact),
                value=value,
                baseline=analysis.baseline,
                other=baseline_value,
            ),
        )
        for (fact, value, baseline_value), (platforms, labels) in platforms_and_labels.items()
    )


def _rungs(analysis: Analysis) -> frozenset[str]:
    """Return the platforms of a ladder, and those with or without one of its mechanisms alone."""
    names = {rung["platform"] for rung in analysis.declared.get("rung") or []}
    for order in analysis.declared.get("both_orders") or []:
        names.update((order["whole"], order["alone"], order["without"]))
    return frozenset(names)


def _first_together(analysis: Analysis) -> Iterator[Mapping[str, Mapping[str, Fact]]]:
    """Yield platform -> facts of guests that were started alike in one block, so on one host, with the baseline's.

    Of each platform the first such guest is taken, for each way in which guests were started.
    """
    blocks = by_key(
        (guest.block, (guest.platform, guest.facts)) for guest in analysis.guests if guest.facts
    )
    pairs: set[tuple[str, str]] = set()
    for guests in blocks.values():
        for start, platforms in started_alike(guests).items():
            if analysis.baseline not in platforms:
                continue
            fresh = [name for name in platforms if (start, name) not in pairs]
            pairs.update((start, name) for name in fresh)
            if fresh:
                names = dict.fromkeys([*fresh, analysis.baseline])
                yield {name: _facts(platforms[name][0]) for name in names}


def _compared(section: Section) -> Iterator[str]:
    """Yield the platforms that a section compares with the baseline."""
    yield from dict.fromkeys(row.platform.name for row in section.rows if row.ratio is not None)


def _differences(
    facts: Mapping[str, Fact],
    baseline: Mapping[str, Fact],
    fields: frozenset[str],
    of_layer: frozenset[str],
) -> Iterator[tuple[str, str, str]]:
    """Yield fact, value and the baseline's, of what both have and is not the layer, or is among `of_layer`."""
    kinds = {str(guest.get("isolation", "")) for guest in (facts, baseline)}
    if "" in kinds:  # of a run that does not say what its layers are
        return
    layer = _OF_KERNEL if "kernel" in kinds and "elsewhere" not in kinds else frozenset[str]()
    unlike: dict[str, list[str]] = {}
    for name in sorted(facts.keys() & baseline.keys()):
        if facts[name] == baseline[name]:
            continue
        group = name.partition(".")[0]
        is_beside = not layer & {name, *name.split(".")} and bool(fields & {name, group})
        if is_beside or name in of_layer:
            unlike.setdefault(group if group in ("hash", "mitigation") else name, []).append(name)
    for explained, implied in _IMPLIES:
        if explained in unlike:
            unlike.pop(implied, None)
    for fact, names in unlike.items():
        yield fact, _text(facts, fact, names), _text(baseline, fact, names)


def _text(facts: Mapping[str, Fact], fact: str, names: list[str]) -> str:
    """`ext4`; of several facts shown as one with their own names, `libc.so.6 5d9f91218fd59082, ...`."""
    if names == [fact]:
        return text_of(facts[fact], fact)
    return ", ".join(f"{name.removeprefix(f'{fact}.')} {text_of(facts[name])}" for name in names)


def _facts(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Return facts of a guest to compare: interfaces of a lab, not of this host; options of mounts for speed."""
    facts_of_guest = {
        name: value
        for name, value in facts.items()
        if _IN_LAB in facts or not name.startswith("interface.")
    }
    options = facts_of_guest.get("scratch_mount_options")
    if isinstance(options, list):
        speed_options = [
            option for option in options if str(option).partition("=")[0] in _FOR_SPEED
        ]
        facts_of_guest["scratch_mount_options"] = speed_options or "no options for speed"
    return facts_of_guest
