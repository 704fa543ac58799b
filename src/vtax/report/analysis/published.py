"""Numbers of a publication beside the same of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vtax.report.analysis.claim_cells import Entry, entries_of
from vtax.report.analysis.claims import published_of
from vtax.report.analysis.values import Analysis
from vtax.study.claims import BENCHMARK, METRIC, PublishedTable


@dataclass(frozen=True)
class Published:
    """One number. platform: of the publication; here: what stands for it in the run.

    mean: of the run, the largest CV where the statistic is one; None where it was not measured. low, high: of its
    interval. point: levels that the number is of. plus_minus: 0 for none.
    """

    table: PublishedTable
    platform: str
    here: str
    point: tuple[tuple[str, str], ...]
    unit: str
    value: float
    plus_minus: float
    mean: float | None
    low: float | None
    high: float | None


def published(analysis: Analysis, mapped: Mapping[str, str]) -> list[Published]:
    """Return every published number of the run's study, whether its platform was measured or not."""
    entries = entries_of(analysis)
    return [each for table in published_of(analysis) for each in _of_table(analysis, table, entries, mapped)]


def _of_table(
    analysis: Analysis, table: PublishedTable, entries: Sequence[Entry], mapped: Mapping[str, str]
) -> Iterator[Published]:
    named = (table.benchmark.casefold(), table.metric.casefold())
    sections = ((s.label.casefold(), s.metric.name.casefold(), s.metric.unit) for s in analysis.sections)
    unit = next((unit for *names, unit in sections if tuple(names) == named), "")
    point = tuple((factor, _shown(level)) for factor, level in table.where.items())
    for platform, value in table.values.items():
        here = mapped.get(platform, platform)
        rows = [entry.row.summary for entry in entries if entry.row.platform.name == here and _is_of(entry, table)]
        found = [summary for summary in rows if summary is not None]
        mean = low = high = None
        if table.statistic == "largest_cv":
            mean = max((summary.cv for summary in found if summary.n > 1), default=None)
        elif len(found) == 1:
            mean = found[0].mean
            low, high = (found[0].low, found[0].high) if found[0].blocks > 1 else (None, None)
        deviation = table.plus_minus.get(platform, 0.0)
        yield Published(table, platform, here, point, unit, value, deviation, mean, low, high)


def _shown(level: object) -> str:
    return ", ".join(map(str, level)) if isinstance(level, list) else str(level)


def _is_of(entry: Entry, table: PublishedTable) -> bool:
    wanted = {BENCHMARK: (table.benchmark.casefold(),), METRIC: (table.metric.casefold(),), **table.levels}
    return all(entry.levels.get(factor) in levels for factor, levels in wanted.items())
