"""Runs of a campaign as one run: merged once for each selection, with what is known of the campaign beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select, update

from vtax.store import schema
from vtax.store.database import reading, writing
from vtax.store.merging import merge, merged_identity
from vtax.store.provenance import CAMPAIGN, merged_runs
from vtax.store.store import Store
from vtax.store.transfer import Watch, unwatched


def merged_campaign(store: Store, runs: Sequence[str], record: Mapping[str, Any], watch: Watch = unwatched) -> str:
    """Return the name of the merged run of these runs, after making it where there is none, and keep a record in it.

    record: see report.analysis.campaign, where each host has `runs` (names) instead of `sessions`. Raises as merge.
    """
    handles = [store.open_run(name) for name in runs]
    identity, table = merged_identity(handles), schema.run
    with reading(store.engine) as connection:
        name = connection.execute(select(table.c.name).where(table.c.identity == identity)).scalar()
    name = name or merge(store, runs, watch)
    merged = store.open_run(name)
    of_run = {str(each.get("identity")): each.get("sessions") for each in merged_runs(merged.provenance)}
    identities = {run.name: run.identity for run in handles}
    hosts = [
        {
            **{key: value for key, value in host.items() if key != "runs"},
            "sessions": [n for run in host["runs"] if run in identities for n in of_run.get(identities[run]) or ()],
        }
        for host in record["hosts"]
    ]
    provenance = {**merged.provenance, CAMPAIGN: {**record, "hosts": hosts}}
    with writing(store.engine) as connection:
        connection.execute(update(table).where(table.c.id == merged.id).values(provenance=provenance))
    return name
