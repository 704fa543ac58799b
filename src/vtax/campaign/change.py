"""The table `change` of a campaign's file: what changes on which hosts, when; the first half of them is drawn."""

from __future__ import annotations

import math
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
class Lacking:
    """Sessions that a change lacks. sessions: hosts without one before it, or without one after it once
    it was carried out.

    spent: hosts without one after it that have had all sessions of the campaign.
    """

    sessions: tuple[str, ...]
    spent: tuple[str, ...]


def change_of(campaign: Campaign) -> Change | None:
    """Return the change that a campaign plans; None without one. Raises BadInput for hosts that it cannot have."""
    if change := campaign.settings.change:
        _check(change, [host.name for host in campaign.hosts()], f"{campaign.root / FILE}: change")
    return change


def draw(
    campaign: Campaign, what: str, named: Sequence[str] = (), seed: int | None = None
) -> Change:
    """Plan a change and write it to the campaign's file. named: hosts that change first; drawn where none are, of
    those that can measure, as far as is known.

    seed: of drawing; a new one where None. Raises BadInput for a change that is planned already, too few hosts, and
    names that are no hosts of the campaign.
    """
    if (planned := change_of(campaign)) is not None:
        raise BadInput(
            f"the campaign plans a change already: {planned.what} on {', '.join(planned.first)}",
            hint="what was drawn stays; a further change is a further campaign",
        )
    hosts = [host for host in campaign.hosts() if host.state != "skipped" and not host.skip]
    usable = [
        host
        for host in hosts
        if host.state not in FAILURES and (host.sessions or host.state != "unreachable")
    ]
    if len(usable) < _MIN_HOSTS:
        raise BadInput(
            f"a change needs {_MIN_HOSTS} hosts, two a side, and the campaign has {len(usable)}"
        )
    if named and seed is not None:
        raise BadInput(
            "hosts that are named are not drawn", where="--seed", hint="leave out --seed or --hosts"
        )
    if named:
        change = validated(Change, {"what": what, "first": tuple(named)})
    else:
        seed = secrets.randbelow(2**31) if seed is None else seed
        first = random_half(_groups(usable), seed)
        change = validated(Change, {"what": what, "first": first, "seed": seed})
    _check(change, [host.name for host in hosts], "--hosts")
    return _kept(campaign, change)


def carried_out(campaign: Campaign, moment: datetime, *, rest: bool = False) -> Change:
    """Write down that the first hosts have changed, or with `rest` the others too. Raises BadInput out of order."""
    change = change_of(campaign)
    if change is None:
        raise BadInput(
            "the campaign plans no change", hint="vtax campaign change --what kernel plans one"
        )
    known, needed = (change.rest, change.when) if rest else (change.when, moment)
    if known is not None:
        raise BadInput(
            f"that is written down already: {known:%Y-%m-%d %H:%M}", hint=f"it stands in {FILE}"
        )
    if needed is None:
        raise BadInput(
            "the first hosts have not changed yet",
            hint="vtax campaign change --now, once they have",
        )
    return _kept(campaign, change.model_copy(update={"rest" if rest else "when": moment}))


def missing_of(change: Change, hosts: Iterable[CampaignHost], settings: Settings) -> Lacking:
    """Return what a change lacks yet: first sessions before it, once it was carried out sessions after it."""
    when, rest = (each.timestamp() if each else math.inf for each in (change.when, change.rest))
    lacking, spent = [], []
    for host in hosts:
        begun = [
            each.started_at
            for each in host.sessions
            if each.number and each.state in ("done", "collected")
        ]
        used = len(begun) >= settings.sessions
        after = [at for at in begun if at is not None and when <= at < rest]
        if not after and (change.when or not begun):
            lacking.append(host.name)
        if not after and used:
            spent.append(host.name)
    return Lacking(tuple(lacking), tuple(spent))


def _groups(hosts: Sequence[CampaignHost]) -> dict[str, str]:
    """Host -> what it is drawn within: its group, and its CPU and kernel where they are known."""
    return {
        host.name: "\t".join(
            [host.group, *(str(host.facts.get(fact, "")) for fact in ("cpu_model", "kernel"))]
        )
        for host in hosts
    }


def _check(change: Change, names: Sequence[str], where: str) -> None:
    """Raise BadInput for hosts that are not there, or that leave no control."""
    if unknown := [name for name in change.first if name not in names]:
        raise BadInput(
            f"{unknown[0]} is no host of the campaign",
            where=where,
            hint="vtax campaign status lists them",
        )
    if len(set(change.first)) < len(change.first):
        raise BadInput("a host is named twice", where=where)
    if not set(names) - set(change.first):
        raise BadInput(
            "no host is left as a control", where=where, hint="let half of the hosts change first"
        )


def _kept(campaign: Campaign, change: Change) -> Change:
    campaign.settings.model_copy(update={"change": change}).write(campaign.root / FILE)
    return change
