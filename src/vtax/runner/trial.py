"""One trial: run the benchmark's commands where they belong, count around them, parse what they printed.

Whatever goes wrong inside a trial - a tool that fails, output that makes no sense, a guest that dies - ends as a
failed trial with its reason and whatever raw output there is; it never ends the run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from vtax.benchmarks.base import Command, Context, Outcome, Place, Role
from vtax.counters import guest as guest_counters
from vtax.counters.host import HostSample, host_warnings
from vtax.errors import BenchmarkError, VtaxError
from vtax.guest.guest import CommandResult, Guest, skew_warning
from vtax.network.links import Links
from vtax.platforms.base import RunningGuest
from vtax.runner.plan import Cell

PREPARE_TIMEOUT_S = 120.0
SERVER_READY_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Endpoint:
    """A started guest: what its platform knows of it, and the calls into it."""

    running: RunningGuest
    guest: Guest


@dataclass(frozen=True)
class TrialResult:
    """What one trial left. error: why it failed, empty when it counts."""

    started_at: float
    outcome: Outcome
    results: Mapping[Role, CommandResult]
    foreground: CommandResult | None
    counters: Mapping[tuple[str, str], float]
    warnings: tuple[tuple[str, str], ...]
    error: str = ""


def run_trial(
    cell: Cell, context: Context, endpoints: Mapping[Place, Endpoint], links: Links | None, timeout_s: float
) -> TrialResult:
    """Run one trial of a cell. links: of its topology, None for no network. timeout_s: of its foreground command."""
    started_at = time.time()
    results: dict[Role, CommandResult] = {}
    counted = _Counted(endpoints, links)
    error = ""
    outcome = Outcome({})
    benchmark = cell.point.benchmark
    try:
        commands = benchmark.commands(cell.point.parameters, context)
        _run_commands(list(commands), endpoints, timeout_s, results, counted)
        outcome = benchmark.parse(cell.point.parameters, context, results)
    except VtaxError as problem:
        error = str(problem)
    foreground = results.get("single") or results.get("client")
    return TrialResult(
        started_at=started_at,
        outcome=outcome,
        results=results,
        foreground=foreground,
        counters=counted.differences,
        warnings=(*(("tool", text) for text in outcome.warnings), *counted.warnings, *_skew(foreground)),
        error=error,
    )


def _run_commands(
    commands: list[Command],
    endpoints: Mapping[Place, Endpoint],
    timeout_s: float,
    results: dict[Role, CommandResult],
    counted: _Counted,
) -> None:
    """Servers first, then the foreground command between two readings of the counters, then servers down."""
    foreground = next(c for c in commands if c.role != "server")
    servers: list[tuple[Guest, int]] = []
    try:
        for command in (c for c in commands if c.role == "server"):
            guest = endpoints[command.place].guest
            _prepare(guest, command.before)
            servers.append((guest, guest.start(command.argv, environment=command.environment)))
            if command.ready_port is not None:
                guest.wait_port(command.ready_port, timeout_s=SERVER_READY_TIMEOUT_S)
        guest = endpoints[foreground.place].guest
        _prepare(guest, foreground.before)
        counted.before()
        result = guest.run(foreground.argv, environment=foreground.environment, timeout_s=timeout_s)
        counted.after()
        results[foreground.role] = result
        _prepare(guest, foreground.after)
    finally:
        for guest, handle in reversed(servers):
            if not guest.lost:
                results["server"] = guest.stop(handle)
    if result.timed_out:
        raise BenchmarkError(
            f"{foreground.argv[0]} was ended after {timeout_s:g} s",
            cure="raise timeout in [design] if the tool is only slow here",
        )


def _prepare(guest: Guest, commands: tuple[tuple[str, ...], ...]) -> None:
    for argv in commands:
        result = guest.run(argv, timeout_s=PREPARE_TIMEOUT_S)
        if result.status != 0:
            raise BenchmarkError(
                f"{' '.join(argv)} failed with status {result.status}: {result.stderr.strip()[-300:]}"
            )


def _skew(foreground: CommandResult | None) -> tuple[tuple[str, str], ...]:
    """The guest's clock against the outside one over the foreground command."""
    text = skew_warning(foreground) if foreground else None
    return (("clock-skew", text),) if text else ()


class _Counted:
    """Reads counters of both endpoints, of the layer and of the host around the foreground command."""

    def __init__(self, endpoints: Mapping[Place, Endpoint], links: Links | None) -> None:
        self._endpoints = endpoints
        self._links = links
        self._host: HostSample | None = None
        self._first: dict[tuple[str, str], float] = {}
        self.differences: dict[tuple[str, str], float] = {}
        self.warnings: tuple[tuple[str, str], ...] = ()

    def before(self) -> None:
        self._first = self._read()
        self._host = HostSample.take()

    def after(self) -> None:
        if self._host is not None:
            sample = HostSample.take()
            last = self._read()
            self.differences = {key: last[key] - value for key, value in self._first.items() if key in last}
            own = [value for (_, name), value in self.differences.items() if name == "host_cpu_s"]
            known = len(own) == len(self._endpoints)
            self.warnings = host_warnings(self._host, sample, sum(own) if known else None)

    def _read(self) -> dict[tuple[str, str], float]:
        read: dict[tuple[str, str], float] = {}
        for place, endpoint in self._endpoints.items():
            counted = guest_counters.parse(endpoint.guest.read_files(guest_counters.PATHS))
            read.update({(place, name): value for name, value in counted.items()})
            cpu_s = endpoint.running.host_cpu_s()
            if cpu_s is not None:
                read["layer" if place == "guest" else "peer", "host_cpu_s"] = cpu_s
        if self._links is not None:
            read.update({("link", name): value for name, value in self._links.counters().items()})
        return read
