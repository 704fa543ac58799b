"""The beginning of a run: its study, plan, seed and host are in the store before anything is measured."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from vtax.counters.host import host_facts
from vtax.host.journal import boot_id
from vtax.host.plugins import Origin
from vtax.image import contents
from vtax.messages import Note
from vtax.runner import boots
from vtax.runner.plan import Plan
from vtax.runner.records import (
    cell_record,
    metric_records,
    platform_record,
    plugin_records,
    untested_record,
)
from vtax.store.records import Design, RunRecord
from vtax.store.store import RunHandle, Store
from vtax.study.changes import listed


def begin(
    store: Store,
    plan: Plan,
    *,
    vtax_version: str,
    views: Mapping[str, Origin] | None = None,
    tags: Sequence[str] = (),
    machines: Mapping[str, Any] | None = None,
) -> RunHandle:
    """Create a run in the store before its first trial.

    views: those that vtax does not ship and a report of the run would have, by name.
    tags: labels of the user, as in store.annotations.
    machines: facts about other machines that are measured on, from runner.machines.
    """
    record = RunRecord(
        name=store.next_run_name(plan.study.name),
        study=plan.study.name,
        declared=plan.study.declared(),
        seed=plan.seed,
        vtax_version=vtax_version,
        image_key=plan.image.key,
        host={**host_facts(), **contents.facts(plan.image), **(machines or {})},
        started_at=time.time(),
        untested=[untested_record(untested) for untested in plan.untested],
        plugins=plugin_records(plan, views or {}),
        boot_id=boot_id(),
        tags=tags,
    )
    platforms = [platform_record(plan, index) for index in range(len(plan.platforms))]
    cells = [cell_record(cell) for cell in plan.cells]
    run = store.begin_run(record, Design(platforms, cells, metric_records(plan)))
    _note_design(plan, run)
    return run


def _note_design(plan: Plan, run: RunHandle) -> None:
    """Record with the run what of its design every reader should know."""
    if plan.study.design.order == "sequential":
        run.add_warning(Note("sequential-order"))
    for change in plan.study.changed_by:
        run.add_warning(Note("study-changed", option=change.option, changes=listed(change.parts)))
    if plan.study.boot:
        code = "boots-once" if plan.study.design.order == "sequential" else "boots"
        run.add_warning(Note(code, boots=boots.format_boots(plan.study)))
    if plan.programs:
        programs = tuple(map(str, plan.programs))
        if plan.digest:
            run.add_warning(Note("trusted-file", digest=plan.digest, programs=programs))
        else:
            run.add_warning(Note("trusted", programs=programs))
