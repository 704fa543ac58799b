"""The programs of a trial while they run: of one flow, of several flows at once, or of several guests at once."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from vtax.benchmarks.base import Command, Context, Place, Role
from vtax.errors import BenchmarkError, GuestError, VtaxError
from vtax.foreign_text import one_line
from vtax.guest.guest import Guest
from vtax.guest.results import Begun, CommandResult
from vtax.host.emulated_cpu import timeout_factor
from vtax.messages import Note
from vtax.network.links import Links
from vtax.platforms.base import RunningGuest
from vtax.runner import density
from vtax.runner.cold_cache import drop_guest_files
from vtax.runner.counting import Endpoint
from vtax.runner.points import Point

PREPARE_TIMEOUT_S = 120.0
SERVER_READY_TIMEOUT_S = 60.0  # a database in an emulated guest
_SERVER_WORDS = 500  # of the output of a server that ended
_SERVES_ONE_S = 0.1  # a server of one client may end so long before this has ended, too


@dataclass(frozen=True)
class Lane:
    """One flow of a trial: where its commands run, and their context. Most trials have one."""

    context: Context
    places: Mapping[Place, Endpoint]


@dataclass(frozen=True)
class StartedServer:
    """A server of a trial that was started, as its guest knows it. started_at: monotonic, at the latest."""

    command: Command
    guest: Guest
    handle: int
    started_at: float


class KeptServers:
    """Servers that stay between the trials of a guest, as long as the next trial needs them as they are."""

    def __init__(self) -> None:
        self._servers: list[StartedServer] = []

    def keep(self, server: StartedServer) -> None:
        """Take a server of a trial that went well."""
        self._servers.append(server)

    def take(self, guest: Guest, command: Command) -> StartedServer | None:
        """Return one that was started with this command in this guest."""
        for server in self._servers:
            if server.guest is guest and server.command == command:
                self._servers.remove(server)
                return server
        return None

    def stop_but(self, needed: Sequence[tuple[Guest, Command]]) -> None:
        """Stop those that a trial does not need, so that they do not run beside it."""
        for server in list(self._servers):
            if (server.guest, server.command) not in needed:
                self._servers.remove(server)
                if not server.guest.lost:
                    server.guest.stop(server.handle)


@contextmanager
def naming_guest(number: int, guests: int) -> Iterator[None]:
    """Errors of the block name the guest, by its number from 0, where there are several."""
    try:
        yield
    except VtaxError as error:
        error.what = density.name_guest(error.what, number, guests)
        raise


@contextmanager
def naming_lost(ends: Mapping[str, Endpoint], links: Links | None) -> Iterator[None]:
    """Errors of the block name the end that is lost, by its role, unless it is a guest that is measured.

    Those are the guests under test that serve nobody; without a topology, all but the neighbour.
    """
    measured = {role for role in ends if role.rstrip("0123456789") == "guest"}
    if links is not None:
        measured = {end.role for end in links.guests} - {flow.server for flow in links.flows}
    try:
        yield
    except GuestError as error:
        lost = tuple(role for role, end in ends.items() if end.guest.lost)
        if not measured.issuperset(lost):
            others = tuple(role for role in lost if role not in measured)
            error.what = Note("disappeared", places=others, what=error.what)
        raise


def run_lanes(
    lanes: Sequence[LaneRun],
    timeout_s: float,
    counted: AbstractContextManager[None],
    beside: AbstractContextManager[Mapping[str, Any]],
    kept: KeptServers | None = None,
) -> Mapping[str, Any]:
    """Start servers, run the foreground commands between two readings of the counters, then stop the servers.

    counted: reads the counters.
    beside: what runs beside the foreground commands.
    kept: servers of earlier trials, and those that stay after this one; None where none do.

    Returns the settings of that.
    """
    earlier = kept or KeptServers()
    try:
        earlier.stop_but([needed for lane in lanes for needed in lane.servers])
        _in_turn(lanes, lambda lane: lane.start_servers(earlier))
        try:
            _in_turn(lanes, LaneRun.prepare)
            with beside as settings, counted:
                _run_foreground(lanes, timeout_s)
        except BenchmarkError:
            _in_turn(lanes, LaneRun.check_servers)  # the cause of a client that waited for ever
            raise
        _in_turn(lanes, LaneRun.check_servers)
        _in_turn(lanes, LaneRun.tidy)
        if kept is not None:
            for lane in lanes:
                lane.leave_servers(kept)
        return settings
    finally:
        for lane in lanes:
            lane.stop_servers()


def _in_turn(lanes: Sequence[LaneRun], step: Callable[[LaneRun], None]) -> None:
    """Do a step in every lane. Errors name the guest."""
    for number, lane in enumerate(lanes):
        with naming_guest(number, lane.guests):
            step(lane)


def _run_foreground(lanes: Sequence[LaneRun], timeout_s: float) -> None:
    """Run the foreground commands of all lanes at once."""
    if _are_apart(lanes):
        _run_guests(lanes, timeout_s)
    elif len(lanes) == 1:
        lanes[0].begin(timeout_s)
        lanes[0].collect(timeout_s)
    else:
        for lane in lanes:
            lane.launch()
        for lane in lanes:
            lane.finish(timeout_s)


def _are_apart(lanes: Sequence[LaneRun]) -> bool:
    """Return whether the foreground commands are those of several guests, of which each has one."""
    if lanes[0].guests == 1 and not lanes[0].is_counted:
        return False
    return len({id(lane.running) for lane in lanes}) == len(lanes)


def _run_guests(lanes: Sequence[LaneRun], timeout_s: float) -> None:
    """Run the foreground commands of guests, requested of all before the first can end; each is timed by itself.

    Half way through, by the benchmark's own estimate, the memory of the guests is read. When one fails the others
    are waited for, so that their guests stay usable; then the first failure is raised.
    """
    poll, waiting = select.poll(), {}
    failures: list[Exception] = []
    for number, lane in enumerate(lanes):
        with naming_guest(number, len(lanes)):
            lane.begin(timeout_s)
        poll.register(lane.fileno(), select.POLLIN)
        waiting[lane.fileno()] = number, lane
    read_at: float | None = time.monotonic() + lanes[0].expected_s / 2
    deadline = max(lane.deadline for lane in lanes)
    while waiting:
        left_s = min(read_at or deadline, deadline) - time.monotonic()
        ready = poll.poll(max(left_s, 0) * 1000)
        if not ready and time.monotonic() >= deadline:
            # collecting them says that they are silent
            ready = [(descriptor, 0) for descriptor in waiting]
        if read_at is not None and (not ready or len(waiting) == len(ready)):
            lanes[0].memory = density.memory_per_guest([lane.running for lane in lanes])
            read_at = None
        for descriptor, _ in ready:
            number, lane = waiting.pop(descriptor)
            poll.unregister(descriptor)
            try:
                with naming_guest(number, len(lanes)):
                    lane.collect(timeout_s)
            except VtaxError as error:
                failures.append(error)
    if failures:
        raise failures[0]


class LaneRun:
    """The programs of one flow, or of one guest of several, while they run."""

    def __init__(self, lane: Lane, point: Point) -> None:
        self.context = lane.context
        self._places = lane.places
        self._point = point
        commands = point.benchmark.commands(point.parameters, lane.context)
        self._measured = next(command for command in commands if command.role != "server")
        self._server_commands = [command for command in commands if command.role == "server"]
        self._servers: list[StartedServer] = []
        self._handle = 0
        self._begun: Begun | None = None
        self._launched_at = 0.0
        self._ended_at: float | None = None
        self.results: dict[Role, CommandResult] = {}
        self.memory: Mapping[str, float] = {}
        self.cache_left_bytes: int | None = None

    @property
    def guests(self) -> int:
        """How many guests run the benchmark at once."""
        return self._point.colocation.guests

    @property
    def is_counted(self) -> bool:
        """Whether their number is a factor."""
        return self._point.colocation.is_counted

    @property
    def running(self) -> RunningGuest:
        """Where the foreground command runs."""
        return self._places[self._measured.place].running

    @property
    def expected_s(self) -> float:
        """About how long the foreground command takes."""
        return self._point.benchmark.expected_s(self._point.parameters, self.context)

    def begin(self, timeout_s: float) -> None:
        """Request the foreground command and do not wait."""
        command = self._measured
        self._begun = self._guest(command).begin(
            command.argv,
            environment=command.environment,
            timeout_s=command.timeout_s or timeout_s,
        )

    @property
    def deadline(self) -> float:
        """When the begun command must have ended, monotonic."""
        assert self._begun is not None
        return self._begun.deadline

    def fileno(self) -> int:
        """Return a descriptor that is readable when the begun command has ended, or its guest."""
        return self._guest(self._measured).fileno()

    def collect(self, timeout_s: float) -> None:
        """Keep the result of the begun command."""
        assert self._begun is not None
        result = self._guest(self._measured).collect(self._begun)
        self._keep(result, self._measured.timeout_s or timeout_s)

    @property
    def servers(self) -> list[tuple[Guest, Command]]:
        """The servers that it needs, and where."""
        return [(self._guest(command), command) for command in self._server_commands]

    def start_servers(self, kept: KeptServers) -> None:
        """Start its servers in the background, but for those that are kept, and wait until they listen."""
        for guest, command in self.servers:
            there = kept.take(guest, command)
            if there is not None:
                self._servers.append(there)
                continue
            _prepare(guest, command)
            handle = guest.start(command.argv, environment=command.environment)
            self._servers.append(StartedServer(command, guest, handle, time.monotonic()))
            if command.ready_port is not None:
                try:
                    guest.wait_port(
                        command.ready_port,
                        timeout_s=SERVER_READY_TIMEOUT_S * timeout_factor(),
                        handle=handle,
                    )
                except GuestError:
                    self.check_servers()
                    raise

    def leave_servers(self, kept: KeptServers) -> None:
        """Keep those of its servers that stay."""
        for server in list(self._servers):
            if server.command.stays:
                self._servers.remove(server)
                kept.keep(server)

    def prepare(self) -> None:
        """Write files and run what comes before the foreground command, whose files are then cold if it is."""
        _prepare(self._guest(self._measured), self._measured)
        if self._measured.is_cold:
            self._make_cold()

    def _make_cold(self) -> None:
        """Drop what the guest wrote from the host's page cache."""
        directory = self._places[self._measured.place].directory
        if directory is None:
            raise BenchmarkError(
                "the files of this guest are not on this host, so its cache cannot be dropped"
            )
        self.cache_left_bytes = drop_guest_files(directory)

    def launch(self) -> None:
        """Start the foreground command beside others in the same guest."""
        command = self._measured
        self._handle = self._guest(command).start(command.argv, environment=command.environment)
        self._launched_at = time.monotonic()

    def finish(self, timeout_s: float) -> None:
        """Wait for the launched command."""
        guest = self._guest(self._measured)
        timeout_s = self._measured.timeout_s or timeout_s
        result = guest.finish(self._handle, timeout_s=timeout_s)
        self._keep(result, timeout_s)
        self._ended_at = self._launched_at + result.inside_s  # others may have been waited for

    def check_servers(self) -> None:
        """Raise BenchmarkError, with its last output, for a server that ended by itself before its client.

        One that serves a single client and ends well with it is no failure.
        """
        for server in list(self._servers):
            if server.guest.running(server.handle):
                continue
            self._servers.remove(server)
            result = self.results["server"] = server.guest.stop(server.handle)
            words = (result.stderr.strip() or result.stdout.strip())[-_SERVER_WORDS:]
            program = server.command.argv[0]
            if result.status != 0:
                raise BenchmarkError(
                    f"the server {program} ended with {result.ended_with} in the trial",
                    where=one_line(words, _SERVER_WORDS),
                )
            if self._outlived(server.started_at + result.inside_s):
                raise BenchmarkError(
                    f"the server {program} ended with {result.ended_with} before its client had ended",
                    where=one_line(words, _SERVER_WORDS),
                    hint="a server runs in the foreground until vtax stops it",
                )

    def _outlived(self, server_ended_at: float) -> bool:
        """Return whether the foreground command still ran when its server had ended, monotonic, or never ended."""
        if self._ended_at is None:
            return True
        return self._ended_at - server_ended_at > _SERVES_ONE_S * timeout_factor()

    def tidy(self) -> None:
        """Run what comes after the foreground command, and remove what it made."""
        _tidy(self._guest(self._measured), self._measured)

    def stop_servers(self) -> None:
        """Stop its servers and keep what they printed."""
        while self._servers:
            server = self._servers.pop()
            if not server.guest.lost:
                self.results["server"] = server.guest.stop(server.handle)
                _tidy(server.guest, server.command)

    @property
    def foreground(self) -> CommandResult | None:
        """The result of the foreground command, once there is one."""
        return self.results.get(self._measured.role)

    def _guest(self, command: Command) -> Guest:
        return self._places[command.place].guest

    def _keep(self, result: CommandResult, timeout_s: float) -> None:
        self._ended_at = time.monotonic()
        self.results[self._measured.role] = result
        if result.timed_out:
            killed = Note("killed-after", program=self._measured.argv[0], limit=timeout_s)
            raise BenchmarkError(killed, hint=Note("hint-timeout"))


