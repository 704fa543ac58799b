"""Turns what a host answered into what is known of it. Pure: what a host says is read with care, nothing is asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from vtax.campaign.ansible import Answer
from vtax.campaign.host_record import MAX_DETAIL, CampaignHost, Code, HostSession, HostState, Reason
from vtax.campaign.settings import Settings
from vtax.foreign_text import cleaned, one_line
from vtax.store.hosts import MACHINE_ID, cloned

CLOCK_S = 60.0
"""By how much the clock of a host may be off, beyond the time between its question and its answer: with Ansible's
strategy `free` an answer waits until a fork is free to take it."""
_BOOT = 60
_CODE = 40  # characters
_OBSTACLES: tuple[Code, ...] = ("not-root", "space", "no-machine-id")
"""Obstacles of a check that have a reason of their own; any other keeps a host from measuring, too."""
_NO_SUCH_COMMAND = 127
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SAID: tuple[tuple[str, Code], ...] = (
    ("No space left", "space"),
    ("has the digest", "digest"),
    ("is for Python", "python"),
)
"""Words of a failed preparation -> the kind of reason."""


def after_prepare(host: CampaignHost, answer: Answer, now: float) -> CampaignHost:
    """Return a host after its preparation; one that is prepared is as it was, its check comes next."""
    if answer.kind in ("ok", "skipped"):
        return replace(host, at=now)
    if answer.kind == "failed" and answer.status == os.EX_TEMPFAIL:
        return _in(host, "busy", Reason("lock-held", answer.error), now)
    return _without_answer(
        host, answer, now, next((code for said, code in _SAID if said in answer.error), None)
    )


def after_check(host: CampaignHost, answer: Answer, settings: Settings, now: float) -> CampaignHost:
    """Return a host after `vtax host check`: ready, busy or refused."""
    if answer.kind != "ok":
        return _without_answer(host, answer, now)
    try:
        said = answer.json()
        found = replace(
            host,
            identity=one_line(str(said["identity"]), 64),
            facts=dict(cleaned(dict(said["host"]))),
            agents=tuple(one_line(str(each["name"]), 60) for each in said["agents"][:100]),
        )
        at = datetime.fromisoformat(str(said["time"])).timestamp()
        obstacles = [(str(each["code"]), str(each["detail"])) for each in said["obstacles"]]
        digests = {str(each["digest"]) for each in said["images"]}
        version = one_line(str(said["vtax_version"]), 40)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        return _in(
            host,
            "refused",
            Reason("no-answer", one_line(f"its check cannot be read: {error}", MAX_DETAIL)),
            now,
        )
    for code, detail in obstacles:
        if code == "lock-held":
            return _in(found, "busy", Reason("lock-held", one_line(detail, MAX_DETAIL)), now)
    if obstacles:
        return _in(found, "refused", _reason_of(obstacles), now)
    if version != settings.vtax_version:
        return _in(
            found, "refused", Reason("version", f"{version}, not {settings.vtax_version}"), now
        )
    if settings.image_digest not in digests:
        return _in(found, "refused", Reason("digest", settings.image_digest[:12]), now)
    offset = at - min(max(at, answer.since), answer.at)
    if not abs(offset) <= CLOCK_S:
        return _in(found, "refused", Reason("clock", f"{offset:+.0f} s"), now)
    if host.identity and host.identity != found.identity:
        return replace(
            host, state="refused", reason=Reason("other-host", f"was {host.identity}"), at=now
        )
    return _in(found, "ready", Reason(), now)


def _reason_of(obstacles: Sequence[tuple[str, str]]) -> Reason:
    """Return why a host is not ready: by the first obstacle that is known, else by the first one that it names."""
    for known in _OBSTACLES:
        for code, detail in obstacles:
            if code == known:
                return Reason(known, one_line(detail, MAX_DETAIL))
    code, detail = obstacles[0]
    return Reason("obstacle", one_line(f"{one_line(code, _CODE)}: {detail}", MAX_DETAIL))


def twins(hosts: Iterable[CampaignHost]) -> list[CampaignHost]:
    """Return the hosts that are ready and may not measure: a second name of another one, or a copy of it."""
    named = [host for host in hosts if host.identity and host.state not in ("skipped",)]
    copies = {*cloned(host.facts for host in named)}
    first: dict[str, CampaignHost] = {}
    for host in sorted(
        named, key=lambda each: (not each.sessions, each.state == "refused", each.name)
    ):
        first.setdefault(host.identity, host)
    found = []
    for host in named:
        if host.state != "ready":
            continue
        machine = host.facts.get(MACHINE_ID)
        if machine in copies:
            others = [
                each.name
                for each in named
                if each is not host and each.facts.get(MACHINE_ID) == machine
            ]
            detail = f"its machine-id is that of {', '.join(others[:5])}"
            found.append(replace(host, state="refused", reason=Reason("cloned", detail)))
        elif first[host.identity].name != host.name:
            found.append(
                replace(
                    host, state="refused", reason=Reason("same-host", first[host.identity].name)
                )
            )
    return found


def after_run(
    host: CampaignHost,
    session: HostSession,
    answer: Answer,
    settings: Settings,
    now: float,
    *,
    is_launch: bool,
) -> CampaignHost:
    """Return a host after `vtax host run`, `status` or `stop` of a session that was launched. is_launch: after `run`,
    whose failure is a refusal; any other leaves what is known of the session."""
    if answer.kind == "unreachable":  # whatever was launched goes on there
        return replace(
            host, state="unreachable", reason=Reason("unreachable", answer.error), at=now
        )
    if answer.kind == "failed":
        has_run = answer.status != -1  # else Ansible ended it, or could not begin
        if has_run and (answer.status == _NO_SUCH_COMMAND or "No such file" in answer.error):
            return settled(host.with_session(_never(session)), settings, now)
        if not (has_run and is_launch):
            return replace(
                host, state="unreachable", reason=Reason("no-answer", answer.error), at=now
            )
        reason = Reason("run-refused", answer.error)
        refused = replace(
            session, state="refused", reason=reason, started_at=session.measured_since
        )
        return settled(host.with_session(refused), settings, now)
    try:
        found = _session(session, _run_of(answer, session), now)
    except (ValueError, KeyError, TypeError, StopIteration):
        return replace(
            host,
            state="unreachable",
            reason=Reason("no-answer", "its state cannot be read"),
            at=now,
        )
    return settled(host.with_session(found), settings, now)


def after_boot(
    host: CampaignHost, session: HostSession, answer: Answer, settings: Settings, now: float
) -> CampaignHost:
    """Return a host after `vtax host boot`: its session has the boot that was set, and none where it is in that."""
    if answer.kind == "failed" and answer.status == os.EX_TEMPFAIL:
        busy = replace(
            session,
            state="busy",
            reason=Reason("lock-held", answer.error),
            attempts=session.attempts - 1,
        )
        return settled(host.with_session(busy), settings, now)
    if answer.kind == "failed" and answer.status != -1:
        reason = Reason("boot-refused", answer.error)
        return settled(
            host.with_session(replace(session, state="refused", reason=reason)), settings, now
        )
    try:
        next_boot = one_line(str(answer.json()["next_boot"]), _BOOT)
    except (ValueError, KeyError):
        code: Code = "unreachable" if answer.kind == "unreachable" else "no-answer"
        return replace(host, state="unreachable", reason=Reason(code, answer.error), at=now)
    return settled(host.with_session(replace(session, next_boot=next_boot)), settings, now)


def after_reboot(
    host: CampaignHost, session: HostSession, answer: Answer, settings: Settings, now: float
) -> CampaignHost:
    """Return a host after its reboot, and after the `vtax host status` that follows: refused in another boot than was
    set."""
    if answer.task == "reboot":
        if answer.kind == "ok":
            return replace(host, at=now)
        return replace(
            host, state="unreachable", reason=Reason("not-rebooted", answer.error), at=now
        )
    found = after_run(host, session, answer, settings, now, is_launch=False)
    there = found.session(session.number)
    if found.state == "unreachable" or there is None:
        return found
    if there.next_boot:
        here = one_line(str(_run_of(answer, session).get("boot") or "none of the study's"), _BOOT)
        reason = Reason("wrong-boot", f"{here}, not {there.next_boot}")
        return settled(
            host.with_session(replace(session, state="refused", reason=reason)), settings, now
        )
    return settled(host.with_session(replace(session, next_boot="")), settings, now)


def settled(host: CampaignHost, settings: Settings, now: float) -> CampaignHost:
    """Return a host in the state that follows from its sessions."""
    state, reason = _state(host, settings)
    return replace(host, state=state, reason=reason, at=now)


def _state(host: CampaignHost, settings: Settings) -> tuple[HostState, Reason]:
    states = {each.state: each for each in host.sessions}
    if "running" in states:
        return "running", Reason()
    if "failed" in states:
        return "failed", states["failed"].reason
    for each in host.sessions:
        if each.state in ("interrupted", "refused") and each.attempts >= settings.launch.attempts:
            return "given-up", Reason("attempts", f"{each.attempts}: {each.reason}")
    if "refused" in states:
        return "refused", states["refused"].reason
    if "busy" in states:
        return "busy", states["busy"].reason
    if "interrupted" in states:
        return "waiting", states["interrupted"].reason
    if "paused" in states:
        return "waiting", states["paused"].reason
    measured = [
        each for each in host.sessions if each.number and each.state in ("done", "collected")
    ]
    reason = next((each.reason for each in measured if each.state == "done"), Reason())
    if len(measured) >= settings.sessions:
        return (
            "collected" if all(each.state == "collected" for each in measured) else "done"
        ), reason
    return ("waiting" if measured else "ready"), reason


def _run_of(answer: Answer, session: HostSession) -> Mapping[str, Any]:
    """Return what a host states of the run of a session. Raises ValueError, KeyError, TypeError, StopIteration."""
    said: Mapping[str, Any] = answer.json()
    return (
        said if "state" in said else next(each for each in said["runs"] if each["id"] == session.id)
    )


def _session(session: HostSession, run: Mapping[str, Any], now: float) -> HostSession:
    """Return a session as `vtax host` states it. Raises ValueError, KeyError, TypeError."""
    state, said, trials = (
        str(run["state"]),
        one_line(str(run["reason"]), MAX_DETAIL),
        _count(run["done_trials"]),
    )
    is_begun = bool(trials) or state in ("running", "done", "failed")
    sha256 = str(run["bundle_sha256"])
    found = replace(
        session,
        block=None if run["block"] is None else _count(run["block"]),
        blocks=None if run["blocks"] is None else _count(run["blocks"]),
        bundle_sha256=sha256 if _SHA256.fullmatch(sha256) else "",
        done_trials=trials,
        failed_trials=_count(run["failed_trials"]),
        next_boot=one_line(str(run["next_boot"]), _BOOT),
        started_at=session.started_at if is_begun else None,
    )
    match state:
        case "absent":
            return _never(found)
        case "running":
            return replace(found, state="running", reason=Reason())
        case "done":
            return replace(found, state="done", reason=Reason(), ended_at=now)
        case "busy":
            return replace(
                found, state="busy", reason=Reason("lock-held", said), attempts=found.attempts - 1
            )
        case "refused":
            return replace(found, state="refused", reason=Reason("run-refused", said))
        case "paused":
            return replace(
                found, state="paused", reason=Reason("boot", found.next_boot), attempts=0
            )
        case "interrupted":
            return replace(
                found, state="interrupted", reason=Reason("interrupted", said), ended_at=now
            )
        case "failed":
            return replace(found, state="failed", reason=Reason("run-failed", said), ended_at=now)
    raise ValueError(f"no state of a run: {one_line(state, 40)}")


def _never(session: HostSession) -> HostSession:
    """Return a session as one that was never launched: the host knows nothing of it."""
    return HostSession(session.number, session.id, again=session.again)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError(f"no number: {one_line(str(value), 40)}")
    return value


def _without_answer(
    host: CampaignHost, answer: Answer, now: float, code: Code | None = None
) -> CampaignHost:
    if answer.kind == "unreachable":
        return _in(host, "unreachable", Reason("unreachable", answer.error), now)
    return _in(host, "refused", Reason(code or "not-prepared", answer.error), now)


def _in(host: CampaignHost, state: HostState, reason: Reason, now: float) -> CampaignHost:
    return replace(host, state=state, reason=reason, at=now)
