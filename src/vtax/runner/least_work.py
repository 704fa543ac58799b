"""The cost of a program before it works: its start and its end are no part of the cost of a unit of work.

In a trial of 0.1 s they are a tenth of the CPU time, and layers start programs at unlike costs. So in every guest a
cell of short trials first has one of the least work, which is not stored. What it cost is subtracted from each trial,
and so is what it did: the cost of a unit is the slope between two lengths of trials. Both are measured in every
guest, so that the intervals know how much they vary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vtax.benchmarks.base import CPU_PER_GIGABYTE, Context
from vtax.benchmarks.length import with_least_work
from vtax.runner.plan import PlannedCell
from vtax.runner.points import Point

SHORT_S = 1.0
"""Trials that are expected to last longer are left as they are: their start is below a hundredth."""


@dataclass(frozen=True)
class LeastWork:
    """The counters of a trial of the least work, and its number of operations; None where its tool counts none."""

    counted: Mapping[tuple[str, str], float]
    number: float | None

    def subtract_from(
        self, counted: Mapping[tuple[str, str], float]
    ) -> Mapping[tuple[str, str], float]:
        """Return the counters of a trial without those of the least work."""
        if not self.counted:
            return counted
        return {key: value - self.counted.get(key, 0.0) for key, value in counted.items()}


NOTHING = LeastWork({}, 0.0)
"""For trials whose start is part of their work, hardly counts, or is that of a program outside of the guest."""
UNKNOWN = LeastWork({}, None)
"""Where that trial failed, or there is nothing less to do: the costs of a short trial are then not known."""


def has_costly_start(point: Point, context: Context) -> bool:
    """Return whether the start of a program is a part of what a trial costs that is no work."""
    benchmark = point.benchmark
    if benchmark.stages or point.expected_s(context) >= SHORT_S:
        return False
    is_all_one = benchmark.work is not None and not benchmark.work.setting
    if is_all_one or (benchmark.work is None and CPU_PER_GIGABYTE not in benchmark.metrics):
        return False
    commands = benchmark.commands(point.parameters, context)
    return any(command.role != "server" and command.place == "guest" for command in commands)


def with_least(cell: PlannedCell) -> PlannedCell | None:
    """Return a cell whose trials do the least work; None where its tool has nothing less to do."""
    parameters = with_least_work(cell.point.benchmark, cell.point.parameters)
    if parameters is None or parameters == cell.point.parameters:
        return None
    least = replace(cell.point, parameters=parameters, trial_time_s=None)
    return replace(cell, point=least)
