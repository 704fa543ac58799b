"""Turns what a host answered into what is known of it. Pure: what a host says is read with care, nothing is asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Any

from vtax.campaign.ansible import Answer
from vtax.campaign.host_record import MAX_DETAIL, CampaignHost, Code, HostSession, HostState, Reason
from vtax.campaign.settings import Settings
from vtax.errors import BadInput
from vtax.foreign_text import cleaned, one_line
from vtax.store.hosts import HARDWARE_ID, MACHINE_ID, cloned
from vtax.units import about_size

CLOCK_S = 60.0
"""By how much the clock of a host may be off, beyond the time between its question and its answer: with Ansible's
strategy `free` an answer waits until a fork is free to take it."""
_BOOT = 60
_CODE = 40  # characters
_KEPT, _MAX_KEPT = 80, 20
_MAX_S = 1e9  # of a duration
_OBSTACLES: tuple[Code, ...] = ("not-root", "space", "no-machine-id")
"""Obstacles of a check that have a reason of their own; any other keeps a host from measuring, too."""
_NO_SUCH_COMMAND = 127
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CAUSES: tuple[tuple[str, Code], ...] = (
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
    for words, code in _CAUSES:
        if words in answer.error:
            return _without_answer(host, answer, now, code)
    return _without_answer(host, answer, now)


def after_check(
    host: CampaignHost,
    answer: Answer,
    settings: Settings,
    now: float,
    shared_hardware: Set[str] = frozenset(),
) -> CampaignHost:
    """Return a host after `vtax host check`: ready, busy or refused.

    shared_hardware: ids of hardware that several hosts of the campaign have, which therefore tell no host.
    """
    if answer.kind != "ok":
        return _without_answer(host, answer, now)
    try:
        check = answer.json()
        checked_host = replace(
            host,
            identity=one_line(str(check["identity"]), 64),
            facts=dict(cleaned(dict(check["host"]))),
            agents=tuple(one_line(str(agent["name"]), 60) for agent in check["agents"][:100]),
            kept=_lines(check["kept"]),
        )
        host_time = datetime.fromisoformat(str(check["time"])).timestamp()
        obstacles = [(str(item["code"]), str(item["detail"])) for item in check["obstacles"]]
        digests = {str(image["digest"]) for image in check["images"]}
        version = one_line(str(check["vtax_version"]), 40)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        detail = one_line(f"its check cannot be read: {error}", MAX_DETAIL)
        return _in(host, "refused", Reason("no-answer", detail), now)
    for code, detail in obstacles:
        if code == "lock-held":
            return _in(checked_host, "busy", Reason("lock-held", one_line(detail, MAX_DETAIL)), now)
    offset = host_time - min(max(host_time, answer.since), answer.at)
    if obstacles:
        reason = _reason_of(obstacles)
    elif version != settings.vtax_version:
        reason = Reason("version", f"{version}, not {settings.vtax_version}")
    elif settings.image_digest not in digests:
        reason = Reason("digest", settings.image_digest[:12])
    elif not abs(offset) <= CLOCK_S:
        reason = Reason("clock", f"at least {offset:+.0f} s")
    elif host.identity not in ("", checked_host.identity) and not _is_reinstalled(
        host, checked_host, shared_hardware
    ):
        return _in(host, "refused", Reason("other-host", f"was {host.identity}"), now)
    else:
        return _in(checked_host, "ready", Reason(), now)
    return _in(checked_host, "refused", reason, now)


def after_removal(host: CampaignHost, answer: Answer) -> tuple[CampaignHost, str]:
    """Return a host after `vtax host remove`, and what was removed. Raises BadInput, with the reason, where it failed."""
    if _is_gone(answer):
        return replace(host, kept=()), ""
    if answer.kind != "ok":
        raise BadInput(answer.error)
    try:
        removal = answer.json()
        names = ", ".join(_lines(removal["removed"]))
        size = about_size(_count(removal["freed_bytes"]))
        return replace(host, kept=_lines(removal["kept"])), names and f"{names} ({size})"
    except (ValueError, KeyError, TypeError):
        raise BadInput("its answer cannot be read") from None


def _lines(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(one_line(str(value), _KEPT) for value in values[:_MAX_KEPT])


def _is_gone(answer: Answer) -> bool:
    """Return whether the host has no such program as it was to start."""
    has_run = answer.kind == "failed" and answer.status != -1  # else Ansible ended it
    return has_run and (answer.status == _NO_SUCH_COMMAND or "No such file" in answer.error)


def _is_reinstalled(
    host: CampaignHost, checked_host: CampaignHost, shared_hardware: Set[str]
) -> bool:
    """Return whether a host has another machine-id on the hardware that it alone has."""
    hardware = host.facts.get(HARDWARE_ID)
    is_own = bool(hardware) and hardware not in shared_hardware
    return is_own and hardware == checked_host.facts.get(HARDWARE_ID)


def _reason_of(obstacles: Sequence[tuple[str, str]]) -> Reason:
    """Return why a host is not ready: by the first obstacle that is known, else by the first one that it names."""
    for obstacle_code in _OBSTACLES:
        for code, detail in obstacles:
            if code == obstacle_code:
                return Reason(obstacle_code, one_line(detail, MAX_DETAIL))
    code, detail = obstacles[0]
    return Reason("obstacle", one_line(f"{one_line(code, _CODE)}: {detail}", MAX_DETAIL))


def twins(hosts: Iterable[CampaignHost]) -> list[CampaignHost]:
    """Return the ready hosts that must not measure, refused: second names of a host, and clones of another host.

    Of the names of one host the first remains: one with sessions before others, then by name.
    """
    candidates = [host for host in hosts if host.identity and host.state != "skipped"]
    cloned_ids = {*cloned(host.facts for host in candidates)}
    first_names: dict[str, str] = {}
    for host in sorted(candidates, key=_twin_order):
        first_names.setdefault(host.identity, host.name)
    refused_hosts = []
    for host in candidates:
        if host.state != "ready":
            continue
        machine_id = host.facts.get(MACHINE_ID)
        first_name = first_names[host.identity]
        if machine_id in cloned_ids:
            same_id = [twin for twin in candidates if twin.facts.get(MACHINE_ID) == machine_id]
            names = [twin.name for twin in same_id if twin is not host]
            reason = Reason("cloned", f"its machine-id is that of {', '.join(names[:5])}")
        elif first_name != host.name:
            reason = Reason("same-host", first_name)
        else:
            continue
        refused_hosts.append(replace(host, state="refused", reason=reason))
    return refused_hosts


def _twin_order(host: CampaignHost) -> tuple[bool, bool, str]:
    return not host.sessions, host.state == "refused", host.name


def after_run(
    host: CampaignHost,
    session: HostSession,
    answer: Answer,
    settings: Settings,
    now: float,
    *,
    is_launch: bool,
) -> CampaignHost:
    """Return a host after `vtax host run`, `status` or `stop` of a session that was launched.

    host, session: as they are known so far.
    answer: of that command.
    settings: of the campaign.
    now: Unix time.
    is_launch: whether it was `run`, whose failure is a refusal; a failure of the others leaves the session as it is.
    """
    if answer.kind == "unreachable":  # whatever was launched goes on there
        return _in(host, "unreachable", Reason("unreachable", answer.error), now)
    if answer.kind == "failed":
        if _is_gone(answer):
            return settled(host.with_session(_never_launched(session)), settings, now)
        if answer.status == -1 or not is_launch:
            return _in(host, "unreachable", Reason("no-answer", answer.error), now)
        reason = Reason("run-refused", answer.error)
        refused_session = replace(
            session, state="refused", reason=reason, started_at=session.measured_since
        )
        return settled(host.with_session(refused_session), settings, now)
    try:
        session = _updated(session, _run_of(answer, session), now)
    except (ValueError, KeyError, TypeError):
        return _in(host, "unreachable", Reason("no-answer", "its state cannot be read"), now)
    return settled(host.with_session(session), settings, now)


def after_boot(
    host: CampaignHost, session: HostSession, answer: Answer, settings: Settings, now: float
) -> CampaignHost:
    """Return a host after `vtax host boot`: its session names the boot that was set, or none where it is in it already.

    host, session: as they are known so far.
    answer: of that command.
    settings: of the campaign.
    now: Unix time.
    """
    if answer.kind == "failed" and answer.status == os.EX_TEMPFAIL:
        busy_session = replace(
            session,
            state="busy",
            reason=Reason("lock-held", answer.error),
            attempts=session.attempts - 1,
        )
        return settled(host.with_session(busy_session), settings, now)
    if answer.kind == "failed" and answer.status != -1:
        refused_session = replace(
            session, state="refused", reason=Reason("boot-refused", answer.error)
        )
        return settled(host.with_session(refused_session), settings, now)
    try:
        next_boot = one_line(str(answer.json()["next_boot"]), _BOOT)
    except (ValueError, KeyError):
        code: Code = "unreachable" if answer.kind == "unreachable" else "no-answer"
        return _in(host, "unreachable", Reason(code, answer.error), now)
    return settled(host.with_session(replace(session, next_boot=next_boot)), settings, now)


def after_reboot(
    host: CampaignHost, session: HostSession, answer: Answer, settings: Settings, now: float
) -> CampaignHost:
    """Return a host after its reboot, or after the `vtax host status` that follows it.

    Its session is refused where the host came up in another boot than was set.

    host, session: as they are known so far.
    answer: of the reboot or of that command.
    settings: of the campaign.
    now: Unix time.
    """
    if answer.task == "reboot":
        if answer.kind == "ok":
            return replace(host, at=now)
        return _in(host, "unreachable", Reason("not-rebooted", answer.error), now)
    rebooted_host = after_run(host, session, answer, settings, now, is_launch=False)
    status = rebooted_host.session(session.number)
    if rebooted_host.state == "unreachable" or status is None:
        return rebooted_host
    if status.next_boot:
        boot = one_line(str(_run_of(answer, session).get("boot") or "none of the study's"), _BOOT)
        reason = Reason("wrong-boot", f"{boot}, not {status.next_boot}")
        session = replace(session, state="refused", reason=reason)
    else:
        session = replace(session, next_boot="")
    return settled(host.with_session(session), settings, now)


def settled(host: CampaignHost, settings: Settings, now: float) -> CampaignHost:
    """Return a host in the state that follows from its sessions."""
    state, reason = _state(host, settings)
    return replace(host, state=state, reason=reason, at=now)


def _state(host: CampaignHost, settings: Settings) -> tuple[HostState, Reason]:
    by_state = {session.state: session for session in host.sessions}
    if "running" in by_state:
        return "running", Reason()
    if "failed" in by_state:
        return "failed", by_state["failed"].reason
    attempts = settings.launch.attempts
    for session in host.sessions:
        if session.state in ("interrupted", "refused") and session.attempts >= attempts:
            return "given-up", Reason("attempts", f"{session.attempts}: {session.reason}")
    if "refused" in by_state:
        return "refused", by_state["refused"].reason
    if "busy" in by_state:
        return "busy", by_state["busy"].reason
    if "interrupted" in by_state:
        return "waiting", by_state["interrupted"].reason
    if "paused" in by_state:
        return "waiting", by_state["paused"].reason
    measured_sessions = host.measured_sessions
    done_sessions = [session for session in measured_sessions if session.state == "done"]
    reason = done_sessions[0].reason if done_sessions else Reason()
    if len(measured_sessions) < settings.sessions:
        return ("waiting" if measured_sessions else "ready"), reason
    return ("done" if done_sessions else "collected"), reason


def _run_of(answer: Answer, session: HostSession) -> Mapping[str, Any]:
    """Return what a host states of the run of a session. Raises ValueError, KeyError, TypeError."""
    document: Mapping[str, Any] = answer.json()
    if "state" in document:
        return document
    for run in document["runs"]:
        if run["id"] == session.id:
            return dict(run)
    raise KeyError(session.id)


def _updated(session: HostSession, run: Mapping[str, Any], now: float) -> HostSession:
    """Return a session as `vtax host` states it. Raises ValueError, KeyError, TypeError."""
    state, detail = str(run["state"]), one_line(str(run["reason"]), MAX_DETAIL)
    sha256 = str(run["bundle_sha256"])
    updated = replace(
        session,
        block=_optional_count(run["block"]),
        blocks=_optional_count(run["blocks"]),
        bundle_sha256=sha256 if _SHA256.fullmatch(sha256) else "",
        done_trials=_count(run["done_trials"]),
        failed_trials=_count(run["failed_trials"]),
        last_failure=one_line(str(run["last_failure"]), MAX_DETAIL),
        left_s=_optional_duration(run["left_s"]),
        next_boot=one_line(str(run["next_boot"]), _BOOT),
    )
    if not updated.done_trials and state not in ("running", "done", "failed"):
        updated = replace(updated, started_at=None)
    match state:
        case "absent":
            return _never_launched(updated)
        case "running":
            return replace(updated, state="running", reason=Reason())
        case "done":
            return replace(updated, state="done", reason=Reason(), ended_at=now)
        case "busy":
            reason = Reason("lock-held", detail)
            return replace(updated, state="busy", reason=reason, attempts=updated.attempts - 1)
        case "refused":
            return replace(updated, state="refused", reason=Reason("run-refused", detail))
        case "paused":
            reason = Reason("boot", updated.next_boot)
            return replace(updated, state="paused", reason=reason, attempts=0)
        case "interrupted":
            reason = Reason("interrupted", detail)
            return replace(updated, state="interrupted", reason=reason, ended_at=now)
        case "failed":
            if updated.last_failure and updated.failed_trials == updated.done_trials:
                detail = one_line(f"every trial failed: {updated.last_failure}", MAX_DETAIL)
            reason = Reason("run-failed", detail)
            return replace(updated, state="failed", reason=reason, ended_at=now)
    raise ValueError(f"no state of a run: {one_line(state, 40)}")


def _never_launched(session: HostSession) -> HostSession:
    """Return a session as one that was never launched: the host knows nothing of it."""
    return HostSession(session.number, session.id, again=session.again)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError(f"no number: {one_line(str(value), 40)}")
    return value


def _optional_count(value: Any) -> int | None:
    return None if value is None else _count(value)


def _optional_duration(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float):
        raise ValueError(f"no duration: {one_line(str(value), 40)}")
    return float(value) if 0 <= value < _MAX_S else None


def _without_answer(
    host: CampaignHost, answer: Answer, now: float, code: Code | None = None
) -> CampaignHost:
    if answer.kind == "unreachable":
        return _in(host, "unreachable", Reason("unreachable", answer.error), now)
    return _in(host, "refused", Reason(code or "not-prepared", answer.error), now)


def _in(host: CampaignHost, state: HostState, reason: Reason, now: float) -> CampaignHost:
    return replace(host, state=state, reason=reason, at=now)
