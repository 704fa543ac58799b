"""Campaigns of a store: which of its runs is which session of which host.

They are merged into one run for reports, to which later sessions are added, with what is known of the campaign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, delete, exists, false, literal, select, true, update

from vtax.messages import Note
from vtax.stats.rules import rule_class
from vtax.store import schema
from vtax.store.database import insert_new, reading, writing
from vtax.store.merging import merge, merged_identity
from vtax.store.provenance import CAMPAIGN, IMPORTED, merged_runs, part_identities
from vtax.store.rows import fetch, reading_rows
from vtax.store.run import RunHandle
from vtax.store.store import Store

_HAS_MEASURED = (schema.run.c.status == "finished") & exists().where(
    schema.trial.c.run_id == schema.run.c.id,
    schema.trial.c.status == "ok",
    schema.trial.c.is_warmup == false(),
)


@dataclass(frozen=True)
class CampaignSession:
    """A session of a host of a campaign. session: its number, from 1. run, identity: of its run in this store."""

    host: str
    session: int
    run: str
    identity: str


def add_session(engine: Engine, campaign: str, host: str, session: int, identity: str) -> None:
    """Note whose session a run is, once; in place of an earlier run of that session, after which it was begun anew.

    campaign, host: their names.
    session: its number, from 1.
    identity: of a run of this store.

    Raises StoreError.
    """
    names, sessions, run = schema.campaign, schema.campaign_session, schema.run
    added = (
        select(names.c.id, run.c.id, literal(host), literal(session))
        .join_from(names, run, true())
        .where(names.c.name == campaign, run.c.identity == identity)
    )
    columns = ("campaign_id", "run_id", "host", "session")
    campaign_id = select(names.c.id).where(names.c.name == campaign).scalar_subquery()
    run_id = select(run.c.id).where(run.c.identity == identity).scalar_subquery()
    with writing(engine) as connection:
        connection.execute(insert_new(connection, names).values(name=campaign))
        connection.execute(insert_new(connection, sessions).from_select(columns, added))
        earlier = delete(sessions).where(
            sessions.c.host == host,
            sessions.c.session == session,
            sessions.c.campaign_id == campaign_id,
            sessions.c.run_id != run_id,
        )
        connection.execute(earlier)  # nothing, where the store has no such run


def measured_sessions(engine: Engine, campaign: str) -> list[CampaignSession]:
    """Return the sessions of a campaign whose runs are finished and have measured something, by host and number.

    Raises StoreError.
    """
    names, sessions, run = schema.campaign, schema.campaign_session, schema.run
    query = (
        select(sessions.c.host, sessions.c.session, run.c.name, run.c.identity)
        .join_from(sessions, names)
        .join(run, run.c.id == sessions.c.run_id)
        .where(names.c.name == campaign, _HAS_MEASURED)
        .order_by(sessions.c.host, sessions.c.session, run.c.started_at, run.c.id)
    )
    with reading_rows(engine) as connection:
        return [CampaignSession(*row) for row in fetch(connection, query)]


def has_measured(engine: Engine, identity: str) -> bool:
    """Return whether the run of an identity is finished, and not every trial of it failed. Raises StoreError."""
    query = select(schema.run.c.id).where(schema.run.c.identity == identity, _HAS_MEASURED)
    with reading(engine) as connection:
        return connection.execute(query).first() is not None


def merge_campaign(store: Store, runs: Mapping[str, str], record: Mapping[str, Any]) -> RunHandle:
    """Return the merged run of a campaign's runs, and keep a record in it. It is made once; later runs are added to
    it.

    runs: name -> identity.
    record: as in report.analysis.campaign, where each host has `runs` (names) instead of `sessions`.

    Raises as merge.
    """
    table, campaign = schema.run, schema.campaign
    own = select(campaign.c.merged_id).where(campaign.c.name == record["name"]).scalar_subquery()
    alike = table.c.identity == merged_identity(runs.values())
    query = select(table.c.name).where((table.c.id == own) | alike).order_by(alike.desc())
    with reading(store.engine) as connection:
        name = connection.execute(query).scalar()
    merged = store.open_run(name) if name else None
    known = part_identities(merged.provenance) if merged else set()
    if merged is None or known != {*runs.values()}:
        again = merged if known < {*runs.values()} else None  # else one of its runs is gone
        if again and IMPORTED in again.provenance:  # it has trials of its own
            again = None
        merged = store.open_run(merge(store, runs, again))
    planned, before = _planned(record), _planned(merged.provenance.get(CAMPAIGN) or {})
    allows_for_looks = rule_class(merged.declared.get("design", {})).allows_for_looks
    change = record.get("change")
    is_after_change = isinstance(change, Mapping) and bool(change.get("at"))  # not pooled
    if 0 < before < planned and not allows_for_looks and not is_after_change:
        merged.add_warning(Note("session-added", session=before + 1, count=before))
    with writing(store.engine) as connection:
        connection.execute(insert_new(connection, campaign).values(name=record["name"]))
        link = update(campaign).where(campaign.c.name == record["name"])
        connection.execute(link.values(merged_id=merged.id))
        current = select(table.c.provenance).where(table.c.id == merged.id).with_for_update()
        ((provenance,),) = fetch(connection, current)
        hosts = _with_sessions(record["hosts"], runs, provenance)
        provenance[CAMPAIGN] = {**record, "hosts": hosts}
        connection.execute(
            update(table).where(table.c.id == merged.id).values(provenance=provenance)
        )
        ((merged.provenance,),) = fetch(connection, current)
    return merged


def _with_sessions(
    hosts: Iterable[Mapping[str, Any]], runs: Mapping[str, str], provenance: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return hosts with the sessions of a merged run in place of the runs that these were."""
    sessions = {}
    for part in merged_runs(provenance):
        sessions[str(part.get("identity"))] = part.get("sessions") or []
    records = []
    for host in hosts:
        record = {key: value for key, value in host.items() if key != "runs"}
        record["sessions"] = []
        for run in host["runs"]:
            if run in runs:
                record["sessions"] += sessions.get(runs[run], [])
        records.append(record)
    return records


def _planned(record: Mapping[str, Any]) -> int:
    """Return how many sessions a host of a campaign is planned to have."""
    counts = [host.get("planned") for host in record.get("hosts", ())]
    return max((count for count in counts if isinstance(count, int)), default=0)
