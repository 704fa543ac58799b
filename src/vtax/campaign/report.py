"""The result of a campaign: its runs as one merged run, which the views of reports show like any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vtax.campaign.change import change_of
from vtax.campaign.directory import Campaign
from vtax.campaign.host_record import NONE, CampaignHost
from vtax.errors import BadInput
from vtax.store.campaigns import measured_sessions, merge_campaign
from vtax.store.run import RunHandle
from vtax.store.store import Store


def reported_run(store: Store, campaign: Campaign) -> RunHandle:
    """Return the merged run of all collected sessions, with what is known of every host.

    Raises BadInput where fewer than two have measured something, and for runs that cannot be merged; StoreError.
    """
    settings, change = campaign.settings, change_of(campaign)
    runs: dict[str, str] = {}
    runs_of: dict[str, list[str]] = {}
    for session in measured_sessions(store.engine, settings.name):
        runs[session.run] = session.identity
        runs_of.setdefault(session.host, []).append(session.run)
    hosts = []
    for host in campaign.hosts():
        hosts.append(_host_record(host, settings.sessions, runs_of.pop(host.name, ())))
    for name, runs_of_host in runs_of.items():  # of hosts that the campaign has lost
        lost_host = CampaignHost(name, state="collected")
        hosts.append(_host_record(lost_host, settings.sessions, runs_of_host))
    record = {"name": settings.name, "hosts": hosts, "change": change.record() if change else None}
    if len(runs) < 2:
        raise BadInput(
            f"the campaign has {len(runs)} measured sessions in this store, and a report needs two",
            where=str(campaign.root),
            hint="vtax campaign collect brings them, or vtax campaign load DIR BUNDLES where hosts are started by "
            "hand; vtax campaign status names the reasons",
        )
    return merge_campaign(store, runs, record)


def _host_record(host: CampaignHost, planned_sessions: int, runs: Sequence[str]) -> dict[str, Any]:
    """Return what a merged run keeps of a host.

    planned_sessions: how many it was to measure.
    runs: of its measured sessions.
    """
    reasons = [host.reason, *(session.reason for session in reversed(host.sessions))]
    reason = next((reason for reason in reasons if reason != NONE), NONE)
    return {
        "host": host.name,
        "group": host.group,
        "agents": list(host.agents),
        "planned": planned_sessions,
        "state": host.state,
        "code": reason.code,
        "detail": reason.detail,
        "runs": list(runs),
    }
