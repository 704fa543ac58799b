"""Calls into a guest: what the runner and the drivers use; the protocol below them is guest.protocol.

Every request and its answer are stamped with the controller's own monotonic clock. `outside_s` runs from just before
the first byte of a request is written to just after the last byte of its answer is read: the program itself, its
start and its collection by the agent, and one round trip of the channel. `inside_s` is the guest's account of the
program alone. The first is the one that is judged; where the two disagree by much, `results.skew_warning` says so.
"""

from __future__ import annotations

import hashlib
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from vtax.counters import guest as counters
from vtax.counters import table
from vtax.counters.host import KERNEL_OPTIONS
from vtax.errors import GuestError
from vtax.guest import bootstrap
from vtax.guest.audit import Fact, checked
from vtax.guest.channel import Channel
from vtax.guest.protocol import Reply, encode, receive
from vtax.guest.results import (
    Begun,
    BegunSample,
    ClockReading,
    CommandResult,
    GuestSample,
    command_result,
    files_in,
)
from vtax.host.emulated_cpu import timeout_factor
from vtax.limits import OUTPUT

# The same on every platform, so that no runtime's own environment reaches a tool.
ENVIRONMENT = {
    "PATH": f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{bootstrap.TOOLBOX}/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
}
OF_VTAX = {"PATH": f"{bootstrap.TOOLBOX}/bin:{ENVIRONMENT['PATH']}"}
"""Environment of what vtax itself does in a guest, whose own files may have another `ip` or `sh`."""
OUTPUT_LIMIT = OUTPUT.size_bytes
FILE_LIMIT = 32 << 20
_ANSWER_S = 30.0  # an emulated guest on a busy host may need so long for an answer without waiting
_PIECE = 1 << 16
_SAME_BOOT_S = 2.0  # the kernel computes its boot's wall time anew at every reading
_KILL_S = 5.0  # agent.KILL_GRACE_S
_CONSOLE_LIMIT = 4 << 20
_SAMPLE_LIMIT = 1 << 18
_STAT = "/proc/stat"
_MAX_COUNTERS = 1000  # each is a row of every trial; a guest with 100 interfaces has 700
RLIMITS = range(16)
"""The numbers of all resource limits (setrlimit(2)), the same on x86-64 and arm64."""
_MOST_PROCESSES = Path("/proc/sys/kernel/pid_max")
_PRIORITIES = (13, 14)  # RLIMIT_NICE, RLIMIT_RTPRIO: a privilege, which no limit grants


