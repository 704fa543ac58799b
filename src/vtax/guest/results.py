"""Results of calls into a guest: a program that ended, a reading of the clocks and of files."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from vtax.counters import table
from vtax.errors import GuestError
from vtax.guest.protocol import Reply, checked_number
from vtax.messages import Note

SKEW_ALLOWANCE_S = 0.1
SKEW_RELATIVE = 0.01
_RUSAGE_UNITS = {2: 1024.0}  # getrusage(2): ru_maxrss is in kB


@dataclass(frozen=True)
class CommandResult:
    """A program that ended in a guest.

    status: exit status, or minus the signal.
    stdout, stderr: as text, bounded (`truncated` says so).
    outside_s: wall time by the controller's monotonic clock, the one that is judged.
    inside_s: wall time by the guest's clock.
    cpu_s: CPU time of the program, by its kernel's rusage.
    timed_out: whether it was killed at its timeout.
    usage: fields of its rusage, by their names in counters.table, and the run delay of its main thread where the kernel
        shows it. The kernel counts the agent's own memory (about 11 MB) as the minimum of `max_rss_bytes`.
    """

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    outside_s: float
    inside_s: float
    cpu_s: float = 0.0
    timed_out: bool = False
    truncated: bool = False
    usage: dict[str, float] = field(default_factory=dict)

    @property
    def ended_with(self) -> str:
        """Its exit status or signal in words, for messages: `status 1`, `signal 9 (SIGKILL)`."""
        if self.status >= 0:
            return f"status {self.status}"
        with suppress(ValueError):
            return f"signal {-self.status} ({signal.Signals(-self.status).name})"
        return f"signal {-self.status}"


@dataclass(frozen=True)
class ClockReading:
    """A guest's clocks against the controller's, from one exchange, as NTP compares clocks (RFC 5905, section 8).

    offset_s: the guest's wall clock minus the controller's; the error is at most half of round_trip_s, which is the
    exchange without what the guest spent on the answer. inside_s, outside_s: both monotonic clocks in the middle.
    """

    offset_s: float
    round_trip_s: float
    inside_s: float
    outside_s: float


@dataclass(frozen=True)
class GuestSample:
    """Clocks of a guest, and files of it as they were read: path -> bytes, None for one that could not be read."""

    clock: ClockReading
    files: Mapping[str, bytes | None]


@dataclass(frozen=True)
class Begun:
    """A program that was requested of a guest and not collected yet. started_at, deadline: monotonic times."""

    argv: tuple[str, ...]
    started_at: float
    deadline: float


@dataclass(frozen=True)
class BegunSample:
    """A sample that was requested of a guest and not collected yet.

    wall_start: Unix time of the request. started_at, deadline: monotonic times."""

    paths: tuple[str, ...]
    wall_start: float
    started_at: float
    deadline: float


def skew_warning(result: CommandResult) -> Note | None:
    """Return a warning when the guest's time of a program differs from the host's; None when it does not."""
    difference_s = result.outside_s - result.inside_s
    if abs(difference_s) <= SKEW_ALLOWANCE_S + SKEW_RELATIVE * result.outside_s:
        return None
    return Note("clock-skew", inside=round(result.inside_s, 3), outside=round(result.outside_s, 3))


def files_in(answer: Reply, paths: Sequence[str], limit: int) -> dict[str, bytes | None]:
    """Return the files of an answer, by path. Raises GuestError for other files than those requested.

    paths: that were requested.
    limit: maximum of bytes of each.
    """
    sizes = answer.items("sizes", len(paths))
    files: dict[str, bytes | None] = {}
    at = 0
    for path, size in zip(paths, sizes, strict=False):
        if size is None:
            files[path] = None
        else:
            length = int(checked_number(size, "sizes", 0, limit))
            files[path] = answer.payload[at : at + length]
            at += length
    if len(files) != len(set(paths)) or at != len(answer.payload):
        raise GuestError("the guest answered with other files than requested")
    return files


def command_result(
    argv: Sequence[str], answer: Reply, outside_s: float, limit: int
) -> CommandResult:
    """Return the result of a program that ended. Raises GuestError for an answer that is malformed.

    argv: of the program.
    answer: of the agent; its `usage` has the 16 fields of getrusage(2), in their order.
    outside_s: by the controller's clock.
    limit: maximum of bytes kept of each output, however many the agent sent.
    """
    stdout_size = answer.integer("stdout_size", 0, len(answer.payload))
    stderr_size = len(answer.payload) - stdout_size
    stdout = answer.payload[: min(stdout_size, limit)].decode(errors="replace")
    stderr = answer.payload[stdout_size : stdout_size + limit].decode(errors="replace")
    numbers = [checked_number(n, "usage", 0, 1e15) for n in answer.items("usage", 16)]
    if len(numbers) != 16:
        raise GuestError("the guest's account of a program's resources is incomplete")
    usage = {}
    for position, counter in table.RUSAGE.items():
        usage[counter.name] = numbers[position] * _RUSAGE_UNITS.get(position, 1.0)
    delay_s = answer.header.get("delay_s")
    if delay_s is not None:
        usage[table.RUN_DELAY.name] = checked_number(delay_s, "delay_s", 0, 1e15)
    return CommandResult(
        argv=tuple(argv),
        status=answer.integer("status", -255, 255),
        stdout=stdout,
        stderr=stderr,
        outside_s=outside_s,
        inside_s=answer.number("inside_s"),
        cpu_s=numbers[0] + numbers[1],
        timed_out=answer.flag("timed_out"),
        truncated=answer.flag("truncated") or max(stdout_size, stderr_size) > limit,
        usage=usage,
    )