def _prepare(guest: Guest, command: Command) -> None:
    """Remove what an earlier trial left, write the files of a command, and run what comes before it."""
    _remove(guest, command.makes)
    for file in command.files:
        if not (command.directory and guest.has_put(command.directory, file.path, file.data)):
            guest.put(file.path, file.data, mode=file.mode, directory=command.directory)
    _run_all(guest, command.before)


def _tidy(guest: Guest, command: Command) -> None:
    """Run what comes after a command, and remove what it made."""
    _run_all(guest, command.after)
    _remove(guest, command.makes)


def _remove(guest: Guest, paths: Sequence[str]) -> None:
    """Remove files, and directories with all that is in them. Starts no program where there are only files."""
    left = guest.remove(paths) if paths else ()
    if left:
        _run_all(guest, (("rm", "-rf", "--", *left),))


def _run_all(guest: Guest, commands: Sequence[tuple[str, ...]]) -> None:
    limit_s = PREPARE_TIMEOUT_S * timeout_factor()
    for argv in commands:
        result = guest.run(argv, timeout_s=limit_s)
        if result.status != 0:
            end = f"failed with {result.ended_with}"
            if result.timed_out:
                end = f"killed after {limit_s:g} s"
            raise BenchmarkError(f"{' '.join(argv)} {end}: {result.stderr.strip()[-300:]}")
