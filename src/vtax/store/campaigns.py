"""Campaigns of a store: which of its runs is which session of which host.

Of these runs one is merged, once for each selection, with what is known of the campaign beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, literal, select, true, update

from vtax.store import schema
from vtax.store.database import insert_new, reading, writing
from vtax.store.merging import merge, merged_identity
from vtax.store.provenance import CAMPAIGN, merged_runs
from vtax.store.rows import fetch, reading_rows
from vtax.store.store import Store
from vtax.store.transfer import Watch, unwatched


@dataclass(frozen=True)
class CampaignSession:
    """A session of a host of a campaign. session: its number, from 1. run: name of its run in this store."""

    host: str
    session: int
    run: str


def add_session(engine: Engine, campaign: str, host: str, session: int, identity: str) -> None:
    """Note whose session a run is, once. campaign, host: their names. identity: of a run of this store.

    Raises StoreError.
    """
    names, sessions, run = schema.campaign, schema.campaign_session, schema.run
    of_run = (
        select(names.c.id, run.c.id, literal(host), literal(session))
        .join_from(names, run, true())
        .where(names.c.name == campaign, run.c.identity == identity)
    )
    with writing(engine) as connection:
        connection.execute(insert_new(connection, names).values(name=campaign))
        columns = ("campaign_id", "run_id", "host", "session")
        connection.execute(insert_new(connection, sessions).from_select(columns, of_run))


def finished_sessions(engine: Engine, campaign: str) -> list[CampaignSession]:
    """Return the sessions of a campaign whose runs are finished, by host and number. Raises StoreError."""
    names, sessions, run = schema.campaign, schema.campaign_session, schema.run
    query = (
        select(sessions.c.host, sessions.c.session, run.c.name)
        .join_from(sessions, names)
        .join(run, run.c.id == sessions.c.run_id)
        .where(names.c.name == campaign, run.c.status == "finished")
        .order_by(sessions.c.host, sessions.c.session, run.c.started_at, run.c.id)
    )
    with reading_rows(engine) as connection:
        return [CampaignSession(*row) for row in fetch(connection, query)]


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
