"""Filters of what is shown of a run. A filter selects; it judges nothing again.

Means, ratios, verdicts and ranks are those of the whole run: every verdict stays corrected for the family it was
judged in, however few of that family are shown. The baseline stays beside the platforms that are named, since ratios
are to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated

import numpy as np

from vtax.described import Means
from vtax.errors import BadInput
from vtax.levels import KnownLevels, unknown
from vtax.store.query import Measurements, RunData, Trials
from vtax.store.records import CellRecord, UntestedRecord
from vtax.store.run import RunHandle


@dataclass(frozen=True)
class Filter:
    """Selection of a run: everything, unless something is named.

    platforms, benchmarks: names (of benchmarks also labels). levels: factor -> levels; a cell without the factor is
    not shown. baseline: of the run.
    """

    platforms: Annotated[tuple[str, ...], Means("platforms that were named; none for all")] = ()
    benchmarks: Annotated[tuple[str, ...], Means("benchmarks that were named; none for all")] = ()
    levels: Annotated[Mapping[str, tuple[str, ...]], Means("factor -> levels of it")] = field(
        default_factory=dict
    )
    baseline: str = ""

    def __bool__(self) -> bool:
        return bool(self.platforms or self.benchmarks or self.levels)

    def selects(self, cell: CellRecord) -> bool:
        """Return whether a cell is one of those that were named."""
        return (not self.platforms or cell.platform in self.platforms) and self._has_point(cell)

    def shows(self, cell: CellRecord | UntestedRecord) -> bool:
        """Return whether a cell is shown: one that was named, or the baseline's beside it."""
        return self.shows_platform(cell.platform) and self._has_point(cell)

    def shows_platform(self, name: str) -> bool:
        """Return whether a platform is shown: one that was named, or the baseline."""
        return not self.platforms or name in self.platforms or name == self.baseline

    def _has_point(self, cell: CellRecord | UntestedRecord) -> bool:
        is_of = (
            not self.benchmarks
            or cell.label in self.benchmarks
            or cell.benchmark in self.benchmarks
        )
        return is_of and all(
            str(cell.levels.get(factor)) in levels for factor, levels in self.levels.items()
        )

    @property
    def text(self) -> str:
        """`platform=docker, direction=send`, alternatives joined by `|`."""
        named = {"platform": self.platforms, "benchmark": self.benchmarks, **self.levels}
        return ", ".join(f"{name}={'|'.join(values)}" for name, values in named.items() if values)


EVERYTHING = Filter()


@dataclass(frozen=True)
class FilterWords:
    """Words that a person asked to be shown, as typed. where: `FACTOR=LEVEL`, each."""

    platforms: Sequence[str] = ()
    benchmarks: Sequence[str] = ()
    where: Sequence[str] = ()


def filter_of(run: RunHandle, wanted: FilterWords) -> Filter:
    """Return the filter for a run. Raises BadInput for a name that it does not have, and when no cell is left."""
    names = [platform.name for platform in run.platforms]
    for name in wanted.platforms:
        if name not in names:
            raise unknown("platform", name, names, "--platform", run.name)
    labels = list(
        dict.fromkeys(name for cell in run.cells for name in (cell.label, cell.benchmark))
    )
    for name in wanted.benchmarks:
        if name not in labels:
            raise unknown("benchmark", name, labels, "--benchmark", run.name)
    known = KnownLevels(run.name, (cell.levels for cell in run.cells))
    levels = known.find_all(wanted.where, "--where", "write --where FACTOR=LEVEL")
    baseline = next((platform.name for platform in run.platforms if platform.is_baseline), "")
    found = Filter(tuple(wanted.platforms), tuple(wanted.benchmarks), levels, baseline)
    if found and not any(map(found.selects, run.cells)):
        raise _nothing(run, found, known)
    return found


def _nothing(run: RunHandle, found: Filter, known: KnownLevels) -> BadInput:
    """Return the error for a filter that leaves no cell: why its platforms were not tested, or what there is."""
    named = [platform for platform in run.platforms if platform.name in found.platforms]
    if named and not any(platform.available for platform in named):
        first = named[0]
        return BadInput(
            f"{run.name} could not test {first.name}: {first.reason}",
            where="--platform",
            hint=first.hint,
        )
    exists = [
        f"platforms {', '.join(dict.fromkeys(cell.platform for cell in run.cells))}",
        f"benchmarks {', '.join(dict.fromkeys(cell.label for cell in run.cells))}",
        *(f"{factor} {', '.join(known.levels(factor))}" for factor in known.factors),
    ]
    return BadInput(
        f"{run.name} has no cell with {found.text}",
        hint=f"each exists, but not together: {'; '.join(exists)}",
    )


def narrowed(data: RunData, keeps: Callable[[CellRecord], bool]) -> RunData:
    """Return a run's data of some cells alone, with what concerns their platforms or the whole run."""
    cells = np.array([keeps(cell) for cell in data.run.cells], np.bool_)
    platforms = {cell.platform for cell, kept in zip(data.run.cells, cells, strict=True) if kept}
    kept = cells[data.trials.cell]
    trials = Trials(**{each.name: getattr(data.trials, each.name)[kept] for each in fields(Trials)})
    measured, of_kept = data.measurements, kept[data.measurements.trial]
    position = np.cumsum(kept) - 1
    return RunData(
        data.run,
        trials,
        Measurements(
            position[measured.trial[of_kept]], measured.metric[of_kept], measured.value[of_kept]
        ),
        tuple(guest for guest in data.guests if guest.platform in platforms),
        tuple(warning for warning in data.warnings if warning.cell is None or cells[warning.cell]),
        tuple(failure for failure in data.failures if cells[failure.cell]),
    )
