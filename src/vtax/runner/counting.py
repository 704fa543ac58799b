"""What is counted around the foreground commands of a trial: in the guests, in their layers, in the lab, on the host.

Also how fast the guest's clock runs meanwhile: what a tool reports as time or rate is wrong by as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.counters import table
from vtax.counters.guest import PATHS, PEER_PATHS
from vtax.counters.host import HostSample, host_warnings
from vtax.counters.layer import Parts
from vtax.counters.table import GUEST, HOST, HOST_CPU, LAYER, LINK, PROGRAM, SWITCH_CPU, UNDER_TEST_CPU
from vtax.counters.whole_host import HostCounters
from vtax.guest.guest import Guest
from vtax.guest.results import ClockReading, CommandResult
from vtax.network.links import Links
from vtax.platforms.base import RunningGuest
from vtax.store.records import CLOCK_RATE as CLOCK_RATE_CODE

_CLOCK_SAMPLES = 3
_MIN_CLOCK_S = 0.05  # shorter, a rate says more about round trips than about the clock

Counted = Mapping[tuple[str, str], float]
"""(place, name) -> value."""


@dataclass(frozen=True)
class Endpoint:
    """A started guest: what its platform knows of it, and the calls into it.

    requested_at: monotonic time. directory: of this host, where everything is that the guest writes.
    """

    running: RunningGuest
    guest: Guest
    requested_at: float = 0.0
    directory: Path | None = None


class Counting:
    """Reads counters of every end, of the layer, of the links and of the host around the foreground commands."""

    def __init__(self, endpoints: Mapping[str, Endpoint], links: Links | None, margin: float = 1.0) -> None:
        """margin: by which the rate of the guest's clock may be off without a warning."""
        self._margin = margin
        self._endpoints = endpoints
        self._links = links
        self._host = HostCounters()
        self._parts = Parts(endpoints[GUEST].running.parts) if GUEST in endpoints else Parts(())
        self.differences: dict[tuple[str, str], float] = {}
        self.warnings: tuple[tuple[str, str], ...] = ()

    @contextmanager
    def around(self) -> Iterator[None]:
        """Count what happens inside, up to where it fails, if it does; its error goes before one of the counting."""
        first, clock = self._read(), self._clock()
        on_host = self._host.read()
        host = HostSample.take(on_host)
        try:
            yield
        except Exception:
            with suppress(Exception):
                self._compare({**first, **_at(HOST, on_host)}, host, clock)
            raise
        self._compare({**first, **_at(HOST, on_host)}, host, clock)

    def _compare(self, first: Counted, host: HostSample, clock: ClockReading | None) -> None:
        on_host = self._host.read()
        sample = HostSample.take(on_host)
        clocks = clock_counters(clock, self._clock())
        last = {**self._read(), **_at(HOST, on_host)}
        self.differences = {**differences(first, last), **_at(GUEST, clocks)}
        here = sum(not end.running.is_remote for end in self._endpoints.values())
        of_host = host_warnings(host, sample, own_cpu_s(self.differences, here))
        self.warnings = (*of_host, *clock_warnings(self.differences, self._margin))

    def _clock(self) -> ClockReading | None:
        end = self._endpoints.get(GUEST)
        return end.guest.clock(_CLOCK_SAMPLES) if end else None

    def _read(self) -> dict[tuple[str, str], float]:
        read: dict[tuple[str, str], float] = {}
        layers: dict[str, float | None] = {}
        for place, end in self._endpoints.items():
            read.update(_at(place, end.guest.counters(PATHS if place == GUEST else PEER_PATHS)))
            cpu_s = layers[place] = end.running.host_cpu_s()
            if cpu_s is not None:
                read[LAYER if place == GUEST else place, HOST_CPU.name] = cpu_s
            if place == GUEST and end.running.parts:
                read.update(_at(LAYER, self._parts.read(end.running.layer_pids())))
        if self._links is not None:
            read.update(_at(LINK, self._links.counters()))
            under_test = [layers.get(end.role) for end in self._links.guests]
            known = [cpu_s for cpu_s in under_test if cpu_s is not None]
            if len(known) == len(under_test):
                read[LAYER, UNDER_TEST_CPU.name] = sum(known)
        return read


def differences(first: Counted, last: Counted) -> dict[tuple[str, str], float]:
    """What was counted between two readings: of a gauge the last value."""
    found = {}
    for key, value in last.items():
        counter = table.find(key[1])
        if counter is not None and counter.is_gauge:
            found[key] = value
        elif key in first:
            found[key] = value - first[key]
    return found


def own_cpu_s(counted: Counted, guests: int) -> float | None:
    """CPU seconds on this host of all that a trial runs: its guests with their layers, and the lab's own switch.

    guests: how many of them are on this host; None when one of them is not counted.
    """
    of_guests = [value for (_, name), value in counted.items() if name == HOST_CPU.name]
    return sum(of_guests) + counted.get((LINK, SWITCH_CPU.name), 0.0) if len(of_guests) == guests else None


def of_programs(foreground: Iterable[CommandResult]) -> dict[tuple[str, str], float]:
    """What the measured programs of a trial used: added up; of a gauge, the largest."""
    found: dict[tuple[str, str], float] = {}
    for result in foreground:
        for name, value in result.usage.items():
            counter, sofar = table.find(name), found.get((PROGRAM, name), 0.0)
            found[PROGRAM, name] = max(sofar, value) if counter and counter.is_gauge else sofar + value
    return found


def clock_counters(first: ClockReading | None, last: ClockReading | None) -> dict[str, float]:
    """Rate of the guest's clock between two readings with its largest error, and its offset before them.

    A guest reads its clock somewhere within the round trip: the rate's error is at most half of both round trips over
    the controller's time between.
    """
    if first is None or last is None:
        return {}
    found = {table.CLOCK_OFFSET.name: first.offset_s}
    outside_s = last.outside_s - first.outside_s
    if outside_s >= _MIN_CLOCK_S:
        found[table.CLOCK_RATE.name] = (last.inside_s - first.inside_s) / outside_s
        found[table.CLOCK_RATE_ERROR.name] = (first.round_trip_s + last.round_trip_s) / 2 / outside_s
    return found


def clock_warnings(counted: Counted, margin: float) -> tuple[tuple[str, str], ...]:
    """A warning when the rate of the guest's clock is off by more than the margin, whatever its error."""
    rate = counted.get((GUEST, table.CLOCK_RATE.name), 1.0)
    error = counted.get((GUEST, table.CLOCK_RATE_ERROR.name), 0.0)
    if abs(rate - 1) - error <= margin:
        return ()
    text = (
        f"the guest's clock ran {rate:.4f} times as fast as the host's (± {error:.4f}), off by more than the margin "
        f"of {margin:g}: times and rates that the tool took from it are wrong by as much"
    )
    return ((CLOCK_RATE_CODE, text),)


def _at(place: str, counted: Mapping[str, float]) -> dict[tuple[str, str], float]:
    return {(place, name): value for name, value in counted.items()}
