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


@dataclass(frozen=True)
class Due:
    """A session that is to be launched. number: 0 for the canary's smaller run."""

    host: str
    number: int


def too_many_failed(hosts: Iterable[CampaignHost], settings: Settings) -> str:
    """Return why nothing is launched any more; empty while launching goes on."""
    tried = [host for host in hosts if host.sessions or host.state in FAILURES]
    failed = [host for host in tried if host.state in FAILURES]
    percent = settings.launch.max_failed_percent
    if len(failed) <= _FEW_FAILURES or 100 * len(failed) <= percent * len(tried):
        return ""
    return f"{len(failed)} of {len(tried)} hosts failed, more than {percent:g} %"


def next_batch(
    hosts: Sequence[CampaignHost], settings: Settings, now: float, asked: Collection[str]
) -> tuple[Due, ...]:
    """Return what is to be launched now; empty when nothing is, or what runs is to end before.

    asked: names of the hosts that were asked already, and are not asked again. now: Unix time.
    """
    if too_many_failed(hosts, settings):
        return ()
    there = _ordered([host for host in hosts if not host.skip], settings)
    free = [
        host
        for host in there
        if host.state not in ENDED
        and host.name not in asked
        and is_open(host.window or settings.window, now)
    ]
    launch = settings.launch
    first = math.ceil(launch.first_percent * len(there) / 100)
    for number, count in ((0 if launch.canary_scale else 1, launch.canary), (1, first)):
        if count and (held := _gate(there, free, number, count, settings, now)) is not None:
            return tuple(Due(host.name, number) for host in held)
    due = [(host.name, due_session(host, settings, now)) for host in free]
    found = [Due(name, number) for name, number in due if number is not None]
    return tuple(found[: _AT_ONCE * launch.forks])


def due_session(host: CampaignHost, settings: Settings, now: float) -> int | None:
    """Return the session of a host that is to be launched or resumed at a time; None when none is.

    A session follows the start of the last one that was measured, by the time that the campaign leaves between them.
    """
    if host.running:
        return None
    begun = [each.started_at for each in host.sessions if each.number and each.state in _ENDED_WELL]
    before = max((each for each in begun if each is not None), default=None)
    for number in range(1, settings.sessions + 1):
        session = host.session(number)
        if session is None or session.state in (
            "absent",
            "paused",
            "interrupted",
            "busy",
            "refused",
        ):
            is_early = before is not None and now < before + settings.every_s
            return None if is_early else number
        if session.state not in _ENDED_WELL:
            return None
    return None


def _gate(
    there: Sequence[CampaignHost],
    free: Sequence[CampaignHost],
    number: int,
    count: int,
    settings: Settings,
    now: float,
) -> Sequence[CampaignHost] | None:
    """Return who is launched of the hosts that measure before the others; None when these may.

    number: the session that so many of them, count, must have ended. Where the others of them do not answer, those
    that ended are enough.
    """
    passed = [host for host in there if _is(host, number, *_ENDED_WELL)]
    usable = [host for host in there if host.state not in ENDED or _is(host, number, *_ENDED_WELL)]
    if len(passed) >= min(count, len(usable)):
        return None if passed else ()
    running = [
        host for host in there if host.running and host.state != "unreachable"
    ]  # which may be away for ever
    waiting = [
        host
        for host in free
        if host not in passed
        and not host.running
        and (not number or due_session(host, settings, now) == number)
    ]
    if waiting:
        return waiting[: max(count - len(passed) - len(running), 0)]
    return None if passed and not running else ()


def _is(host: CampaignHost, number: int, *states: str) -> bool:
    session = host.session(number)
    return session is not None and session.state in states


def _ordered(hosts: Iterable[CampaignHost], settings: Settings) -> list[CampaignHost]:
    """Return hosts in an order of the campaign's own: neighbours in an inventory are often alike."""
    return sorted(
        hosts, key=lambda host: hashlib.sha256(f"{settings.name} {host.name}".encode()).digest()
    )
