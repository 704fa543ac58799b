"""Polls a condition for a limited time.

Where a file descriptor becomes ready instead, poll(2) waits without looking. What runs outside of vtax's own process
(the agent, `platforms.ssh.there`) cannot import this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
_GROWTH = 1.5


def wait_until(
    condition: Callable[[], _T],
    timeout_s: float,
    interval_s: float,
    *,
    max_interval_s: float = 0.0,
    otherwise: Callable[[], Exception] | None = None,
) -> _T:
    """Return the first true value of a condition.

    condition: is evaluated at once, then at intervals, and at the end of timeout_s; its errors pass through.
    timeout_s: how long to wait.
    interval_s: between evaluations.
    max_interval_s: up to which the interval grows, by half after each evaluation.
    otherwise: makes the error that is raised when the time is over; without it the last, false value is returned.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        is_last = time.monotonic() >= deadline
        value = condition()
        if value:
            return value
        if is_last:
            break
        time.sleep(max(0.0, min(interval_s, deadline - time.monotonic())))
        interval_s = max(interval_s, min(interval_s * _GROWTH, max_interval_s))
    if otherwise is not None:
        raise otherwise()
    return value
