"""A stored run as views ask for it: the analysis at once, what costs another query when a view wants it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from vtax.errors import BadInput
from vtax.grouping import by_key
from vtax.levels import BENCHMARK, PLATFORM, KnownLevels, unknown
from vtax.question import EVERYTHING, Selection
from vtax.report.analysis.result import judged_run, shown
from vtax.report.analysis.values import Analysis
from vtax.store.query import BlockCounters, RunData, load
from vtax.store.query import block_counters as query_block_counters
from vtax.store.query import counters as query_counters
from vtax.store.query import effective as query_effective
from vtax.store.query import samples as query_samples
from vtax.store.run import RunHandle
from vtax.store.store import LAST, Store

_T = TypeVar("_T")


@dataclass(frozen=True)
class FilterWords:
    """Words of a person who asks for a part of a run, as typed.

    where: conditions, as `Selection.parse` reads them.
    """

    platforms: Sequence[str] = ()
    benchmarks: Sequence[str] = ()
    where: Sequence[str] = ()


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
        self._computed: dict[Callable[[Analysis], Any], Any] = {}

    def of_whole(self, compute: Callable[[Analysis], _T]) -> _T:
        """Return what a function computes from the whole run. It is called once, however many views ask."""
        computed = self.whole._computed
        if compute not in computed:
            computed[compute] = compute(self.whole.analysis)
        result: _T = computed[compute]
        return result

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
        by_cell, cells = query_counters(self.store.engine, self.data.run), self.data.run.cells
        only = self.analysis.shown_cells
        return {key: value for key, value in by_cell.items() if only.selects(cells[key[0]].place)}

    def block_counters(self, cells: Collection[int]) -> BlockCounters:
        """See store.query.block_counters; nothing without a store. Raises StoreError."""
        if not self.store or not cells:
            return {}
        return query_block_counters(self.store.engine, self.data.run, cells)

    @cached_property
    def effective(self) -> Mapping[int, str]:
        """See store.query.effective. Raises StoreError."""
        return query_effective(self.store.engine, self.data.run) if self.store else {}


def source_of(store: Store, run_name: str = LAST, *, wanted: FilterWords | None = None) -> Source:
    """Return a stored run; `last` is the newest. wanted: what of it is shown, None for all.

    Raises BadInput for an unknown run and for a filter that names what is not there, StoreError.
    """
    return source_of_run(store, store.open_run(run_name), wanted=wanted)


def source_of_run(store: Store, run: RunHandle, *, wanted: FilterWords | None = None) -> Source:
    """Return a run of a store that is open, as `source_of` does."""
    only = EVERYTHING if wanted is None else selection_of(run, wanted)
    data = load(store.engine, run)
    judged = judged_run(data)
    whole = Source(data, shown(data, judged), store)
    if not only:
        return whole
    analysis = shown(data, judged, only)
    return Source(data.narrowed(analysis.shown_cells), analysis, store, whole)


def selection_of(run: RunHandle, wanted: FilterWords) -> Selection:
    """Return the cells that a person asked for. A benchmark that is named stands for all tables of it.

    Raises BadInput for a name that the run does not have, and when no cell is left.
    """
    names = [platform.name for platform in run.platforms]
    for name in wanted.platforms:
        if name not in names:
            raise unknown("platform", name, names, "--platform", run.name)
    labels = by_key(
        (name, cell.label) for cell in run.cells for name in (cell.label, cell.benchmark)
    )
    benchmarks = _whole_names(wanted.benchmarks, labels)
    for name in benchmarks:
        if name not in labels:
            raise unknown("benchmark", name, list(labels), "--benchmark", run.name)
    of_names = [label for name in benchmarks for label in labels[name]]
    chosen_levels = {PLATFORM: tuple(wanted.platforms), BENCHMARK: tuple(dict.fromkeys(of_names))}
    known_levels = KnownLevels(run.name, (cell.place for cell in run.cells))
    where = Selection.parse(wanted.where, known_levels, "--where", "write --where FACTOR=LEVEL")
    selection = Selection(
        {name: levels for name, levels in chosen_levels.items() if levels}
    ).and_also(where)
    if selection and not any(selection.selects(cell.place) for cell in run.cells):
        raise _nothing(run, selection, known_levels)
    return selection


def _whole_names(parts: Sequence[str], run_names: Iterable[str]) -> list[str]:
    """Return names that were typed between commas, those together that are one known name with commas of its own."""
    lengths = {tuple(re.split(r"\s*,\s*", name)): name for name in run_names}
    names, words = list[str](), tuple(parts)
    while words:
        count = max((len(key) for key in lengths if key == words[: len(key)]), default=1)
        names.append(lengths.get(words[:count], words[0]))
        words = words[count:]
    return names


def _nothing(run: RunHandle, only: Selection, known_levels: KnownLevels) -> BadInput:
    """Return the error for a selection without a cell: why its platforms were not tested, or what there is."""
    platforms = [platform for platform in run.platforms if platform.name in only.platforms]
    if platforms and not any(platform.available for platform in platforms):
        first = platforms[0]
        return BadInput(
            f"{run.name} could not test {first.name}: {first.reason}",
            where="--platform",
            hint=first.hint,
        )
    exists = [
        f"platforms {', '.join(dict.fromkeys(cell.platform for cell in run.cells))}",
        f"benchmarks {', '.join(dict.fromkeys(cell.label for cell in run.cells))}",
        *(
            f"{factor} {', '.join(known_levels.levels(factor))}"
            for factor in known_levels.factors
            if factor not in (PLATFORM, BENCHMARK)
        ),
    ]
    return BadInput(
        f"{run.name} has no cell with {only.show(', ')}",
        hint=f"each exists, but not together: {'; '.join(exists)}",
    )
