"""The values of a run as columns: a line for every value of a trial that went well, warm-up left out.

This is the one place that picks from the stored measurements what a result is made of. All values of one cell in one
metric stand together, in the order in which the trials were made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from vtax.store.query import Floats, Ints, RunData


@dataclass(frozen=True)
class Observations:
    """Columns of equal length.

    cell, metric: indices into the cells and metrics of the run; lines ascend by the cell, then by the metric.
    trial: id of the trial, as in `Trials.id`.
    position: of the trial in the run, ascending within a cell and a metric.
    """

    cell: Ints
    metric: Ints
    trial: Ints
    block: Ints
    position: Ints
    value: Floats

    @classmethod
    def of_run(cls, data: RunData) -> Observations:
        """Return the observations of a run that was loaded."""
        trials, measured = data.trials, data.measurements
        used = (trials.is_ok & ~trials.is_warmup)[measured.trial]
        trial, metric, value = measured.trial[used], measured.metric[used], measured.value[used]
        order = _order(trials.cell[trial], metric, trials.position[trial])
        trial = trial[order]
        return cls(
            trials.cell[trial],
            metric[order],
            trials.id[trial],
            trials.block[trial],
            trials.position[trial],
            value[order],
        )

    def of(self, cell: int, metric: int) -> Observations:
        """Return those of one cell in one metric; none where it has no value."""
        return self._part(*self._spans.get((cell, metric), (0, 0)))

    def none(self) -> Observations:
        """Return the same without any line."""
        return self._part(0, 0)

    def _part(self, first: int, end: int) -> Observations:
        return Observations(*(getattr(self, each.name)[first:end] for each in fields(self)))

    def by_figure(self) -> Iterator[tuple[int, int, Observations]]:
        """Yield every cell and metric that have a value, with their observations."""
        for cell, metric in self._spans:
            yield cell, metric, self.of(cell, metric)

    @cached_property
    def _spans(self) -> dict[tuple[int, int], tuple[int, int]]:
        """(cell, metric) -> the first of its lines, and the one after the last."""
        is_first: Any = np.ones(self.value.size, np.bool_)
        is_first[1:] = (np.diff(self.cell) != 0) | (np.diff(self.metric) != 0)
        starts = np.flatnonzero(is_first)
        ends = np.append(starts, self.value.size)[1:]
        keys = zip(self.cell[starts].tolist(), self.metric[starts].tolist(), strict=True)
        return dict(zip(keys, zip(starts.tolist(), ends.tolist(), strict=True), strict=True))


def _order(cell: Ints, metric: Ints, position: Ints) -> Ints:
    """Return how lines are put in order: by the cell, then by the metric, then by the position.

    Positions of a stored run ascend, so that one stable sort does it, which takes no comparisons where figures are few.
    """
    if (np.diff(position) < 0).any():
        return np.lexsort((position, metric, cell))
    metrics = int(metric.max(initial=0)) + 1
    figure = cell * metrics + metric
    return np.argsort(figure.astype(np.min_scalar_type(int(figure.max(initial=0)))), kind="stable")
