"""Facts that differ where platforms differ, the likeliest cause first, and the commands that find out.

A counter that moved with a difference is an association, and so is a fact of the audit. But a fact that is an option
of the driver can be tested: a run of the same platform with and without it, and nothing else changed. Facts beside
the layer (`also_differs`) come before what is the layer itself, since the first are no cost of the platform's kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from vtax.benchmarks.base import Resource
from vtax.described import Means
from vtax.report.analysis.also_differs import FACTS, AlsoDiffers, also_differs
from vtax.report.analysis.drivers import drivers_of
from vtax.report.analysis.values import Analysis
from vtax.report.answers.explain.compute import explainable

_NIC = "interface.eth0.driver"
_OF_EVERY = frozenset({"root_file_system", "seccomp_filters"})
LAYER_FACTS: Mapping[Resource, frozenset[str]] = {
    **dict.fromkeys(FACTS, _OF_EVERY),
    "network": _OF_EVERY | {_NIC},
    "application": _OF_EVERY | {_NIC},
}
"""Facts of layers, of which their costs are known to be made, by the resource for which they matter."""
_OF_LAYERS = _OF_EVERY | {_NIC}


@dataclass(frozen=True)
class Suspect(AlsoDiffers):
    """A fact that differs where platforms differ from the baseline.

    platforms, labels: those whose difference is to be explained.
    """

    is_layer: Annotated[bool, Means("it is the layer under test, not something beside it")]
    commands: Annotated[
        tuple[str, ...],
        Means("runs that change this alone, one for each platform whose driver has an option"),
    ]


def suspects(analysis: Analysis) -> tuple[Suspect, ...]:
    """Return what differs on the platforms and benchmarks whose difference is to be explained.

    First what is beside the layer, then what the layer is; of each first what can be tested, and what concerns most
    comparisons.
    """
    contrasts: list[tuple[str, str]] = []
    for section, _, row, _ in explainable(analysis.sections):
        contrasts.append((row.platform.name, section.label))
    ranked_suspects: list[tuple[int, Suspect]] = []
    for fact in also_differs(analysis, LAYER_FACTS):
        concerned = [
            (platform, label)
            for platform, label in contrasts
            if platform in fact.platforms and label in fact.labels
        ]
        if concerned:
            platforms = tuple(dict.fromkeys(platform for platform, _ in concerned))
            suspect = Suspect(
                fact.fact,
                platforms,
                tuple(dict.fromkeys(label for _, label in concerned)),
                fact.value,
                fact.baseline_value,
                fact.text,
                fact.fact in _OF_LAYERS,
                tuple(_commands(analysis, fact, platforms)),
            )
            ranked_suspects.append((len(concerned), suspect))
    ranked_suspects.sort(key=lambda pair: (pair[1].is_layer, not pair[1].commands, -pair[0]))
    return tuple(suspect for _, suspect in ranked_suspects)


def anatomies(analysis: Analysis) -> tuple[str, ...]:
    """Return the commands that take platforms apart, of those that differ and have a ladder; of most benchmarks first."""
    from vtax.platforms.registry import ladders
    from vtax.study.load import load

    titles = load("anatomy").study.benchmark_titles
    labels: dict[str, list[str]] = {}
    for section, _, row, _ in explainable(analysis.sections):
        is_lossy = row.verdict is not None and row.verdict.kind == "slower"
        name = row.platform.name
        if is_lossy and name in ladders() and section.label in titles:
            labels.setdefault(name, []).append(section.label)
    pairs_by_reach = sorted(labels.items(), key=lambda pair: -len(set(pair[1])))
    return tuple(
        f"sudo vtax anatomy --of {name} {' '.join(dict.fromkeys(of_name))}"
        for name, of_name in pairs_by_reach
    )


def _commands(
    analysis: Analysis, difference: AlsoDiffers, platforms: Sequence[str]
) -> Iterator[str]:
    from vtax.study.load import shipped

    study = analysis.study if analysis.study in shipped() else f"{analysis.study}.toml"
    for platform, driver in drivers_of(analysis).items():
        if platform not in platforms:
            continue
        choice = driver.Options.choice_behind(
            difference.fact, difference.value, difference.baseline_value
        )
        if choice:
            name, level, other_level = choice
            sides = f"{platform}:{name}={level},{platform}:{name}={other_level}"
            yield f"sudo vtax run {study} --ab {sides}"
