"""Counting around the foreground commands of a trial: in the guests, in their layers, in the lab, on the host.

Also how fast the guest's clock runs meanwhile: what a tool reports as time or rate is wrong by as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from vtax.counters import table
from vtax.counters.guest import NAMESPACE_PATHS, PATHS, PEER_PATHS
from vtax.counters.host import HostSample, host_warnings
from vtax.counters.layer import LayerParts
from vtax.counters.table import (
    GUEST,
    HOST,
    HOST_CPU,
    LAYER,
    LINK,
    PROGRAM,
    SWITCH_CPU,
    UNDER_TEST_CPU,
)
from vtax.counters.whole_host import HostReading, host_counters
from vtax.guest.guest import Guest
from vtax.guest.results import ClockReading, CommandResult, GuestSample
from vtax.messages import Note
from vtax.network.links import Links
from vtax.platforms.base import RunningGuest
from vtax.store.records import CLOCK_RATE as CLOCK_RATE_CODE

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

    @property
    def shares_kernel(self) -> bool:
        """Whether its kernel is that of this host. Of a machine its word is not taken: its root may set the clock."""
        running = self.running
        return not (self.guest.has_own_kernel or running.is_machine or running.is_remote)


@dataclass(frozen=True)
class _Reading:
    """Readings at one end of a trial. guests: by place. layers: what the host counts of links and layers."""

    guests: Mapping[str, GuestSample]
    layers: Counted
    host: HostReading

    @property
    def clock(self) -> ClockReading | None:
        """The clock of the guest that is measured."""
        return self.guests[GUEST].clock if GUEST in self.guests else None


class Counting:
    """Reads counters of every end, of the layer, of the links and of the host around the foreground commands."""

    def __init__(
        self, endpoints: Mapping[str, Endpoint], links: Links | None, margin: float = 1.0
    ) -> None:
        """margin: by which the rate of the guest's clock may be off without a warning."""
        self._margin = margin
        self._endpoints = endpoints
        self._links = links
        self._host = host_counters()
        parts = endpoints[GUEST].running.parts if GUEST in endpoints else ()
        self._parts = LayerParts(parts)
        self._readings: tuple[_Reading, _Reading] | None = None
        self.differences: dict[tuple[str, str], float] = {}
        self.warnings: tuple[Note, ...] = ()

    @contextmanager
    def around(self) -> Iterator[None]:
        """Count what happens inside, up to where it fails, if it does; its error goes before one of the counting.

        Guests are asked first and last, so that the answers are in no account of the host. A guest that has the
        host's kernel is asked for what its network namespace counts; the rest is read once. What was read is parsed
        by `compare`, when there is time.
        """
        guests = self._ask()
        layers = self._read()
        host = self._host.read()
        try:
            yield
        except Exception:
            with suppress(Exception):
                self._readings = _Reading(guests, layers, host), self._read_again()
            raise
        self._readings = _Reading(guests, layers, host), self._read_again()

    def _read_cpu(self) -> dict[tuple[str, str], float]:
        """Read what the host counts of the CPU time of guests and their layers."""
        counters: dict[tuple[str, str], float] = {}
        for place, end in self._endpoints.items():
            if place == GUEST and end.running.parts:
                counters.update(_at(LAYER, self._parts.read(end.running.layer_pids())))
            cpu_s = end.running.host_cpu_s()
            if cpu_s is not None:
                counters[_cpu_key(place)] = cpu_s
        return counters

    def _read_again(self) -> _Reading:
        host = self._host.read()
        layers = self._read()
        return _Reading(self._ask(), layers, host)

    def compare(self) -> None:
        """Parse what was read, once: `differences` and `warnings` are known then. Nothing was read: there are none.

        Of several countings, what was counted first is to be compared first.
        """
        if self._readings is None:
            return
        first, last = self._readings
        self._readings = None
        before, after = self._counted(first), self._counted(last)
        clocks = clock_counters(first.clock, last.clock)
        self.differences = {**differences(before, after), **_at(GUEST, clocks)}
        host_before = HostSample.of(first.host, _at_host(before))
        host_after = HostSample.of(last.host, _at_host(after))
        here = sum(not end.running.is_remote for end in self._endpoints.values())
        own_s = own_cpu_s(self.differences, here)
        self.warnings = (
            *host_warnings(host_before, host_after, own_s),
            *clock_warnings(self.differences, self._margin),
            *quota_notes(self.differences),
        )

    def _ask(self) -> dict[str, GuestSample]:
        """Ask all ends at once: the one that is measured last, and its answer is awaited first, for its clock."""
        places = sorted(self._endpoints, key=lambda place: place == GUEST)
        begun = {}
        for place in places:
            end = self._endpoints[place]
            paths = NAMESPACE_PATHS if end.shares_kernel else _paths_of(place)
            begun[place] = end.guest.begin_sample(paths)
        samples = {}
        for place in reversed(places):
            samples[place] = self._endpoints[place].guest.collect_sample(begun[place])
        return samples

    def _counted(self, reading: _Reading) -> dict[tuple[str, str], float]:
        counters = dict(reading.layers)
        kernel_files = self._host.kernel_files(reading.host)
        for place, sample in reading.guests.items():
            guest = self._endpoints[place].guest
            if self._endpoints[place].shares_kernel:
                shared = {path: kernel_files.get(path) for path in _paths_of(place)}
                whole = replace(sample, files={**shared, **sample.files})
                counters.update(_at(place, guest.counted(whole)))
            else:
                counters.update(_at(place, guest.counted(sample)))
        counters.update(_at(HOST, self._host.counted(reading.host)))
        return counters

    def _read(self) -> dict[tuple[str, str], float]:
        """Read what the host counts of links, layers and guests, the CPU time of guests last."""
        counters: dict[tuple[str, str], float] = {}
        if self._links is not None:
            counters.update(_at(LINK, self._links.counters()))
        if GUEST in self._endpoints:
            counters.update(_at(LAYER, self._endpoints[GUEST].running.throttling()))
        cpu = self._read_cpu()
        counters.update(cpu)
        if self._links is not None:
            under_test = [cpu.get(_cpu_key(end.role)) for end in self._links.guests]
            known = [cpu_s for cpu_s in under_test if cpu_s is not None]
            if len(known) == len(under_test):
                counters[LAYER, UNDER_TEST_CPU.name] = sum(known)
        return counters


