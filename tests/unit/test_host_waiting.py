"""Waiting by looking again and again."""

from __future__ import annotations

import time

import pytest

from vtax.errors import VtaxError
from vtax.host import waiting
from vtax.host.waiting import wait_until


class Clock:
    """Time that passes only while something sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(waiting, "time", made)
    return made


def test_the_first_true_value_is_returned_at_once(clock):
    assert wait_until(lambda: "ready", 5, 0.1) == "ready"
    assert clock.slept == []


def test_the_condition_is_evaluated_until_it_is_true(clock):
    values = iter(["", "", "third"])
    assert wait_until(lambda: next(values), 5, 0.5) == "third"
    assert clock.slept == [0.5, 0.5]


def test_the_condition_is_evaluated_once_more_when_the_time_is_over(clock):
    evaluated: list[float] = []
    assert not wait_until(lambda: evaluated.append(clock.now), 1, 0.4)
    assert evaluated == pytest.approx([100.0, 100.4, 100.8, 101.0])
    assert wait_until(lambda: clock.now >= 102.0, 1, 0.4)


def test_without_time_the_condition_is_evaluated_once(clock):
    evaluated: list[float] = []
    assert not wait_until(lambda: evaluated.append(clock.now), 0, 0.4)
    assert evaluated == [100.0]


def test_the_error_is_made_when_the_time_is_over(clock):
    with pytest.raises(VtaxError, match=r"late at 101\.0"):
        wait_until(lambda: False, 1, 0.25, otherwise=lambda: VtaxError(f"late at {clock.now}"))


def test_the_interval_grows_by_half_up_to_its_maximum(clock):
    wait_until(lambda: False, 10, 1, max_interval_s=2)
    assert clock.slept == [1, 1.5, 2, 2, 2, 1.5]


def test_what_the_condition_raises_passes_through(clock):
    def broken() -> bool:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        wait_until(broken, 5, 1)


def test_real_time_passes():
    started_at = time.monotonic()
    assert not wait_until(lambda: False, 0.05, 0.01)
    assert 0.05 <= time.monotonic() - started_at < 5
