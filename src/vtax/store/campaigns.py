"""Campaigns of a store: which of its runs is which session of which host.

They are merged into one run for reports, to which later sessions are added, with what is known of the campaign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, delete, literal, select, true, update

from vtax.messages import Note
from vtax.store import schema
from vtax.store.database import insert_new, reading, writing
from vtax.store.merging import Watch, extend, merge, merged_identity, unwatched
from vtax.store.provenance import CAMPAIGN, merged_runs
from vtax.store.rows import fetch, reading_rows
from vtax.store.run import RunHandle
from vtax.store.store import Store


@dataclass(frozen=True)
class CampaignSession:
    """A session of a host of a campaign. session: its number, from 1. run, identity: of its run in this store."""

    host: str
    session: int
    run: str
    identity: str


def add_session(engine: Engine, campaign: str, host: str, session: int, identity: str) -> None:
    """Note whose session a run is, once; in place of an earlier run of that session, after which it was begun anew.

    campaign, host: their names. identity: of a run of this store. Raises StoreError.
    """
    names, sessions, run = schema.campaign, schema.campaign_session, schema.run
    campaign_id = select(names.c.id).where(names.c.name == campaign).scalar_subquery()
    of_run = (
        select(names.c.id, run.c.id, literal(host), literal(session))
        .join_from(names, run, true())
        .where(names.c.name == campaign, run.c.identity == identity)
    )
    with writing(engine) as connection:
        connection.execute(insert_new(connection, names).values(name=campaign))
        columns = ("campaign_id", "run_id", "host", "session")
        connection.execute(insert_new(connection, sessions).from_select(columns, of_run))
        this = select(run.c.id).where(run.c.identity == identity).scalar_subquery()
        its = (
            sessions.c.host == host,
            sessions.c.session == session,
            sessions.c.campaign_id == campaign_id,
        )
        connection.execute(
            delete(sessions).where(*its, sessions.c.run_id != this)
        )  # nothing, where `this` is none


def finished_sessions(engine: Engine, campaign: str) -> list[CampaignSession]:
    """Return the sessions of a campaign whose runs are finished, by host and number. Raises StoreError."""
    names, sessions, run = schema.campaign, schema.campaign_session, schema.run
    query = (
        select(sessions.c.host, sessions.c.session, run.c.name, run.c.identity)
        .join_from(sessions, names)
        .join(run, run.c.id == sessions.c.run_id)
        .where(names.c.name == campaign, run.c.status == "finished")
        .order_by(sessions.c.host, sessions.c.session, run.c.started_at, run.c.id)
    )
    with reading_rows(engine) as connection:
        return [CampaignSession(*row) for row in fetch(connection, query)]


def merged_campaign(
    store: Store, runs: Mapping[str, str], record: Mapping[str, Any], watch: Watch = unwatched
) -> str:
    """Return the name of the merged run of a campaign's runs, and keep a record in it. It is made once; later runs
    are added to it. runs: name -> identity.

    record: see report.analysis.campaign, where each host has `runs` (names) instead of `sessions`. Raises as merge.
    """
    table, campaign = schema.run, schema.campaign
    own = select(campaign.c.merged_id).where(campaign.c.name == record["name"]).scalar_subquery()
    alike = table.c.identity == merged_identity(runs.values())
    query = select(table.c.name).where((table.c.id == own) | alike).order_by(alike.desc())
    with reading(store.engine) as connection:
        name = connection.execute(query).scalar()
    merged = store.open_run(name) if name else None
    there = _identities(merged) if merged else set()
    if merged is None or not there <= {*runs.values()}:  # or one of its runs is gone
        merged = store.open_run(merge(store, [*runs], watch))
    elif new := [name for name, identity in runs.items() if identity not in there]:
        extend(store, merged, new, watch)
        merged = store.open_run(merged.name)
    planned, before = _planned(record), _planned(merged.provenance.get(CAMPAIGN) or {})
    if 0 < before < planned and merged.declared.get("design", {}).get("stop") != "open":
        merged.add_warning(Note("session-added", session=before + 1, count=before))
    with writing(store.engine) as connection:
        connection.execute(insert_new(connection, campaign).values(name=record["name"]))
        of_campaign = update(campaign).where(campaign.c.name == record["name"])
        connection.execute(of_campaign.values(merged_id=merged.id))
        now = select(table.c.provenance).where(table.c.id == merged.id).with_for_update()
        ((provenance,),) = fetch(connection, now)  # of now: others may have added runs
        provenance[CAMPAIGN] = {
            **record,
            "hosts": _with_sessions(record["hosts"], runs, provenance),
        }
        connection.execute(
            update(table).where(table.c.id == merged.id).values(provenance=provenance)
        )
    return merged.name


def _with_sessions(
    hosts: Iterable[Mapping[str, Any]], runs: Mapping[str, str], provenance: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return hosts with the sessions of a merged run in place of the runs that these were."""
    of_run = {str(each.get("identity")): each.get("sessions") for each in merged_runs(provenance)}
    return [
        {
            **{key: value for key, value in host.items() if key != "runs"},
            "sessions": [
                n for run in host["runs"] if run in runs for n in of_run.get(runs[run]) or ()
            ],
        }
        for host in hosts
    ]


def _planned(record: Mapping[str, Any]) -> int:
    """Return how many sessions a host of a campaign is planned to have."""
    return max(
        (n for each in record.get("hosts", ()) if isinstance(n := each.get("planned"), int)),
        default=0,
    )


def _identities(merged: RunHandle) -> set[str]:
    """Return the identities of the runs that a merged run is made of."""
    return {str(each.get("identity")) for each in merged_runs(merged.provenance)}
