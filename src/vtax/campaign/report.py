"""The result of a campaign: its runs as one merged run, which the views of reports show like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vtax.campaign.change import change_of
from vtax.campaign.directory import Campaign
from vtax.campaign.host_record import NONE, CampaignHost
from vtax.errors import BadInput
from vtax.store.campaigns import finished_sessions, merged_campaign
from vtax.store.merging import Watch, unwatched
from vtax.store.store import Store


def reported_run(store: Store, campaign: Campaign, watch: Watch = unwatched) -> str:
    """Return the merged run of all sessions that were collected, with what is known of every host.

    Raises BadInput where fewer than two are finished, and for runs that cannot be merged; StoreError.
    """
    settings, change = campaign.settings, change_of(campaign)
    runs_of: dict[str, list[str]] = {}
    runs: dict[str, str] = {}
    for each in finished_sessions(store.engine, settings.name):
        runs[each.run] = each.identity
        runs_of.setdefault(each.host, []).append(each.run)
    known = campaign.hosts()
    lost = [
        CampaignHost(name, state="collected")
        for name in runs_of.keys() - {host.name for host in known}
    ]
    hosts = [_host(host, settings.sessions, runs_of.get(host.name, ())) for host in (*known, *lost)]
    record = {"name": settings.name, "hosts": hosts, "change": change.record() if change else None}
    if len(runs) < 2:
        raise BadInput(
            f"the campaign has {len(runs)} finished sessions in this store, and a report needs two",
            where=str(campaign.root),
            hint="vtax campaign collect brings them, or vtax campaign load DIR BUNDLES where hosts are started by "
            "hand; vtax campaign status names the reasons",
        )
    return merged_campaign(store, runs, record, watch)


def _host(host: CampaignHost, planned: int, runs: Sequence[str]) -> dict[str, Any]:
    """Return what a merged run keeps of a host. runs: of its finished sessions."""
    reason = host.reason
    if reason == NONE:
        reason = next(
            (each.reason for each in reversed(host.sessions) if each.reason != NONE), NONE
        )
    found: Mapping[str, Any] = {
        "host": host.name,
        "group": host.group,
        "agents": list(host.agents),
        "planned": planned,
        "state": host.state,
        "code": reason.code,
        "detail": reason.detail,
        "runs": list(runs),
    }
    return dict(found)
