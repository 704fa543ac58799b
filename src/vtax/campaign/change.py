"""The table `change` of a campaign's file: what changes on which hosts, when; the first half of them is drawn."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from vtax.campaign.directory import FILE, Campaign
from vtax.campaign.host_record import FAILURES, CampaignHost
from vtax.campaign.settings import CHANGE, Settings
from vtax.errors import BadInput
from vtax.foreign_text import one_line
from vtax.stats.host_change import random_half

_MIN_HOSTS = 4  # two a side
_OUT = FAILURES | {"excluded"}
_HINT = "docs/campaigns.md explains every key"
_LONGEST = 120


@dataclass(frozen=True)
class Change:
    """A planned change. first: the hosts that change first; the others are controls until they change too.

    seed: that drew them; None where they were named. when: sessions that begin from then on are after the change;
    rest: from when on the controls have changed too, so that later sessions do not count. None: not yet.
    """

    what: str
    first: tuple[str, ...]
    seed: int | None = None
    when: datetime | None = None
    rest: datetime | None = None

    def table(self) -> dict[str, Any]:
        """Return it as the file has it."""
        values = {
            "what": self.what,
            "first": list(self.first),
            "seed": self.seed,
            "when": self.when,
            "rest": self.rest,
        }
        return {name: value for name, value in values.items() if value is not None}

    def record(self) -> dict[str, Any]:
        """Return it as a merged run keeps it, see report.analysis.campaign."""
        at, until = (each.timestamp() if each else None for each in (self.when, self.rest))
        return {"what": self.what, "first": list(self.first), "seed": self.seed, "at": at, "until": until}


@dataclass(frozen=True)
class Lacking:
    """Sessions that a change lacks. sessions: hosts without one before it, or without one after it once
    it was carried out.

    spent: hosts without one after it that have had all sessions of the campaign.
    """

    sessions: tuple[str, ...]
    spent: tuple[str, ...]


def change_of(campaign: Campaign) -> Change | None:
    """Return the change that a campaign plans; None without one. Raises BadInput, naming the key."""
    table = campaign.settings.tables.get(CHANGE)
    if table is None:
        return None
    where = f"{campaign.root / FILE}: {CHANGE}"
    if not isinstance(table, Mapping):
        raise BadInput("it is no table", where=where, hint=_HINT)
    if unknown := sorted(table.keys() - {"what", "first", "seed", "when", "rest"}):
        raise BadInput(f"there is no key {unknown[0]!r}", where=f"{where}.{unknown[0]}", hint=_HINT)
    what, first, seed = table.get("what"), table.get("first"), table.get("seed")
    if not isinstance(what, str) or not what:
        raise BadInput("it names what changes", where=f"{where}.what", hint='such as what = "kernel"')
    if not isinstance(first, list) or not first or not all(isinstance(each, str) for each in first):
        raise BadInput(
            "it lists the hosts that change first",
            where=f"{where}.first",
            hint="vtax campaign change draws half of them",
        )
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise BadInput("it is a whole number", where=f"{where}.seed", hint=_HINT)
    moments = []
    for key in ("when", "rest"):
        if not isinstance(moment := table.get(key), datetime | None):
            raise BadInput(
                "it is a date and time", where=f"{where}.{key}", hint="such as when = 2026-11-26T22:00:00Z"
            )
        moments.append(moment.astimezone() if moment else None)
    change = Change(one_line(what, _LONGEST), tuple(first), seed, *moments)
    _check(change, [host.name for host in campaign.hosts()], where)
    return change


def draw(campaign: Campaign, what: str, named: Sequence[str] = (), seed: int | None = None) -> Change:
    """Plan a change and write it to the campaign's file. named: hosts that change first; drawn where none are, of
    those that can measure, as far as is known.

    seed: of drawing; a new one where None. Raises BadInput for a campaign of pairs, a change that is planned already,
    too few hosts, and names that are no hosts of the campaign.
    """
    if campaign.settings.has_pairs:
        raise BadInput("a change of pairs is not judged", where=str(campaign.root))
    if (planned := change_of(campaign)) is not None:
        raise BadInput(
            f"the campaign plans a change already: {planned.what} on {', '.join(planned.first)}",
            hint="what was drawn stays; a further change is a further campaign",
        )
    hosts = [host for host in campaign.hosts() if host.state != "skipped" and not host.skip]
    usable = [host for host in hosts if host.state not in _OUT and (host.sessions or host.state != "unreachable")]
    if len(usable) < _MIN_HOSTS:
        raise BadInput(f"a change needs {_MIN_HOSTS} hosts, two a side, and the campaign has {len(usable)}")
    if named and seed is not None:
        raise BadInput("hosts that are named are not drawn", where="--seed", hint="leave out --seed or --hosts")
    if named:
        change = Change(what, tuple(named))
    else:
        seed = secrets.randbelow(2**31) if seed is None else seed
        change = Change(what, random_half(_groups(usable), seed), seed)
    _check(change, [host.name for host in hosts], "--hosts")
    return _kept(campaign, change)


def carried_out(campaign: Campaign, moment: datetime, *, rest: bool = False) -> Change:
    """Write down that the first hosts have changed, or with `rest` the others too. Raises BadInput out of order."""
    change = change_of(campaign)
    if change is None:
        raise BadInput("the campaign plans no change", hint="vtax campaign change --what kernel plans one")
    known, needed = (change.rest, change.when) if rest else (change.when, moment)
    if known is not None:
        raise BadInput(f"that is written down already: {known:%Y-%m-%d %H:%M}", hint=f"it stands in {FILE}")
    if needed is None:
        raise BadInput("the first hosts have not changed yet", hint="vtax campaign change --now, once they have")
    return _kept(campaign, replace(change, rest=moment) if rest else replace(change, when=moment))


def missing_of(change: Change, hosts: Iterable[CampaignHost], settings: Settings) -> Lacking:
    """Return what a change lacks yet: first sessions before it, once it was carried out sessions after it."""
    when, rest = (each.timestamp() if each else math.inf for each in (change.when, change.rest))
    lacking, spent = [], []
    for host in hosts:
        begun = [each.started_at for each in host.sessions if each.number and each.state in ("done", "collected")]
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
        host.name: "\t".join([host.group, *(str(host.facts.get(fact, "")) for fact in ("cpu_model", "kernel"))])
        for host in hosts
    }


def _check(change: Change, names: Sequence[str], where: str) -> None:
    """Raise BadInput for hosts that are not there, or that leave no control."""
    if unknown := [name for name in change.first if name not in names]:
        raise BadInput(
            f"{unknown[0]} is no host of the campaign", where=where, hint="vtax campaign status lists them"
        )
    if len(set(change.first)) < len(change.first):
        raise BadInput("a host is named twice", where=where)
    if not set(names) - set(change.first):
        raise BadInput("no host is left as a control", where=where, hint="let half of the hosts change first")


def _kept(campaign: Campaign, change: Change) -> Change:
    settings = replace(campaign.settings, tables={**campaign.settings.tables, CHANGE: change.table()})
    settings.write(campaign.root / FILE)
    return change
