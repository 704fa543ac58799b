"""Compares hosts by a native probe before they measure: the energy distance of each from the rest of its group.

It is reported. A host is excluded by it only where the file of the campaign said so before anything was launched, and
never once it has measured: hosts would be selected by their results. Pure but for what was declared, which is kept.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vtax.campaign.ansible import Answer
from vtax.campaign.directory import FILE, Campaign
from vtax.campaign.host_record import MAX_DETAIL, CampaignHost, Reason, Screen
from vtax.campaign.launching import too_many_failed
from vtax.campaign.settings import Settings, is_open
from vtax.doctor.native_probe import READINGS
from vtax.errors import BadInput
from vtax.foreign_text import one_line
from vtax.report.replacing import replacing
from vtax.stats.energy import one_against_the_rest
from vtax.stats.odd_hosts import MIN_OTHERS

KINDS = ("cpu", "memory", "process")
_WAITING = ("new", "ready", "busy", "unreachable", "waiting")
_DECLARED = "screening.json"


def declare(campaign: Campaign) -> None:
    """Keep what the file says of exclusion, before anything is launched. Raises BadInput where it changed since."""
    path, says = campaign.root / _DECLARED, campaign.settings.screening.exclude_above
    try:
        before = json.loads(path.read_text())["exclude_above"]
    except FileNotFoundError:
        has_begun = any(host.sessions for host in campaign.hosts())
        before = 0.0 if has_begun else says
        if not has_begun:
            with replacing(path, "-o") as file:
                file.write_text(json.dumps({"exclude_above": says}))
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput("what was declared of the screening is damaged", where=str(path)) from error
    if before != says:
        raise BadInput(
            f"the exclusion of hosts was changed after the first of them was asked: it was {before:g}",
            where=f"{campaign.root / FILE}: screening.exclude_above",
            hint="put that back, or make another campaign",
        )


def launched(hosts: Iterable[CampaignHost]) -> set[str]:
    """Return the names of the hosts that were launched."""
    return {host.name for host in hosts if host.sessions}


def is_due(host: CampaignHost, before: Collection[str]) -> bool:
    """Return whether a host is to be probed before it measures. before: names of those that were launched."""
    return not host.probe and host.name not in before


def before_any_session(
    hosts: Iterable[CampaignHost], settings: Settings, now: float, before: Collection[str]
) -> list[str]:
    """Return the hosts that are probed before any other one measures: all that are free, where some may be excluded;
    else each is probed when it is its turn. before: names of those that were launched."""
    known = [*hosts]
    if (
        not settings.screening.exclude_above
        or not settings.screening.seconds
        or too_many_failed(known, settings)
    ):
        return []
    return [
        host.name
        for host in known
        if is_due(host, before)
        and host.state in _WAITING
        and is_open(host.window or settings.window, now)
    ]


def after_probe(host: CampaignHost, answer: Answer, now: float) -> CampaignHost:
    """Return a host after `vtax host probe`. One whose probe fails may measure, and says so."""
    if answer.kind == "unreachable":
        return replace(
            host, state="unreachable", reason=Reason("unreachable", answer.error), at=now
        )
    if answer.status == os.EX_TEMPFAIL:
        return replace(host, state="busy", reason=Reason("lock-held", answer.error), at=now)
    try:
        if answer.kind != "ok":
            raise ValueError(answer.error)
        return replace(host, probe=_readings(answer.json()), screen=Screen(), at=now)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        return replace(
            host, screen=Screen(error=one_line(str(error), MAX_DETAIL) or "no answer"), at=now
        )


def _readings(said: Mapping[str, Any]) -> Mapping[str, tuple[float, ...]]:
    found = {
        kind: tuple(float(each) for each in said["readings"][kind][:READINGS]) for kind in KINDS
    }
    for kind, values in found.items():
        if not values or not all(0 < each < math.inf for each in values):
            raise ValueError(f"no durations of {kind}")
    return found


def screened(
    hosts: Iterable[CampaignHost], settings: Settings, before: Collection[str]
) -> list[CampaignHost]:
    """Return the hosts of which another distance is known now, or that are excluded by it. before: names of those
    that were launched."""
    groups: dict[str, list[CampaignHost]] = {}
    for host in hosts:
        if host.probe:
            groups.setdefault(host.group, []).append(host)
    found = []
    for group in groups.values():
        if len(group) > MIN_OTHERS:
            compared = _compared(group, settings, before)
            found += [each for host, each in zip(group, compared, strict=True) if each != host]
    return found


def _compared(
    group: list[CampaignHost], settings: Settings, before: Collection[str]
) -> list[CampaignHost]:
    distances = {
        kind: one_against_the_rest([np.log(np.asarray(host.probe[kind])) for host in group])
        for kind in KINDS
    }
    found = []
    for i, host in enumerate(group):
        kind = max(KINDS, key=lambda each: float(distances[each][i]))
        screen = Screen(round(float(distances[kind][i]), 4), kind, len(group) - 1)
        limit = settings.screening.exclude_above
        may_be = host.name not in before and host.state in _WAITING
        if limit and screen.distance is not None and screen.distance > limit and may_be:
            reason = Reason("screened", f"{screen}, above {limit:g}")
            found.append(replace(host, screen=screen, state="excluded", reason=reason))
        else:
            found.append(replace(host, screen=screen))
    return found
