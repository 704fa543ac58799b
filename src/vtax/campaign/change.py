"""The table `change` of a campaign's file: what changes on which hosts, when; the first half of them is drawn."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from vtax.campaign.directory import FILE, Campaign
from vtax.campaign.host_record import FAILURES, CampaignHost
from vtax.campaign.settings import Change, Settings
from vtax.errors import BadInput
from vtax.stats.host_change import random_half
from vtax.study.refusals import validated

_MIN_HOSTS = 4  # two a side


@dataclass(frozen=True)
class MissingSessions:
    """Names of hosts whose sessions do not suffice to judge a change.

    hosts: those without a session before the change, or, once it was carried out, without one after it.
    spent: those without a session after it that have had all sessions of the campaign.
    """

    hosts: tuple[str, ...]
    spent: tuple[str, ...]


def change_of(campaign: Campaign) -> Change | None:
    """Return the change that a campaign plans; None without one. Raises BadInput for hosts that it cannot have."""
    change = campaign.settings.change
    if change is not None:
        _check(change, [host.name for host in campaign.hosts()], f"{campaign.root / FILE}: change")
    return change


def plan_change(
    campaign: Campaign, what: str, first: Sequence[str] = (), seed: int | None = None
) -> Change:
    """Plan a change and write it to the campaign's file.

    what: what changes, such as `kernel`.
    first: names of the hosts that change first. Where none are given, half of the hosts that can measure is drawn.
    seed: of the drawing; a new one where None.

    Raises BadInput for a change that is planned already, too few hosts, and names that are no hosts of the campaign.
    """
    earlier = change_of(campaign)
    if earlier is not None:
        raise BadInput(
            f"the campaign plans a change already: {earlier.what} on {', '.join(earlier.first)}",
            hint="what was drawn stays; a further change is a further campaign",
        )
    hosts = [host for host in campaign.hosts() if not host.is_skipped]
    able_hosts = [host for host in hosts if _can_measure(host)]
    if len(able_hosts) < _MIN_HOSTS:
        raise BadInput(
            f"a change needs {_MIN_HOSTS} hosts, two a side, and the campaign has {len(able_hosts)}"
        )
    if first and seed is not None:
        raise BadInput(
            "hosts that are named are not drawn", where="--seed", hint="leave out --seed or --hosts"
        )
    if not first:
        seed = secrets.randbelow(2**31) if seed is None else seed
        first = random_half({host.name: _group(host) for host in able_hosts}, seed)
    change = validated(Change, {"what": what, "first": tuple(first), "seed": seed})
    _check(change, [host.name for host in hosts], "--hosts")
    return _write(campaign, change)


def record_change(campaign: Campaign, moment: datetime, *, rest: bool = False) -> Change:
    """Write down when the first hosts have changed, or with `rest` the others too.

    Raises BadInput where nothing is planned, and where that was written down already, or comes too early.
    """
    change = change_of(campaign)
    if change is None:
        raise BadInput(
            "the campaign plans no change", hint="vtax campaign change --what kernel plans one"
        )
    recorded_at, required_at = (change.rest, change.when) if rest else (change.when, moment)
    if recorded_at is not None:
        raise BadInput(
            f"that is written down already: {recorded_at:%Y-%m-%d %H:%M}",
            hint=f"it stands in {FILE}",
        )
    if required_at is None:
        raise BadInput(
            "the first hosts have not changed yet",
            hint="vtax campaign change --now, once they have",
        )
    return _write(campaign, change.model_copy(update={"rest" if rest else "when": moment}))


def missing_sessions(
    change: Change, hosts: Iterable[CampaignHost], settings: Settings
) -> MissingSessions:
    """Return which hosts lack a session before a change, or after it once it was carried out."""
    missing_names, spent_names = [], []
    for host in hosts:
        sessions = host.measured_sessions
        starts = [session.started_at for session in sessions if session.started_at is not None]
        if any(change.is_between(start) for start in starts):
            continue
        if change.when or not sessions:
            missing_names.append(host.name)
        if len(sessions) >= settings.sessions:
            spent_names.append(host.name)
    return MissingSessions(tuple(missing_names), tuple(spent_names))


def _can_measure(host: CampaignHost) -> bool:
    """Return whether a host can measure, as far as is known: one that was never reached is not expected to."""
    if host.state in FAILURES:
        return False
    return bool(host.sessions) or host.state != "unreachable"


def _group(host: CampaignHost) -> str:
    """Return what a host is drawn within: its group, and its CPU and kernel where they are known."""
    cpu, kernel = host.facts.get("cpu_model", ""), host.facts.get("kernel", "")
    return f"{host.group}\t{cpu}\t{kernel}"


def _check(change: Change, names: Sequence[str], where: str) -> None:
    """Raise BadInput for hosts that are not there, or that leave no control."""
    for name in change.first:
        if name not in names:
            raise BadInput(
                f"{name} is no host of the campaign",
                where=where,
                hint="vtax campaign status lists them",
            )
    if len(set(change.first)) < len(change.first):
        raise BadInput("a host is named twice", where=where)
    if not set(names) - set(change.first):
        raise BadInput(
            "no host is left as a control", where=where, hint="let half of the hosts change first"
        )


def _write(campaign: Campaign, change: Change) -> Change:
    campaign.settings.model_copy(update={"change": change}).write(campaign.root / FILE)
    return change
