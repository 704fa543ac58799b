"""How many guests a host takes: numbers beyond the first that breaks a bound are not measured.

In the first block the numbers of a platform rise. A number breaks the bound of its table (`guests_until`) when the
mean of its trials so far lies beyond it, or when more of them failed than went well. It is still measured in further
blocks, and so are larger ones once it no longer breaks the bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from vtax.grouping import by_key
from vtax.levels import BENCHMARK, PLATFORM, Levels
from vtax.question import rest
from vtax.runner.plan import GuestLife, Plan, PlannedCell
from vtax.study.model import GuestsUntilTable

_SEARCH = rest("guests")


class GuestLimits:
    """The searches of a run for the number of guests that a platform takes: one for each combination of other factors.

    already: stored (key of a cell, value of its bounded metric) of a resumed run, None for a failed trial.
    """

    def __init__(self, plan: Plan, already: Iterable[tuple[str, float | None]] = ()) -> None:
        self._bounds = bounds_of(plan)
        self._cells: dict[Levels, list[PlannedCell]] = defaultdict(list)
        for cell in plan.cells:
            if cell.point.label in self._bounds:
                self._cells[_search(cell)].append(cell)
        self._values: dict[str, list[float | None]] = defaultdict(list)
        for key, value in already:
            self._values[key].append(value)

    def add(self, cell: PlannedCell, values: Mapping[str, float] | None) -> None:
        """Take the values of a trial; None of one that failed."""
        bound = self._bounds.get(cell.point.label)
        if bound is not None:
            self._values[cell.key].append(None if values is None else values.get(bound.metric))

    def is_beyond(self, cell: PlannedCell) -> bool:
        """Return whether fewer guests of the platform break the bound already."""
        if cell.point.label not in self._bounds:
            return False
        return any(
            other.point.colocation.guests < cell.point.colocation.guests and self._breaks(other)
            for other in self._cells[_search(cell)]
        )

    def rising(self, lives: Sequence[GuestLife]) -> list[GuestLife]:
        """Return lives in their order, but those of a platform with bounded numbers of guests by rising number."""
        waiting = by_key((life.platform.name, life) for life in lives if self._is_bounded(life))
        for of_platform in waiting.values():
            of_platform.sort(key=lambda life: life.colocation.guests, reverse=True)
        return [
            waiting[life.platform.name].pop() if self._is_bounded(life) else life for life in lives
        ]

    def _breaks(self, cell: PlannedCell) -> bool:
        values = self._values.get(cell.key, [])
        good = [value for value in values if value is not None]
        if len(good) < len(values) - len(good):
            return True
        return bool(good) and not self._bounds[cell.point.label].holds(sum(good) / len(good))

    def _is_bounded(self, life: GuestLife) -> bool:
        return any(cell.point.label in self._bounds for cell in life.cells)


def bounds_of(plan: Plan) -> dict[str, GuestsUntilTable]:
    """Return the bound of each table that has one, by its label."""
    bounds = {}
    for table in plan.study.benchmark:
        if table.guests_until is not None:
            bounds[table.title] = table.guests_until
    return bounds


def _search(cell: PlannedCell) -> Levels:
    levels = {**cell.point.levels, PLATFORM: cell.platform.name, BENCHMARK: cell.point.label}
    return _SEARCH.of(Levels(levels))
