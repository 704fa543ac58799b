"""What the bytes of a network trial cost in CPU: one formula for a trial's metric and the view of its counters."""

from __future__ import annotations

from collections.abc import Mapping

Counted = Mapping[tuple[str, str], float]
"""(place, name) -> value."""

UNDER_TEST = "under_test.bytes"
"""Of the place `link`: all bytes through the interfaces of the guests under test."""
UNDER_TEST_CPU = "under_test_cpu_s"
"""Of the place `layer`: CPU of all guests under test with their layers, as the host counts it."""
LEAST_BYTES = 1e6  # below, a quotient is of a tool's control connection alone


def carried(counted: Counted, cpu_s: float | None) -> tuple[float | None, float]:
    """CPU seconds and bytes of what carried the traffic. cpu_s: of the guests under test with their layers.

    Where a switch of the lab carries what a guest decides on, its CPU and its bytes, in and out, belong to them.
    """
    moved = counted.get(("link", UNDER_TEST), 0.0)
    switched = counted.get(("link", "openflow.switched_bytes"))
    if switched is None:
        return cpu_s, moved
    of_switch = counted.get(("link", "switch.cpu_s"), 0.0)
    return None if cpu_s is None else cpu_s + of_switch, moved + 2 * switched


def per_gigabyte(cpu_s: float | None, moved: float) -> float | None:
    """CPU seconds for 10^9 bytes; None when either is not known well enough."""
    return None if cpu_s is None or moved < LEAST_BYTES else cpu_s / (moved / 1e9)
