"""Hosts of a campaign and their sessions, as its controller knows them: states and typed reasons."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import TypeAdapter

from vtax.campaign.prepare import HOME
from vtax.described import Means
from vtax.foreign_data import parse_json

HostState = Literal[
    "new",
    "unreachable",
    "refused",
    "busy",
    "ready",
    "running",
    "waiting",
    "done",
    "collected",
    "failed",
    "given-up",
    "skipped",
    "aborted",
]
SessionState = Literal[
    "absent",
    "running",
    "paused",
    "interrupted",
    "busy",
    "refused",
    "done",
    "failed",
    "collected",
]
Code = Literal[
    "",
    "unreachable",
    "no-answer",
    "not-prepared",
    "python",
    "version",
    "digest",
    "space",
    "not-root",
    "no-machine-id",
    "obstacle",
    "lock-held",
    "clock",
    "same-host",
    "cloned",
    "other-host",
    "run-failed",
    "run-refused",
    "interrupted",
    "attempts",
    "other-study",
    "damaged",
    "damaged-bundle",
    "not-stored",
    "skipped",
    "window",
    "boot",
    "boot-refused",
    "not-rebooted",
    "wrong-boot",
]
FAILURES: frozenset[HostState] = frozenset({"refused", "failed", "given-up"})
ENDED: frozenset[HostState] = frozenset({"failed", "given-up", "skipped", "collected"})
"""States in which a host is asked nothing more."""


MAX_DAMAGED = 2
"""How often a bundle is brought that cannot be used."""
MAX_DETAIL = 300
"""Characters of the detail of a reason that others wrote."""


@dataclass(frozen=True)
class Reason:
    """Why something is in its state."""

    code: Annotated[
        Code, Means("kind of reason, such as `lock-held`, `space`, `clock`; empty without one")
    ] = ""
    detail: Annotated[str, Means("what was found")] = ""

    def __str__(self) -> str:
        """Return code and detail on one line."""
        return " ".join(filter(None, (self.code, self.detail)))


NONE = Reason()


@dataclass(frozen=True)
class HostSession:
    """A session of a host, as its controller knows it. The canary's has the number 0 and is not collected."""

    number: Annotated[int, Means("number of the session, from 1; 0 for the canary's smaller run")]
    id: Annotated[str, Means("id of its run on the host")]
    state: Annotated[SessionState, Means("state of its run, or `collected`")] = "absent"
    reason: Annotated[Reason, Means("why it is in this state")] = NONE
    attempts: Annotated[int, Means("how often it was launched or resumed")] = 0
    again: Annotated[int, Means("how often it was begun anew after a failure")] = 0
    started_at: Annotated[float | None, Means("when what it measured began", is_time=True)] = None
    ended_at: Annotated[float | None, Means("when its end was seen", is_time=True)] = None
    block: Annotated[int | None, Means("block that runs, or was the last, from 1")] = None
    blocks: Annotated[int | None, Means("planned blocks")] = None
    done_trials: Annotated[int, Means("measured trials, failed ones included")] = 0
    failed_trials: Annotated[int, Means("measured trials that failed")] = 0
    last_failure: Annotated[str, Means("the last trial that failed, and its error")] = ""
    left_s: Annotated[
        float | None, Means("time left by the estimate of its host; null when not known", unit="s")
    ] = None
    next_boot: Annotated[
        str,
        Means("boot of the study that its host is to be brought to; empty for the one it is in"),
    ] = ""
    bundle_sha256: Annotated[str, Means("SHA-256 of the bundle on the host; empty without one")] = (
        ""
    )
    damaged: Annotated[
        int, Means("how often its bundle was brought, or was to be, and could not be used")
    ] = 0
    bundle: Annotated[str, Means("path of the collected bundle in the campaign's directory")] = ""
    run: Annotated[str, Means("name of the run in the store")] = ""
    run_identity: Annotated[str, Means("identity of that run")] = ""

    def without_bundle(self, reason: Reason) -> HostSession:
        """Return the session after its bundle could not be used: it is brought once more, and then has failed."""
        damaged_count = self.damaged + 1
        state: SessionState = "failed" if damaged_count >= MAX_DAMAGED else self.state
        return replace(self, state=state, reason=reason, damaged=damaged_count)

    @property
    def measured_since(self) -> float | None:
        """Unix time at which it began; None where it was launched and has measured nothing."""
        return self.started_at if self.done_trials else None


@dataclass(frozen=True)
class InventoryHost:
    """A host of an inventory."""

    name: Annotated[str, Means("name in the inventory")]
    address: Annotated[
        str, Means("address that the inventory gives, with the port where that is not 22")
    ] = ""
    group: Annotated[str, Means("its `vtax_group`")] = ""
    skip: Annotated[str, Means("its `vtax_skip`: why nothing is asked of it")] = ""
    window: Annotated[str, Means("its `vtax_window`")] = ""
    home: Annotated[str, Means("its `vtax_home`")] = HOME
    python: Annotated[str, Means("its `vtax_python`")] = "python3"


@dataclass(frozen=True)
class CampaignHost(InventoryHost):
    """A host of a campaign. facts: as a run keeps them, of the last check."""

    state: Annotated[HostState, Means("state of the host")] = "new"
    reason: Annotated[Reason, Means("why it is in this state")] = NONE
    at: Annotated[float | None, Means("last answer", is_time=True)] = None
    identity: Annotated[str, Means("hash of machine-id, DMI UUID and board serial number")] = ""
    facts: Annotated[Mapping[str, Any], Means("facts of the host, as a run keeps them")] = field(
        default_factory=dict
    )
    agents: Annotated[tuple[str, ...], Means("resident agents")] = ()
    kept: Annotated[
        tuple[str, ...], Means("packs, images and consents that vtax keeps there, as last seen")
    ] = ()
    boot: Annotated[
        str, Means("boot that a run had it rebooted into; empty once it is to be in its default")
    ] = ""
    sessions: Annotated[tuple[HostSession, ...], Means("sessions that were launched")] = ()

    @property
    def is_skipped(self) -> bool:
        """Whether nothing is asked of it."""
        return self.state == "skipped" or bool(self.skip)

    def session(self, number: int) -> HostSession | None:
        """Return the session of a number; None where it was never launched."""
        return next((session for session in self.sessions if session.number == number), None)

    def with_session(self, session: HostSession) -> CampaignHost:
        """Return the host with a session in place of the one of the same number."""
        sessions = {existing.number: existing for existing in self.sessions}
        sessions[session.number] = session
        return replace(self, sessions=tuple(sessions[number] for number in sorted(sessions)))

    @property
    def running(self) -> HostSession | None:
        """The session that was launched, and of which no end was seen."""
        return next((session for session in self.sessions if session.state == "running"), None)

    @property
    def measured_sessions(self) -> list[HostSession]:
        """The sessions that were measured to their end, without the canary's."""
        sessions = [session for session in self.sessions if session.number]
        return [session for session in sessions if session.state in ("done", "collected")]

    def text(self) -> str:
        """Return the host as the text of its file."""
        return json.dumps({"schema": "vtax.campaign-host/1", **asdict(self)}, indent=1)

    @classmethod
    def of_text(cls, text: str) -> CampaignHost:
        """Return the host that `text` wrote. Raises ValueError, KeyError, TypeError, AttributeError for other text."""
        values = parse_json(text)
        if values.pop("schema") != "vtax.campaign-host/1":
            raise ValueError("another schema")
        return _reader().validate_python(values)


@cache
def _reader() -> TypeAdapter[CampaignHost]:
    return TypeAdapter(CampaignHost)
