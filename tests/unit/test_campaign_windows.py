"""Windows of the day, in which alone hosts are prepared, probed, and launched."""

from __future__ import annotations

import time

import pytest
from answering_hosts import Fleet, Machine, go, no_canary

from vtax.campaign import controller as module


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Twelve hosts that answer, and the time that they have."""
    made = Fleet(**{f"h{i:02}": Machine(f"m{i:02}") for i in range(12)})
    monkeypatch.setattr(module, "time", type("Clock", (), {"time": staticmethod(lambda: made.now)}))
    return made


def test_a_window_of_the_day_holds_launches_back(tmp_path, fleet):
    at = time.localtime(fleet.now)
    later = f"{(at.tm_hour + 2) % 24:02}:00-{(at.tm_hour + 3) % 24:02}:00"
    campaign = no_canary(tmp_path, window=later)
    assert [*go(campaign, fleet).values()].count("running") == 0
    fleet.now += 2 * 3600
    assert [*go(campaign, fleet).values()].count("running") == 12
