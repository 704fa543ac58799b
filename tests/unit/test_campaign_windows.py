"""Windows of the day, in which alone hosts are prepared and launched."""

from __future__ import annotations

import time

import pytest
from answering_hosts import Fleet, Machine, go, no_canary


@pytest.fixture
def fleet() -> Fleet:
    """Twelve hosts that answer, and the time that they have."""
    made = Fleet(**{f"h{i:02}": Machine(f"m{i:02}") for i in range(12)})
    return made


def test_a_window_of_the_day_holds_launches_back(tmp_path, fleet):
    at = time.localtime(fleet.now)
    later = f"{(at.tm_hour + 2) % 24:02}:00-{(at.tm_hour + 3) % 24:02}:00"
    campaign = no_canary(tmp_path, window=later)
    assert [*go(campaign, fleet).values()].count("running") == 0
    fleet.now += 2 * 3600
    assert [*go(campaign, fleet).values()].count("running") == 12


def test_a_window_that_closes_while_hosts_are_prepared_holds_launches_back(tmp_path, fleet):
    at = time.localtime(fleet.now)
    campaign = no_canary(tmp_path, window=f"{at.tm_hour:02}:00-{(at.tm_hour + 1) % 24:02}:00")
    honest = fleet.run

    def slow(tasks, given):
        yield from honest(tasks, given)
        fleet.now += 3600

    fleet.machines["h00"].obstacles = [{"code": "space", "detail": "1 MB"}]
    fleet.run = slow
    states = go(campaign, fleet)
    assert states == {**dict.fromkeys(fleet.machines, "ready"), "h00": "refused"}
    assert [tasks for tasks, _ in fleet.asked] == ["prepare,check"], "none is launched then"
    asked = len(fleet.asked)
    go(campaign, fleet)
    assert len(fleet.asked) == asked, "none is prepared outside its window, a refused one neither"
    fleet.run, fleet.now = honest, fleet.now + 23 * 3600
    assert [*go(campaign, fleet).values()].count("running") == 11
