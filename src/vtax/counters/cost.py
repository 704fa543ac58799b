"""What the bytes of a network trial cost in CPU: one formula for a trial's metric and the view of its counters."""

from __future__ import annotations

from collections.abc import Mapping

from vtax.counters.table import LAYER, LINK, SWITCH_CPU, SWITCHED_BYTES, UNDER_TEST_BYTES, UNDER_TEST_CPU

Counted = Mapping[tuple[str, str], float]
"""(place, name) -> value."""

MIN_BYTES = 1e6  # below, a quotient is of a tool's control connection alone


def carried(counted: Counted, cpu_s: float | None) -> tuple[float | None, float]:
    """CPU seconds and bytes of what carried the traffic. cpu_s: of the guests under test with their layers.

    Where a switch of the lab carries what a guest decides on, its CPU and its bytes, in and out, belong to them.
    """
    moved = counted.get((LINK, UNDER_TEST_BYTES.name), 0.0)
    switched = counted.get((LINK, SWITCHED_BYTES.name))
    if switched is None:
        return cpu_s, moved
    of_switch = counted.get((LINK, SWITCH_CPU.name), 0.0)
    return None if cpu_s is None else cpu_s + of_switch, moved + 2 * switched


def under_test_cpu_s(counted: Counted) -> float | None:
    """CPU seconds of the guests under test with their layers; None when the host could not count one of them."""
    return counted.get((LAYER, UNDER_TEST_CPU.name))


def per_gigabyte(cpu_s: float | None, moved: float) -> float | None:
    """CPU seconds for 10^9 bytes; None when either is not known well enough."""
    return None if cpu_s is None or moved < MIN_BYTES else cpu_s / (moved / 1e9)
