"""A stored run as views ask for it: the analysis at once, what costs another query when a view wants it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from vtax.report.analysis.result import analyse_data
from vtax.report.analysis.values import Analysis
from vtax.store.query import RunData, load
from vtax.store.query import counters as query_counters
from vtax.store.query import samples as query_samples
from vtax.store.query import used as query_used
from vtax.store.store import LAST, Store


class Source:
    """A run and all that is stored with it. data: as loaded. analysis: its result."""

    def __init__(self, data: RunData, analysis: Analysis, store: Store | None = None) -> None:
        """store: where the run is kept; without one there are no counters and no samples."""
        self.data = data
        self.analysis = analysis
        self._store = store

    @cached_property
    def samples(self) -> Mapping[int, Mapping[str, Sequence[float]]]:
        """See store.query.samples. Raises StoreError."""
        return query_samples(self._store.engine, self.data.run) if self._store else {}

    @cached_property
    def counters(self) -> Mapping[tuple[int, str, str], tuple[float, int]]:
        """See store.query.counters. Raises StoreError."""
        return query_counters(self._store.engine, self.data.run) if self._store else {}

    @cached_property
    def used(self) -> Mapping[int, str]:
        """See store.query.used. Raises StoreError."""
        return query_used(self._store.engine, self.data.run) if self._store else {}


def source_of(store: Store, run_name: str = LAST, *, resamples: int = 0) -> Source:
    """A stored run; `last` is the newest. Raises BadInput for an unknown run, StoreError."""
    data = load(store.engine, store.open_run(run_name))
    return Source(data, analyse_data(data, resamples=resamples), store)
