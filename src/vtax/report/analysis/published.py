"""Numbers of a publication beside the same of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from vtax.described import Means, Only
from vtax.levels import BENCHMARK, METRIC
from vtax.question import Selection, residue
from vtax.report.analysis.claim_cells import entries_of
from vtax.report.analysis.compared import Cell
from vtax.report.analysis.values import Analysis
from vtax.store.records import LEVELS
from vtax.study.claims import PublishedTable


@dataclass(frozen=True)
class Published:
    """One number. mean: of the run, the largest CV where the statistic is one. point: levels that it is of."""

    table: Annotated[
        PublishedTable,
        Only("benchmark", "metric", "statistic", "source", "note", meaning="as the study has it"),
    ]
    platform: Annotated[str, Means("platform of the publication")]
    here: Annotated[str, Means("the one of the run")]
    point: tuple[tuple[str, str], ...]
    unit: Annotated[str, Means("unit")]
    value: Annotated[float, Means("the number", name="published")]
    plus_minus: Annotated[float | None, Means("its deviation or interval, or null")]
    mean: Annotated[
        float | None, Means("the same of this run; null where it was not measured", name="value")
    ]
    low: Annotated[float | None, Means("bounds of its interval")]
    high: Annotated[float | None, Means("bounds of its interval")]
    mixed: Annotated[
        tuple[str, ...],
        Means(
            "factors in which several cells of this run differ, none of which is the one that was published; else empty"
        ),
    ] = ()

    @property
    def levels(self) -> Annotated[Mapping[str, str], LEVELS]:
        """The point, by factor."""
        return dict(self.point)


@dataclass(frozen=True)
class Repeated:
    """The publication that a study repeats, and how far."""

    publication: Annotated[
        str,
        Means(
            "authors, title, venue and year of what the study repeats, as far as known; empty for nothing"
        ),
    ]
    differences: Annotated[
        tuple[Mapping[str, str], ...],
        Means("`what`, `paper` and `here`: where the study differs from it"),
    ]
    changed_by: Annotated[
        tuple[Mapping[str, Any], ...],
        Means(
            "`option` of `vtax run` that changed the study, and `parts`: each `what`, and `label` of one benchmark"
        ),
    ]


def repeated(analysis: Analysis) -> Repeated:
    """Return what the run's study repeats."""
    paper = analysis.declared.get("paper") or {}
    differences = tuple(paper.get("differences") or ())
    return Repeated(
        str(paper.get("citation", "")), differences, tuple(analysis.declared.get("changed_by", ()))
    )


def published_of(analysis: Analysis) -> tuple[PublishedTable, ...]:
    """Return the published numbers that the run's study has."""
    return tuple(
        PublishedTable.model_validate(table) for table in analysis.declared.get("published") or ()
    )


def published(analysis: Analysis, mapped: Mapping[str, str]) -> list[Published]:
    """Return every published number of the run's study, whether its platform was measured or not."""
    entries = entries_of(analysis)
    return [
        number
        for table in published_of(analysis)
        for number in _of_table(analysis, table, entries, mapped)
    ]


def _of_table(
    analysis: Analysis, table: PublishedTable, entries: Sequence[Cell], mapped: Mapping[str, str]
) -> Iterator[Published]:
    units = {(s.label, s.metric.name): s.metric.unit for s in analysis.sections}
    unit = units.get((table.benchmark, table.metric), "")
    point = tuple((factor, _shown(level)) for factor, level in table.where.items())
    for platform, value in table.values.items():
        platform_here = mapped.get(platform, platform)
        cells = [e for e in entries if e.row.platform.name == platform_here and _is_of(e, table)]
        summaries = [cell.row.summary for cell in cells if cell.row.summary is not None]
        mean = low = high = None
        mixed: tuple[str, ...] = ()
        if table.statistic == "largest_cv":
            mean = max((summary.cv for summary in summaries if summary.n > 1), default=None)
        elif len(summaries) == 1:
            mean = summaries[0].mean
            low, high = (
                (summaries[0].low, summaries[0].high) if summaries[0].blocks > 1 else (None, None)
            )
        else:
            mixed = tuple(residue([cell.levels for cell in cells], ()))
        deviation = table.plus_minus.get(platform)
        yield Published(
            table, platform, platform_here, point, unit, value, deviation, mean, low, high, mixed
        )


def _shown(level: object) -> str:
    return ", ".join(map(str, level)) if isinstance(level, list) else str(level)


def _is_of(entry: Cell, table: PublishedTable) -> bool:
    cell_of_table = Selection({BENCHMARK: (table.benchmark,), METRIC: (table.metric,)})
    return cell_of_table.and_also(table.selection).selects(entry.levels)
