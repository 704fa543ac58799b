"""Follows a campaign to its end: the steps of `go`, again and again, each host at the time that it is due.

A host that measures is asked when it expects to have ended, and every few minutes before. One that did not answer, is
busy or was refused is asked after a pause that doubles. So no host waits for another, unless it is to measure after it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from vtax.campaign.collecting import Loader
from vtax.campaign.controller import Controller
from vtax.campaign.host_record import ENDED, CampaignHost, Code, HostSession

SHORTEST_S, LONGEST_S = 5.0, 300.0
"""Between two looks at a host that measures."""
_PAUSE_S = 15.0
"""Before a host is asked again that gave no good answer; doubled each time, to at most `LONGEST_S`."""
_TRIES = 3
"""How often a host is asked without a good answer before it is not waited for."""
_TICK_S = 5.0
_GATHER_S = 1.5
_POOR: tuple[Code, ...] = (
    "unreachable",
    "no-answer",
    "not-rebooted",
    "not-stored",
    "damaged-bundle",
)


class Pace:
    """Says for how long a host is left alone after an answer.

    now: returns the Unix time, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._misses: Counter[str] = Counter()

    def rest_s(self, host: CampaignHost) -> float:
        """Return the pause after the answers of a host, in seconds."""
        if _is_missed(host):
            self._misses[host.name] += 1
            if host.state == "refused":  # by the host: somebody has to do something there
                return LONGEST_S
            return min(_PAUSE_S * 2.0 ** min(self._misses[host.name] - 1, 10), LONGEST_S)
        del self._misses[host.name]
        if host.running is None:
            return 0.0
        return min(max(self._left_s(host.running), SHORTEST_S), LONGEST_S)

    def is_given_up(self, host: CampaignHost) -> bool:
        """Return whether a host is not waited for, though it is asked while others measure."""
        misses = self._misses[host.name]
        return host.state != "busy" and misses >= (1 if host.state == "refused" else _TRIES)

    def _left_s(self, session: HostSession) -> float:
        """Return the time left of a session; a tenth of its duration so far where its host does not say."""
        if session.left_s is not None:
            return session.left_s
        return (self._now() - session.started_at) / 10 if session.started_at else 0.0


def follow(
    controls: Controller,
    loader: Loader,
    pace: Pace,
    watch: Callable[[], None],
    *,
    retry: bool = False,
) -> str:
    """Do the steps of `go` until nothing more is to come; return why nothing is launched any more, or nothing.

    controls: of a campaign, with a background and this pace.
    loader: of bundles.
    pace: says which hosts are not waited for.
    watch: is called after each step.
    retry: whether hosts that had failed by now are tried again, once.

    Raises BadInput once the campaign is aborted.
    """
    retried = set(controls.hosts) if retry else set()
    while True:
        controls.look()
        controls.collect(loader)
        retried -= _retry(controls, retried)
        why = controls.launch()
        controls.restore_boots()
        watch()
        if not controls.asked and not _comes(controls, pace, why):
            return why
        _take_answers(controls)


def _take_answers(controls: Controller) -> None:
    """Wait for an answer, and then a moment for others, so that hosts are asked together."""
    until_s, has_answer = controls.now() + _TICK_S, False
    while controls.take(min(max(until_s - controls.now(), 0.0), _TICK_S)):
        if not has_answer:
            until_s, has_answer = controls.now() + _GATHER_S, True
        elif controls.now() >= until_s:
            return


def _retry(controls: Controller, names: set[str]) -> set[str]:
    """Try hosts again of which all is known, and brought, that they measured; return the names of these."""
    known_names = set()
    for name in names:
        host = controls.hosts[name]
        is_known = host.running is None or controls.has_answered(name)
        if is_known and name not in controls.asked and not controls.has_bundle(host):
            known_names.add(name)
    controls.retry(known_names)
    return known_names


def _comes(controls: Controller, pace: Pace, why: str) -> bool:
    """Return whether anything is to come of some host. why: nothing is launched any more."""
    for host in controls.hosts.values():
        if host.is_skipped or pace.is_given_up(host):
            continue
        has_ended = host.state in ENDED and not controls.has_bundle(host)
        is_rebooted = has_ended and bool(host.boot) and controls.settings.reboot
        is_launched = host.running is not None or controls.has_bundle(host)
        if is_rebooted or is_launched or not (has_ended or why):
            return True
    return False


def _is_missed(host: CampaignHost) -> bool:
    """Return whether the last answer of a host was none, or brought nothing."""
    return host.state in ("unreachable", "refused", "busy") or host.reason.code in _POOR