class Guest:
    """The calls. One at a time, from one thread. After a GuestError that broke the stream every call fails."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._number = 0
        self._broken = ""
        self._extensions: set[str] = set()
        self._started: dict[int, tuple[str, ...]] = {}  # handle -> argv
        self._put: dict[str, dict[str, bytes]] = {}  # directory -> path -> SHA-256 of its content

    @property
    def lost(self) -> bool:
        """Whether its stream is broken or closed: every further call fails, a fresh guest is needed."""
        return bool(self._broken)

    def hello(self, timeout_s: float) -> None:
        """Wait for the bootstrap, send it the agent, await an answer. Call this first. timeout_s: for all of it.

        Raises GuestError.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._channel.skip_to(bootstrap.GREETING.strip(), _CONSOLE_LIMIT, deadline)
            self._channel.write(self._channel.agent or bootstrap.payload(), deadline)
            self._exchange(
                {"op": "sample", "paths": [], "limit": 0}, b"", deadline, skip=_CONSOLE_LIMIT
            )
        except BaseException as error:
            self._broken = self._broken or str(error) or type(error).__name__
            raise

    def run(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: str = "/",
        timeout_s: float = 60.0,
    ) -> CommandResult:
        """Run a program to its end; at timeout_s its process group is killed (`timed_out`).

        environment: added to ENVIRONMENT. Of each output the first OUTPUT_LIMIT bytes are kept.
        It is over when the program itself ends, even when a process that it started still holds its outputs.
        Raises GuestError when it cannot be started or the guest fails; an exit status other than 0 is no error.
        """
        return self.collect(self.begin(argv, environment=environment, cwd=cwd, timeout_s=timeout_s))

    def output_of(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """Return what a program prints. Raises GuestError also when it fails."""
        result = self.run(argv, environment=environment, timeout_s=30.0)
        if result.status != 0:
            raise GuestError(
                f"{' '.join(argv)} failed in the guest: {result.stderr.strip()[-300:]}"
            )
        return result.stdout

    def begin(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: str = "/",
        timeout_s: float = 60.0,
    ) -> Begun:
        """Request a program as `run` does, without waiting for it: no other call until it is collected."""
        request = {"op": "run", "timeout_s": timeout_s, **_program(argv, environment, cwd)}
        started_at = time.monotonic()
        deadline = started_at + _ANSWER_S * timeout_factor() + timeout_s + _KILL_S
        self._refuse_broken()
        self._send(request, b"", deadline)
        return Begun(tuple(argv), started_at, deadline)

    def collect(self, begun: Begun) -> CommandResult:
        """Wait for the end of a begun program and return its result. Answers and raises as `run` does."""
        answer = self._receive("run", begun.deadline)
        return command_result(begun.argv, answer, time.monotonic() - begun.started_at, OUTPUT_LIMIT)

    def fileno(self) -> int:
        """Return the descriptor that is readable when a begun program has ended, for poll(2)."""
        return self._channel.fileno()

    def start(
        self, argv: Sequence[str], *, environment: Mapping[str, str] | None = None, cwd: str = "/"
    ) -> int:
        """Start a program in the background; returns the handle to poll and stop it with."""
        handle = self._ask({"op": "start", **_program(argv, environment, cwd)}).integer("handle", 1)
        self._started[handle] = tuple(argv)
        return handle

    def running(self, handle: int) -> bool:
        """Return whether a background program still runs."""
        return self._ask_more({"op": "poll_job", "handle": handle}).flag("running")

    def stop(self, handle: int, *, grace_s: float = 2.0) -> CommandResult:
        """End a background program: SIGTERM, then SIGKILL after grace_s; returns what it wrote and used.

        One that has already ended is collected as it is. outside_s is the time this call took; inside_s the time
        the program ran.
        """
        started_at = time.monotonic()
        answer = self._ask_more(
            {"op": "stop", "handle": handle, "grace_s": grace_s}, extra_s=grace_s + _KILL_S
        )
        return self._ended(handle, answer, started_at)

    def finish(self, handle: int, *, timeout_s: float) -> CommandResult:
        """Wait for a background program to end; at timeout_s it is killed (`timed_out`). Answers as `run` does."""
        started_at = time.monotonic()
        request = {"op": "finish", "handle": handle, "timeout_s": timeout_s}
        return self._ended(handle, self._ask_more(request, extra_s=timeout_s + _KILL_S), started_at)

    def _ended(self, handle: int, answer: Reply, started_at: float) -> CommandResult:
        return command_result(
            self._started.pop(handle, ()), answer, time.monotonic() - started_at, OUTPUT_LIMIT
        )

    def wait_port(self, port: int, *, timeout_s: float = 10.0, handle: int = 0) -> None:
        """Wait until a TCP port is listened on in the guest. handle: of the server; its end ends the waiting.

        Raises GuestError when nothing listens in time.
        """
        request = {"op": "wait_port", "port": port, "timeout_s": timeout_s, "handle": handle}
        if not self._ask_more(request, extra_s=timeout_s).flag("listening"):
            raise GuestError(
                f"nothing listens on TCP port {port} in the guest after {timeout_s:g} s"
            )

    def put(self, path: str, data: bytes, *, mode: int = 0o644, directory: str = "") -> None:
        """Write a file in the guest, directories included, in pieces that a slow line carries in time.

        path, data, mode: of the file.
        directory: that the file is in, which `remove_put` removes.
        """
        for offset in range(0, len(data) or 1, _PIECE):
            request = {"op": "put", "path": path, "mode": mode, "offset": offset}
            self._ask_more(request, data[offset : offset + _PIECE])
        self._put.setdefault(directory, {})[path] = hashlib.sha256(data).digest()

    def has_put(self, directory: str, path: str, data: bytes) -> bool:
        """Return whether the last file that was put there, for that directory, had this content."""
        return self._put.get(directory, {}).get(path) == hashlib.sha256(data).digest()

    def remove_put(self) -> None:
        """Remove every directory that files were put for. A guest that does not answer any more is no error."""
        directories = [directory for directory in self._put if directory]
        with suppress(GuestError):
            if directories and not self._broken:
                self.run(["rm", "-rf", "--", *directories])
        self._put.clear()

    def remove(self, paths: Sequence[str]) -> Sequence[str]:
        """Remove files in one exchange, and return those that are left, such as directories."""
        answer = self._ask_more({"op": "remove", "paths": list(paths)})
        remaining_paths = answer.items("left", len(paths))
        return [path for path in paths if path in remaining_paths]

    def get(self, path: str) -> bytes:
        """Read a file of the guest. Raises GuestError when it is missing or larger than FILE_LIMIT bytes."""
        data = bytearray()
        while len(data) <= FILE_LIMIT:
            piece = self._ask_more(
                {"op": "get", "path": path, "offset": len(data), "size": _PIECE}
            ).payload
            data += piece
            if len(piece) < _PIECE and len(data) <= FILE_LIMIT:
                return bytes(data)
            if len(piece) > _PIECE:
                raise GuestError(f"the guest answered with more of {path} than requested")
        raise GuestError(f"{path} is larger than {FILE_LIMIT} bytes")

    def sample(self, paths: Sequence[str] = counters.PATHS) -> GuestSample:
        """Return both clocks and files of the guest in one exchange; `counted` reads the counters in those of /proc.

        A file stays open in the guest: where it is replaced, the old one is read.
        """
        return self.collect_sample(self.begin_sample(paths))

    def begin_sample(self, paths: Sequence[str] = counters.PATHS) -> BegunSample:
        """Request what `sample` returns and do not wait; the next call must be `collect_sample`."""
        self._refuse_broken()
        wall_start, started_at = time.time(), time.monotonic()
        deadline = started_at + _ANSWER_S * timeout_factor()
        request = {"op": "sample", "paths": list(paths), "limit": _SAMPLE_LIMIT}
        self._send(request, b"", deadline)
        return BegunSample(tuple(paths), wall_start, started_at, deadline)

    def collect_sample(self, begun: BegunSample) -> GuestSample:
        """Return what was requested, once it is there."""
        answer = self._receive("sample", begun.deadline)
        wall_end, end_s = time.time(), time.monotonic()
        wall_start, started_at, paths = begun.wall_start, begun.started_at, begun.paths
        inside_s, began_s = answer.number("monotonic_s"), answer.number("began_s")
        busy_s = min(max(inside_s - began_s, 0.0), end_s - started_at)
        wall_s = answer.number("wall_s", -1e12, 1e12) - busy_s / 2
        clock = ClockReading(
            offset_s=wall_s - (wall_start + wall_end) / 2,
            round_trip_s=end_s - started_at - busy_s,
            inside_s=inside_s - busy_s / 2,
            outside_s=(started_at + end_s) / 2,
        )
        return GuestSample(clock, files_in(answer, paths, _SAMPLE_LIMIT))

    def counted(self, sample: GuestSample) -> dict[str, float]:
        """Return the counters of the guest's kernel in a sample (names: counters.table).

        A trial's share is the difference of two samples. A guest with a kernel of its own also has `kernel_cpu_s`: for
        how long that kernel was busy. In any other guest CPU seconds are those of the whole host.
        """
        counts = dict(islice(counters.parse(sample.files).items(), _MAX_COUNTERS))
        busy_counts = [counts[counter.name] for counter in table.BUSY if counter.name in counts]
        if busy_counts and self.has_own_kernel:
            counts[table.KERNEL_CPU.name] = sum(busy_counts)
        return counts

    @cached_property
    def has_own_kernel(self) -> bool:
        """Whether it has another kernel than this process, by when it was booted; asked once."""
        inside = self.sample((_STAT,)).files[_STAT]
        guest_boot_s = counters.boot_time_s(inside)
        host_boot_s = counters.boot_time_s(Path(_STAT).read_bytes())
        if guest_boot_s is None or host_boot_s is None:
            return True
        return abs(guest_boot_s - host_boot_s) > _SAME_BOOT_S

    def clock(self) -> ClockReading:
        """Compare clocks: the best of five exchanges."""
        readings = [self.sample(()).clock for _ in range(5)]
        return min(readings, key=lambda reading: reading.round_trip_s)

    def facts(self, programs: Iterable[str] = ()) -> dict[str, Fact]:
        """Return the equivalence audit: what the guest is (kernel, CPU, memory, mounts, interfaces, limits, hashes).

        programs: names of those to hash with the libraries.
        """
        request = {
            "op": "facts",
            "kernel_options": sorted(KERNEL_OPTIONS),
            "programs": sorted(set(programs)),
        }
        return checked(self._ask_more(request, extra_s=30.0).header.get("facts"))

    def set_limits(self) -> None:
        """Give programs of a guest with a kernel of its own the resource limits that vtax itself has."""
        self._ask_more({"op": "set_limits", "limits": own_limits()})

    def open_shell(
        self, argv: Sequence[str], *, environment: Mapping[str, str], rows: int, columns: int
    ) -> None:
        """Start a program on a terminal of its own in the guest, to be talked to with `talk`."""
        self._extend("agent_shell")
        size = {"rows": rows, "columns": columns}
        self._ask({"op": "shell_open", **_program(argv, environment, "/"), **size})

    def talk(self, keystrokes: bytes, *, wait_s: float) -> tuple[bytes, int | None]:
        """Type into the opened shell and wait up to wait_s for it to write: (what it wrote, its exit status).

        The status is None while the shell runs, and minus the number of the signal that ended it.
        """
        answer = self._ask({"op": "shell_talk", "wait_s": wait_s}, keystrokes, extra_s=wait_s)
        is_running = answer.header.get("status") is None
        return answer.payload, None if is_running else answer.integer("status", low=-64, high=255)

    def shutdown(self) -> None:
        """Ask the agent to end and, as PID 1 of a machine, to turn it off.

        A guest that does not answer any more is no error. The channel is closed afterwards.
        """
        try:
            if not self._broken:
                self._ask({"op": "shutdown"})
        except GuestError:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Close the channel: the agent kills what it started and ends. May be called twice."""
        self._broken = self._broken or "it was closed"
        self._channel.close()

    def _ask_more(
        self, request: dict[str, Any], payload: bytes = b"", extra_s: float = 0.0
    ) -> Reply:
        self._extend("agent_more")
        return self._ask(request, payload, extra_s)

    def _extend(self, name: str) -> None:
        if name not in self._extensions:
            self._ask({"op": "extend", "name": f"vtax-{name}"}, bootstrap.more(name))
            self._extensions.add(name)

    def _ask(self, request: dict[str, Any], payload: bytes = b"", extra_s: float = 0.0) -> Reply:
        self._refuse_broken()
        return self._exchange(
            request, payload, time.monotonic() + _ANSWER_S * timeout_factor() + extra_s
        )

    def _exchange(
        self, request: dict[str, Any], payload: bytes, deadline: float, skip: int = 0
    ) -> Reply:
        """Return one request and its answer. Anything but an answer to it breaks the stream for good."""
        self._send(request, payload, deadline)
        return self._receive(str(request["op"]), deadline, skip)

    def _refuse_broken(self) -> None:
        if self._broken:
            raise GuestError(f"the guest accepts no further requests: {self._broken}")

    def _send(self, request: dict[str, Any], payload: bytes, deadline: float) -> None:
        self._number += 1
        frame = encode({"id": self._number, **request}, payload)
        with self._breaking():
            self._channel.write(frame, deadline)

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Break the stream for good when something fails inside."""
        try:
            yield
        except BaseException as error:
            self._broken = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise

    def _receive(self, operation: str, deadline: float, skip: int = 0) -> Reply:
        with self._breaking():
            answer = receive(self._channel, deadline, skip=skip)
            if answer.integer("id") != self._number:
                raise GuestError("the guest answered another request than the current one")
            ok = answer.flag("ok")
            problem = "" if ok else answer.text("error")
        if not ok:
            raise GuestError(f"the guest could not {operation}: {problem}")
        return answer


def own_limits() -> list[tuple[int, int]]:
    """Return the resource limits of this process, soft and hard, in the order of RLIMITS: those of every guest.

    The limit of processes is at most their number on this host, which Podman sets and may not be raised after that.
    """
    limits = [resource.getrlimit(number) for number in RLIMITS]
    for number in _PRIORITIES:
        limits[number] = (0, 0)
    most_processes = int(_MOST_PROCESSES.read_text())
    soft, hard = (min(most_processes, limit % (1 << 64)) for limit in limits[resource.RLIMIT_NPROC])
    limits[resource.RLIMIT_NPROC] = (soft, hard)
    return limits


def _program(
    argv: Sequence[str], environment: Mapping[str, str] | None, cwd: str
) -> dict[str, Any]:
    variables = {**ENVIRONMENT, **(environment or {})}
    return {"argv": list(argv), "environment": variables, "cwd": cwd, "limit": OUTPUT_LIMIT}