def _paths_of(place: str) -> tuple[str, ...]:
    """Return the files that are read for an end."""
    return PATHS if place == GUEST else PEER_PATHS


def differences(first: Counted, last: Counted) -> dict[tuple[str, str], float]:
    """Subtract two readings: of a gauge the last value."""
    changes = {}
    for key, value in last.items():
        counter = table.find(key[1])
        if counter is not None and counter.is_gauge:
            changes[key] = value
        elif key in first:
            changes[key] = value - first[key]
    return changes


def own_cpu_s(counted: Counted, guests: int) -> float | None:
    """Return CPU seconds on this host of all that a trial runs: its guests with their layers, and the lab's own switch.

    guests: how many of them are on this host; None when one of them is not counted.
    """
    guest_s = [value for (_, name), value in counted.items() if name == HOST_CPU.name]
    if len(guest_s) != guests:
        return None
    return sum(guest_s) + counted.get((LINK, SWITCH_CPU.name), 0.0)


def program_usage(foreground: Iterable[CommandResult]) -> dict[tuple[str, str], float]:
    """Return what the measured programs of a trial used: added up; of a gauge, the largest."""
    usage: dict[tuple[str, str], float] = {}
    for result in foreground:
        for name, value in result.usage.items():
            counter = table.find(name)
            so_far = usage.get((PROGRAM, name), 0.0)
            if counter and counter.is_gauge:
                usage[PROGRAM, name] = max(so_far, value)
            else:
                usage[PROGRAM, name] = so_far + value
    return usage


def clock_counters(first: ClockReading | None, last: ClockReading | None) -> dict[str, float]:
    """Rate of the guest's clock between two readings with its largest error, and its offset before them.

    A guest reads its clock somewhere within the round trip: the rate's error is at most half of both round trips over
    the controller's time between.
    """
    if first is None or last is None:
        return {}
    counters = {table.CLOCK_OFFSET.name: first.offset_s}
    outside_s = last.outside_s - first.outside_s
    if outside_s >= _MIN_CLOCK_S:
        round_trip_s = (first.round_trip_s + last.round_trip_s) / 2
        counters[table.CLOCK_RATE.name] = (last.inside_s - first.inside_s) / outside_s
        counters[table.CLOCK_RATE_ERROR.name] = round_trip_s / outside_s
    return counters


def clock_warnings(counted: Counted, margin: float) -> tuple[Note, ...]:
    """Return a warning when the rate of the guest's clock is off by more than the margin, whatever its error."""
    rate = counted.get((GUEST, table.CLOCK_RATE.name), 1.0)
    error = counted.get((GUEST, table.CLOCK_RATE_ERROR.name), 0.0)
    if abs(rate - 1) - error <= margin:
        return ()
    return (Note(CLOCK_RATE_CODE, rate=round(rate, 4), error=round(error, 4), margin=margin),)


def quota_notes(counted: Counted) -> tuple[Note, ...]:
    """Return a note when a quota of CPU time stopped the guest."""
    stopped = counted.get((LAYER, table.THROTTLED_PERIODS.name), 0.0)
    periods = counted.get((LAYER, table.QUOTA_PERIODS.name), 0.0)
    if not stopped or not periods:
        return ()
    seconds = round(counted[LAYER, table.THROTTLED.name], 3)
    return (Note("throttled", share=round(stopped / periods, 4), seconds=seconds),)


def _at_host(counted: Counted) -> dict[str, float]:
    return {name: value for (place, name), value in counted.items() if place == HOST}


def _cpu_key(place: str) -> tuple[str, str]:
    """Return where the CPU time of a guest stands: that of the guest under test is its layer's."""
    return LAYER if place == GUEST else place, HOST_CPU.name


def _at(place: str, counted: Mapping[str, float]) -> dict[tuple[str, str], float]:
    return {(place, name): value for name, value in counted.items()}
