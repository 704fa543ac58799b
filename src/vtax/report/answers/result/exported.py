"""The result of a run as programs read it: schema `vtax.analysis/1`. Units are the metrics', unscaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from vtax.described import BESIDE, Means
from vtax.report.analysis.also_differs import AlsoDiffers, also_differs
from vtax.report.analysis.next_step import NextStep, next_step_of
from vtax.report.analysis.source import Source
from vtax.report.analysis.values import Analysis
from vtax.report.answers.counters.compute import effective_of_cells
from vtax.report.answers.recommend.resources import ResourceCosts, costs_of
from vtax.report.parts.sentences import PlatformAnswer, answers
from vtax.store.records import LEVELS, CellRecord, PlatformRecord


@dataclass(frozen=True)
class PlatformResult:
    """A platform of a result."""

    record: Annotated[PlatformRecord, BESIDE]
    ready_s: Annotated[list[float], Means("start to ready of every guest", unit="s")]


@dataclass(frozen=True)
class EffectiveCell:
    """Settings in force in a cell."""

    cell: Annotated[CellRecord, Means("key of the cell", take="key")]
    platform: Annotated[str, Means("platform")]
    label: Annotated[str, Means("name of the benchmark table")]
    levels: Annotated[Mapping[str, Any], LEVELS]
    settings: Annotated[
        Mapping[str, list[Any]], Means("setting -> list of its different values in measured trials")
    ]


@dataclass(frozen=True)
class ExportedResult:
    """All of a result; effective is empty where it was not read."""

    schema: Annotated[str, Means("`vtax.analysis/1`")]
    analysis: Annotated[Analysis, BESIDE]
    platforms: Annotated[tuple[PlatformResult, ...], Means("platforms of the study")]
    resources: Annotated[
        tuple[ResourceCosts, ...], Means("overhead of every platform on every resource")
    ]
    next_step: Annotated[
        NextStep | None,
        Means("what would decide what is undecided; null where nothing is, or unknown"),
    ]
    answers: Annotated[tuple[PlatformAnswer, ...], Means("a sentence for every platform")]
    also_differs: Annotated[
        tuple[AlsoDiffers, ...],
        Means("what differs from the baseline beside the layer under test, and may be a cause"),
    ]
    effective: Annotated[
        tuple[EffectiveCell, ...], Means("settings that were really in force, by cell")
    ] = ()


def exported(analysis: Analysis, effective: tuple[EffectiveCell, ...] = ()) -> ExportedResult:
    """All that programs read of a result. Texts are messages still, which the JSON renderer writes in English."""
    platforms = tuple(
        PlatformResult(platform, analysis.ready_s(platform.name)) for platform in analysis.platforms
    )
    return ExportedResult(
        "vtax.analysis/1",
        analysis,
        platforms,
        costs_of(analysis),
        next_step_of(analysis),
        answers(analysis),
        also_differs(analysis),
        effective,
    )


def exported_whole(source: Source) -> ExportedResult:
    """Return the same with what was in force in every cell. Raises StoreError."""
    in_force = effective_of_cells(source.data, source.effective)
    cells = enumerate(source.data.run.cells)
    whole_result = (
        EffectiveCell(cell, cell.platform, cell.label, cell.levels, in_force[number])
        for number, cell in cells
        if number in in_force
    )
    return exported(source.analysis, tuple(whole_result))
