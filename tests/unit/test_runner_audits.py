"""One audit serves all guests that are made alike on a host in the same state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scripted import install, plan_of, study

from vtax.runner import audits
from vtax.runner.audits import Audits


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Any:
    install(monkeypatch)
    plan = plan_of(study(design={"blocks": 2, "seed": 7}))
    return [session for block in range(2) for session in plan.guests(block)]


def asked(known: Audits, session: Any) -> list[str]:
    """Return the platform if its guest is asked."""
    names: list[str] = []

    def ask() -> dict[str, Any]:
        names.append(session.platform.name)
        return {"kernel_release": session.platform.name}

    assert known.facts(session, ask) == {"kernel_release": session.platform.name}
    return names


def test_a_platform_is_asked_once_in_a_run(sessions: Any) -> None:
    known = Audits()
    names = [name for session in sessions for name in asked(known, session)]
    assert sorted(names) == ["native", "other"]


def test_a_platform_is_asked_again_when_the_host_was_changed_or_the_guest_is_made_otherwise(
    sessions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, session = Audits(), sessions[0]
    assert asked(known, session)
    point = replace(session.cells[0].point, tuning="hugepages")
    tuned = replace(session, cells=(replace(session.cells[0], point=point),))
    assert asked(known, tuned)
    assert not asked(known, tuned)
    monkeypatch.setattr(audits, "_host_state", lambda: (b"always [never]",))
    assert asked(known, session)
