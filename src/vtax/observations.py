"""The values of a run as columns: a line for every value of a trial that went well, warm-up left out.

This is the one place that picks from the stored measurements what a result is made of. All values of one cell in one
metric stand together, in the order in which the trials were made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from vtax.store.query import Floats, Ints, RunData, Trials

_Figure = tuple[int, int]  # a cell and a metric, as indices into those of the run


@dataclass(frozen=True)
class Observations:
    """Columns of equal length.

    trials: of the run.
    place: of the trial among them.
    spans: cell and metric, as indices into those of the run, ascending -> the first of its lines, and the one after
        the last.
    """

    trials: Trials
    place: Ints
    value: Floats
    spans: Mapping[_Figure, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of_run(cls, data: RunData) -> Observations:
        """Return the observations of a run that was loaded."""
        trials, measured = data.trials, data.measurements
        place, metric, value = measured.trial, measured.metric, measured.value
        is_used = (trials.is_ok & ~trials.is_warmup)[place]
        if not is_used.all():
            place, metric, value = place[is_used], metric[is_used], value[is_used]
        metrics = int(metric.max(initial=0)) + 1
        of_trial = trials.cell.astype(np.int64) * metrics
        kind = np.min_scalar_type(int(of_trial.max(initial=0)) + metrics)
        figure = of_trial.astype(kind)[place]
        figure += metric.astype(kind)
        order = _order(figure, place, trials.position)
        figure = figure[order]
        return cls(trials, place[order], value[order], _spans(figure, metrics))

    @property
    def cell(self) -> Ints:
        """The cell of each line, as index into those of the run."""
        return self.trials.cell[self.place].astype(np.int64)

    @property
    def trial(self) -> Ints:
        """The id of the trial of each line, as in `Trials.id`."""
        return self.trials.id[self.place]

    @property
    def block(self) -> Ints:
        """The block of each line."""
        return self.trials.block[self.place].astype(np.int64)

    @property
    def position(self) -> Ints:
        """The position of the trial in the run, ascending within a cell and a metric."""
        return self.trials.position[self.place]

    def of(self, cell: int, metric: int) -> Observations:
        """Return those of one cell in one metric; none where it has no value."""
        return self._part(*self.spans.get((cell, metric), (0, 0)))

    def none(self) -> Observations:
        """Return the same without any line."""
        return self._part(0, 0)

    def _part(self, first: int, end: int) -> Observations:
        return Observations(self.trials, self.place[first:end], self.value[first:end])

    def by_figure(self) -> Iterator[tuple[int, int, Observations]]:
        """Yield every cell and metric that have a value, with their observations."""
        for cell, metric in self.spans:
            yield cell, metric, self.of(cell, metric)


def _spans(figure: Any, metrics: int) -> dict[_Figure, tuple[int, int]]:
    """Return the spans of sorted numbers of figures: cell times the number of metrics, plus the metric."""
    starts = np.flatnonzero(figure[1:] != figure[:-1]) + 1
    bounds = [0, *starts.tolist(), figure.size] if figure.size else []
    spans = {}
    for first, end in pairwise(bounds):
        spans[divmod(int(figure[first]), metrics)] = (first, end)
    return spans


def _order(figure: Any, place: Ints, position: Ints) -> Ints:
    """Return how lines are put in order: by the figure, then by the position.

    Those of a stored run ascend, so that one stable sort does it, which takes no comparisons where figures are few.
    """
    if (np.diff(place) < 0).any() or (np.diff(position) < 0).any():
        return np.lexsort((position[place], figure))
    return np.argsort(figure, kind="stable")
