"""What a block will cost in time, by the newest stored run of the same cells on this host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vtax.counters.host import machine_id
from vtax.errors import StoreError
from vtax.runner.plan import Plan
from vtax.store.costs import StoredCosts, costs
from vtax.store.query import RunData, load
from vtax.store.store import Store

_RUNS_READ = 10  # of the newest of the same study


def stored_runs(plan: Plan, store: Store) -> Iterator[tuple[str, RunData]]:
    """(name, data) of the study's stored runs of this host that have all of the plan's cells, newest first.

    Runs that cannot be read are passed over.
    """
    here, keys = machine_id(), {cell.key for cell in plan.cells}
    names = [run.name for run in store.runs() if run.study == plan.study.name]
    for name in reversed(names[-_RUNS_READ:]):
        try:
            run = store.open_run(name)
            if not here or run.host.get("machine_id") != here or not keys <= {cell.key for cell in run.cells}:
                continue
            yield name, load(store.engine, run)
        except StoreError:
            continue


def with_costs(plan: Plan, store: Store) -> Plan:
    """The plan with the costs of its cells in the newest stored run that has those of all; else as it was."""
    for name, data in stored_runs(plan, store):
        found = costs(data, own_time=True)
        if all(cell.key in found for cell in plan.cells):
            return replace(plan, stored_costs=StoredCosts(f"run {name}", found))
    return plan
