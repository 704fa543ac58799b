"""Cost of a trial on the host: CPU time, energy, and CPU time of its bytes, for metrics and the view of counters."""

from __future__ import annotations

from collections.abc import Mapping

from vtax.counters.table import (
    ENERGY,
    GUEST,
    HOST,
    HOST_CPU,
    LAYER,
    LINK,
    PART_CPU,
    SWITCH_CPU,
    SWITCHED_BYTES,
    UNDER_TEST_BYTES,
    UNDER_TEST_CPU,
)

Counted = Mapping[tuple[str, str], float]
"""(place, name) -> value."""

DAEMON = "daemon"
"""The part of a layer that serves guests from outside of their cgroups (see counters.layer)."""
MIN_BYTES = 1e6  # below, a quotient is of a tool's control connection alone


def carried(counters: Counted, cpu_s: float | None) -> tuple[float | None, float]:
    """Return CPU seconds and bytes of what carried the traffic. cpu_s: of the guests under test with their layers.

    Where a switch of the lab carries what a guest decides on, its CPU and its bytes, in and out, belong to them.
    """
    moved_bytes = counters.get((LINK, UNDER_TEST_BYTES.name), 0.0)
    switched_bytes = counters.get((LINK, SWITCHED_BYTES.name))
    if switched_bytes is None:
        return cpu_s, moved_bytes
    if cpu_s is not None:
        cpu_s += counters.get((LINK, SWITCH_CPU.name), 0.0)
    return cpu_s, moved_bytes + 2 * switched_bytes


def under_test_cpu_s(counters: Counted) -> float | None:
    """Return CPU seconds of the guests under test with their layers; None when the host could not count one of them."""
    return counters.get((LAYER, UNDER_TEST_CPU.name))


def per_gigabyte(cpu_s: float | None, moved_bytes: float) -> float | None:
    """Return CPU seconds for 10^9 bytes; None when either is not known well enough."""
    return None if cpu_s is None or moved_bytes < MIN_BYTES else cpu_s / (moved_bytes / 1e9)


def host_cpu_s(counters: Counted) -> float | None:
    """Return CPU seconds of all guests under test and their layers, a daemon that serves them included.

    None when the host could not count one of them. Neighbours, peers and the lab are left out.
    """
    cpu_s = under_test_cpu_s(counters)
    if cpu_s is None:
        cpu_s = counters.get((LAYER, HOST_CPU.name))
    if cpu_s is None:
        return None
    for (place, name), value in counters.items():
        if name == HOST_CPU.name and _is_guest(place):
            cpu_s += value
    return cpu_s + counters.get((LAYER, PART_CPU.of(DAEMON)), 0.0)


def energy_j(counters: Counted) -> float | None:
    """Return joules of the host's processors, all that ran on them; None where they are not counted."""
    return counters.get((HOST, ENERGY["package"].name))


def _is_guest(place: str) -> bool:
    """Return whether it is the role of a further guest that runs the benchmark: `guest2`."""
    return place.startswith(GUEST) and place[len(GUEST) :].isdigit()
