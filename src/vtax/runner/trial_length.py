"""How much work a trial of equal time holds: found out once for each platform, and kept for all blocks of the run.

A study with `trial_time` gives every platform as much work as lasts that long there. In the first block that has a
cell, a few trials that are not stored find its count: from the least work on, ever more, until the trial lasts about
as long as it should beyond one of the least work. What a tool needs to start and to end is so no part of the time.
The count stands among the parameters of the cell from then on, in the store and in bundles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from vtax.benchmarks.base import WorkParameter
from vtax.runner.plan import PlannedCell
from vtax.runner.trial import TrialResult
from vtax.store.records import CellRecord

_GROWTH = 8.0  # of the count, while a trial is too short to tell how long the work lasts
_TELLING, _TELLING_OF_LEAST = 0.1, 0.3
"""Shares of the time that is wanted and of a trial of the least work, which varies: work that lasts so long tells by
how much the count is to grow."""
_ENOUGH = 0.7  # of the time: the count of such a trial is scaled
_MOST_TRIALS = 20


class CalibrationFailed(Exception):
    """A trial by which the count of a cell was to be found out failed. result: of that trial."""

    def __init__(self, result: TrialResult) -> None:
        super().__init__(result.error)
        self.result = result


class TrialLengths:
    """The counts of work of a run's cells, as far as they are known."""

    def __init__(self, stored: Iterable[CellRecord]) -> None:
        """Take the counts that earlier sessions found out. stored: the cells of the run in the store."""
        self._stored = {cell.key: cell.parameters for cell in stored}
        self._known: dict[str, PlannedCell] = {}

    def known(self, cell: PlannedCell) -> PlannedCell | None:
        """Return a cell with the count of its trials; None where it is to be found out."""
        counted = cell.point.counted
        if counted is None:
            return cell
        if cell.key not in self._known:
            count = self._stored[cell.key].get(counted.parameter)
            if count is None:
                return None
            self._known[cell.key] = _with_count(cell, counted, count)
        return self._known[cell.key]

    def find_out(self, cell: PlannedCell, run: Callable[[PlannedCell], TrialResult]) -> PlannedCell:
        """Return a cell with the count by which its trials last as long as the study asks.

        run: runs a trial that is not stored.
        Raises CalibrationFailed.
        """
        counted, trial_time_s = cell.point.counted, cell.point.trial_time_s
        assert counted is not None
        assert trial_time_s is not None
        count = float(counted.least)
        least_s = _duration_s(run(_with_count(cell, counted, count)))
        telling_s = max(_TELLING * trial_time_s, _TELLING_OF_LEAST * least_s)
        wanted_s = max(trial_time_s, least_s)
        work_s = 0.0
        for _ in range(_MOST_TRIALS):
            count *= wanted_s / work_s if work_s >= telling_s else _GROWTH
            work_s = _duration_s(run(_with_count(cell, counted, count))) - least_s
            if work_s >= _ENOUGH * wanted_s:
                break
        if work_s > 0:
            count *= trial_time_s / work_s
        self._known[cell.key] = _with_count(cell, counted, count)
        return self._known[cell.key]


def _with_count(cell: PlannedCell, counted: WorkParameter, count: float) -> PlannedCell:
    return replace(cell, point=cell.point.with_count(counted, count))


def _duration_s(result: TrialResult) -> float:
    """Return how long the measured program of a trial ran. Raises CalibrationFailed where it failed."""
    if result.error:
        raise CalibrationFailed(result)
    assert result.foreground is not None
    return result.foreground.outside_s
