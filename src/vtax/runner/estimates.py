"""Estimates of a block's time, by stored runs of this host: of the same cells, or of the same benchmarks."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from pydantic import ValidationError

from vtax.benchmarks.base import Context
from vtax.benchmarks.length import expected_s, read_parameters
from vtax.benchmarks.registry import find_benchmark
from vtax.counters.host import machine_id
from vtax.errors import StoreError
from vtax.runner.plan import Plan
from vtax.stats.means import TRIAL_TIME
from vtax.store.costs import Cost, StoredCosts, costs, guests_s
from vtax.store.query import RunData, load
from vtax.store.store import Store


def stored_runs(plan: Plan, store: Store) -> Iterator[tuple[str, RunData]]:
    """Yield (name, data) of the study's stored runs of this host that have all of the plan's cells, newest first.

    Runs that cannot be read are passed over.
    """
    keys = {cell.key for cell in plan.cells}
    for run in store.newest(machine_id(), plan.study.name):
        if keys <= {cell.key for cell in run.cells}:
            with suppress(StoreError):
                yield run.name, load(store.engine, run)


def with_costs(plan: Plan, store: Store) -> Plan:
    """Return the plan with the costs of its cells in the newest stored run that has those of all; without one, with
    costs of the same benchmarks in other runs; else as it was."""
    for name, data in stored_runs(plan, store):
        known = costs(data, own_time=True)
        if all(cell.key in known for cell in plan.cells):
            return replace(plan, stored_costs=StoredCosts(f"run {name}", known))
    return _with_costs_of_benchmarks(plan, store)


@dataclass(frozen=True)
class _RunTimes:
    """Times of one run.

    ratios: (platform, benchmark) -> duration of a trial over the expected one. start_s: of a platform's guests in a
    block.
    """

    ratios: Mapping[tuple[str, str], float]
    start_s: Mapping[str, float]


def _with_costs_of_benchmarks(plan: Plan, store: Store) -> Plan:
    """Return the plan with costs from the newest runs of this host that have its benchmarks on its platforms.

    A trial is expected to last as long as its tool expects, times the median ratio of observed to expected durations
    in such a run; the start of guests is that of the run. The plan as it was where a platform lacks a benchmark in
    all runs.
    """
    context = plan.context()
    missing = {(cell.platform.name, cell.point.benchmark.name) for cell in plan.cells}
    if not missing:
        return plan
    ratios: dict[tuple[str, str], float] = {}
    start_s: dict[str, float] = {}
    used: list[str] = []
    for run in store.newest(machine_id()):
        if missing.isdisjoint((cell.platform, cell.benchmark) for cell in run.cells):
            continue
        try:
            times = _times_of_run(load(store.engine, run), context)
        except StoreError:
            continue
        new = missing & times.ratios.keys()
        if not new:
            continue
        missing -= new
        ratios.update((pair, times.ratios[pair]) for pair in new)
        used.append(run.name)
        for platform, seconds in times.start_s.items():
            start_s.setdefault(platform, seconds)
        if not missing:
            break
    if missing:
        return plan
    cell_counts = Counter(cell.platform.name for cell in plan.cells)
    cell_costs = {}
    for cell in plan.cells:
        platform = cell.platform.name
        ratio = ratios[platform, cell.point.benchmark.name]
        cell_start_s = start_s.get(platform, 0.0) / cell_counts[platform]
        cell_costs[cell.key] = Cost(cell_start_s, ratio * cell.point.expected_s(context))
    runs = f"run{'s' if len(used) > 1 else ''} {', '.join(used)}"
    return replace(plan, stored_costs=StoredCosts(f"the same benchmarks in {runs}", cell_costs))


def _times_of_run(data: RunData, context: Context) -> _RunTimes:
    ratios: dict[tuple[str, str], list[float]] = {}
    known = costs(data, own_time=True)
    for cell in data.run.cells:
        benchmark, cost = find_benchmark(cell.benchmark), known.get(cell.key)
        if benchmark is None or cost is None:
            continue
        try:
            parameters = read_parameters(benchmark, cell.parameters)
        except ValidationError:  # of another version of vtax
            continue
        on_link = replace(context, link_mbit_s=cell.link.get("rate_mbit_s"))
        trial_time_s = cell.parameters.get(TRIAL_TIME)
        ratio = cost.trial_s / expected_s(benchmark, parameters, on_link, trial_time_s)
        ratios.setdefault((cell.platform, cell.benchmark), []).append(ratio)
    medians = {pair: statistics.median(values) for pair, values in ratios.items()}
    return _RunTimes(medians, guests_s(data))
