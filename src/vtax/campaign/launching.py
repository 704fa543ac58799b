"""Which hosts are launched next: a canary, then a tenth, then the rest, and nobody while too many fail. Pure.

Whether a host failed is whether it could be prepared and measured; what it measured is never looked at, since hosts
would be selected by their results.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from vtax.campaign.host_record import ENDED, FAILURES, CampaignHost
from vtax.campaign.settings import Settings, is_open

_AT_ONCE = 4  # hosts of a batch, in forks
_FEW_FAILURES = 1  # a single host that fails says nothing of the others
_ENDED_WELL = ("done", "collected")
_LAUNCHABLE = ("absent", "paused", "interrupted", "busy", "refused")


@dataclass(frozen=True)
class Due:
    """A session that is to be launched. number: 0 for the canary's smaller run."""

    host: str
    number: int


def too_many_failed(hosts: Iterable[CampaignHost], settings: Settings) -> str:
    """Return why nothing is launched any more; empty while launching goes on."""
    tried_hosts = [host for host in hosts if host.sessions or host.state in FAILURES]
    failed = [host for host in tried_hosts if host.state in FAILURES]
    percent = settings.launch.max_failed_percent
    if len(failed) <= _FEW_FAILURES or 100 * len(failed) <= percent * len(tried_hosts):
        return ""
    return f"{len(failed)} of {len(tried_hosts)} hosts failed, more than {percent:g} %"


def next_batch(
    hosts: Sequence[CampaignHost],
    settings: Settings,
    now: float,
    names_asked: Collection[str],
    checking: Collection[str] = (),
) -> tuple[Due, ...]:
    """Return what is to be launched now; empty when nothing is, or when hosts that run must end first.

    hosts: of the campaign.
    settings: of the campaign.
    now: Unix time.
    names_asked: of the hosts that were asked already, and are not asked again.
    checking: names of those of them that may be launched soon, when they have answered.
    """
    if too_many_failed(hosts, settings):
        return ()
    included = _ordered([host for host in hosts if not host.skip], settings)
    free = []
    for host in included:
        is_free = host.state not in ENDED and host.name not in names_asked
        if is_free and is_open(host.window or settings.window, now):
            free.append(host)
    launch = settings.launch
    first = math.ceil(launch.first_percent * len(included) / 100)
    for number, count in ((0 if launch.canary_scale else 1, launch.canary), (1, first)):
        if not count:
            continue
        group = _first_group(included, free, checking, number, count, settings, now)
        if group is not None:
            return tuple(Due(host.name, number) for host in group)
    batch = []
    for host in free:
        due = due_session(host, settings, now)
        if due is not None:
            batch.append(Due(host.name, due))
    return tuple(batch[: _AT_ONCE * launch.forks])


def due_session(host: CampaignHost, settings: Settings, now: float) -> int | None:
    """Return the session of a host that is to be launched or resumed at a time; None when none is.

    A session follows the start of the last one that was measured, by the time that the campaign leaves between them.
    """
    if host.running:
        return None
    for number in range(1, settings.sessions + 1):
        session = host.session(number)
        if session is None or session.state in _LAUNCHABLE:
            is_early = any(
                measured.started_at is not None and now < measured.started_at + settings.every_s
                for measured in host.measured_sessions
            )
            return None if is_early else number
        if session.state not in _ENDED_WELL:
            return None
    return None


def _first_group(
    hosts: Sequence[CampaignHost],
    free: Sequence[CampaignHost],
    checking: Collection[str],
    number: int,
    count: int,
    settings: Settings,
    now: float,
) -> Sequence[CampaignHost] | None:
    """Return which hosts to launch now of the group that measures before the others; None when the others may start.

    While the group measures, nothing may be left to launch: the result is empty then. Where hosts of the group do not
    answer, those that ended are enough.

    hosts: all that are not skipped.
    free: those of them that can be launched.
    checking: names of those that may be launched soon.
    number: the session that the group must have ended.
    count: how many hosts the group has.
    settings: of the campaign.
    now: Unix time.
    """
    passed_hosts = [host for host in hosts if _has_ended_well(host, number)]
    usable_hosts = [host for host in hosts if host.state not in ENDED or host in passed_hosts]
    if len(passed_hosts) >= min(count, len(usable_hosts)):
        return None if passed_hosts else ()
    launched_hosts = [host for host in hosts if host.running]
    # one that is unreachable may be away for ever
    running_hosts = [host for host in launched_hosts if host.state != "unreachable"]
    for host in usable_hosts:
        if host.name in checking and not host.running and host not in passed_hosts:
            running_hosts.append(host)
    waiting_hosts = [host for host in free if host not in passed_hosts and not host.running]
    if number:
        waiting_hosts = [
            host for host in waiting_hosts if due_session(host, settings, now) == number
        ]
    if waiting_hosts:
        return waiting_hosts[: max(count - len(passed_hosts) - len(running_hosts), 0)]
    return None if passed_hosts and not running_hosts else ()


def _has_ended_well(host: CampaignHost, number: int) -> bool:
    session = host.session(number)
    return session is not None and session.state in _ENDED_WELL


def _ordered(hosts: Iterable[CampaignHost], settings: Settings) -> list[CampaignHost]:
    """Return hosts in an order of the campaign's own: neighbours in an inventory are often alike."""
    return sorted(
        hosts, key=lambda host: hashlib.sha256(f"{settings.name} {host.name}".encode()).digest()
    )
