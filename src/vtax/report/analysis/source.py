"""A stored run as views ask for it: the analysis at once, what costs another query when a view wants it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from vtax.report.analysis.filters import EVERYTHING, FilterWords, filter_of, narrowed
from vtax.report.analysis.result import judged_run, shown
from vtax.report.analysis.values import Analysis
from vtax.store.query import BlockCounters, RunData, load
from vtax.store.query import block_counters as query_block_counters
from vtax.store.query import counters as query_counters
from vtax.store.query import effective as query_effective
from vtax.store.query import samples as query_samples
from vtax.store.store import LAST, Store


class Source:
    """A run and all that is stored with it, or what a filter shows of it. data: as loaded. analysis: its result.

    whole: all of the run, for what depends on all of it: how it was made, and what is judged over all platforms.
    """

    def __init__(
        self,
        data: RunData,
        analysis: Analysis,
        store: Store | None = None,
        whole: Source | None = None,
    ) -> None:
        """store: where the run is kept; without one there are no counters and no samples."""
        self.data = data
        self.analysis = analysis
        self.whole = whole or self
        self.store = store

    @cached_property
    def samples(self) -> Mapping[int, Mapping[str, Sequence[float]]]:
        """See store.query.samples. Raises StoreError."""
        return query_samples(self.store.engine, self.data.run) if self.store else {}

    @cached_property
    def trials_by_position(self) -> Mapping[int, int]:
        """Position of a trial in the run -> its id."""
        trials = self.data.trials
        return dict(zip(trials.position.tolist(), trials.id.tolist(), strict=True))

    @cached_property
    def counters(self) -> Mapping[tuple[int, str, str], tuple[float, int]]:
        """See store.query.counters; of the cells that are shown. Raises StoreError."""
        if self.store is None:
            return {}
        found, cells = query_counters(self.store.engine, self.data.run), self.data.run.cells
        only = self.analysis.filter
        return (
            {key: value for key, value in found.items() if only.shows(cells[key[0]])}
            if only
            else found
        )

    def block_counters(
        self, cells: Collection[int], only: tuple[str, str] | None = None
    ) -> BlockCounters:
        """See store.query.block_counters; nothing without a store. Raises StoreError."""
        return (
            query_block_counters(self.store.engine, self.data.run, cells, only)
            if self.store and cells
            else {}
        )

    @cached_property
    def effective(self) -> Mapping[int, str]:
        """See store.query.effective. Raises StoreError."""
        return query_effective(self.store.engine, self.data.run) if self.store else {}


def source_of(store: Store, run_name: str = LAST, *, wanted: FilterWords | None = None) -> Source:
    """Return a stored run; `last` is the newest. wanted: what of it is shown, None for all.

    Raises BadInput for an unknown run and for a filter that names what is not there, StoreError.
    """
    run = store.open_run(run_name)
    only = EVERYTHING if wanted is None else filter_of(run, wanted)
    data = load(store.engine, run)
    found = judged_run(data)
    whole = Source(data, shown(data, found), store)
    if not only:
        return whole
    return Source(narrowed(data, only.shows), shown(data, found, only), store, whole)
