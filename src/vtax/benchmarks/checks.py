"""Checks that benchmarks share: whether a program succeeded, and what CPUs, memory and disk of its guest allow."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from vtax.benchmarks.base import Context, Role
from vtax.benchmarks.printed import printed
from vtax.benchmarks.words import own_message
from vtax.errors import BadInput, BenchmarkError
from vtax.guest.results import CommandResult
from vtax.host.file_systems import free_bytes_below
from vtax.host.home import Home
from vtax.messages import Note
from vtax.units import about_size

_CPU_ROOM = 1.05  # the guest's accounting ticks, and its start and end are not the controller's
_CPU_ROOM_S = 0.1
_MAX_SHARE = 0.9  # of a guest's memory: its kernel and the agent need the rest
_THREAD_BYTES = (
    128 * 1024
)  # Linux allows as many threads as take an eighth of memory in stacks of 16 KiB (fork.c)


def successful_result(
    tool: str, results: Mapping[Role, CommandResult], role: Role = "single"
) -> CommandResult:
    """Return the result of the program that had a role.

    Raises BenchmarkError with the program's own message when it failed. tool: its name in that error.
    """
    result = results[role]
    if result.status != 0:
        words = own_message(result)
        raise BenchmarkError(
            f"{tool} failed with {result.ended_with}" + (f": {words}" if words else ""),
            where=" ".join(result.argv)[:200],
        )
    return result


def check_cpu(tool: str, result: CommandResult, context: Context) -> None:
    """Raise BenchmarkError when a program used more CPU time than the CPUs of its guest have in its time.

    tool: its name in the error.
    """
    available_s = context.vcpus * result.outside_s
    if result.cpu_s > available_s * _CPU_ROOM + _CPU_ROOM_S + context.cpu_room_s:
        raise BenchmarkError(
            f"{tool} used {result.cpu_s:.2f} s of CPU time; {context.vcpus} CPUs have {available_s:.2f} s",
            hint="the guest's CPU limit is not in force, or its clock is wrong: see vtax doctor",
        )


def check_memory(parameter: str, what: str, needed_bytes: int, context: Context) -> None:
    """Raise BadInput when a parameter asks for more memory than the guest has.

    parameter: its name.
    what: of the tool needs that memory, as the subject of a sentence in the plural.
    needed_bytes: how much.
    """
    if needed_bytes > context.memory_bytes * _MAX_SHARE:
        raise BadInput(
            f"{what} need about {about_size(needed_bytes)} of memory, and the guest has "
            f"{about_size(context.memory_bytes)}",
            where=parameter,
            hint=f"lower {parameter}, or raise memory in [guest]",
        )


def check_threads(threads: int, context: Context) -> None:
    """Raise BadInput for more threads than the kernel of a guest with this memory allows (its threads-max)."""
    max_threads = int(context.memory_bytes * _MAX_SHARE / _THREAD_BYTES)
    if threads > max_threads:
        raise BadInput(
            f"{threads} threads are more than the {max_threads} that a kernel allows in "
            f"{about_size(context.memory_bytes)} of memory",
            where="threads",
            hint=f"lower threads, or raise memory in [guest] to {about_size(int(threads * _THREAD_BYTES / 0.85))}",
        )


def thread_warnings(threads: int, context: Context) -> list[str]:
    """Return a warning for more threads than CPUs."""
    if threads <= context.vcpus:
        return []
    return [Note("threads-share-cpus", threads=threads, cpus=context.vcpus)]


def check_room(name: str, size_bytes: int, context: Context) -> None:
    """Raise BadInput for files that the disk below the guests cannot hold.

    name: of the parameter. Files of all guests on this host are in its home; the disk of a virtual machine is a file
    there too, whose own size the plan is checked for (runner.disk_room).
    """
    free_bytes = free_bytes_below(Home.from_environment().guests)
    if free_bytes is not None and size_bytes > free_bytes:
        raise BadInput(
            f"{name} is {about_size(size_bytes)}, and the disk of the guests has {about_size(free_bytes)} free",
            hint=f"lower {name}, or set VTAX_HOME to a directory on a larger disk",
        )


def check_files(count: int) -> None:
    """Raise BadInput for more files than the file system below the guests has inodes for.

    A disk of a virtual machine may have fewer, as `check_room` says of its bytes.
    """
    free = _free_inodes(Home.from_environment().guests)
    if free is not None and count > free:
        raise BadInput(
            f"files is {count} files, and the file system of the guests has {free} inodes free",
            hint="lower files, or set VTAX_HOME to a directory on a larger file system",
        )


def _free_inodes(path: Path) -> int | None:
    """Return the free inodes where a directory is or will be; None when they cannot be seen or have no limit (Btrfs)."""
    for candidate in (path, *path.parents):
        with suppress(OSError):
            file_system = os.statvfs(candidate)
            return file_system.f_favail if file_system.f_files else None
    return None


def number_in(tool: str, pattern: str, report: str, *, is_indented: bool = False) -> float:
    """Return the number that a line of a report has.

    tool: its name in the error.
    pattern: of the whole line; its first group is the number. The first line that matches is taken.
    report: what the tool printed.
    is_indented: whether there may be spaces around the line.

    Raises BenchmarkError with the end of the report where no line matches.
    """
    around = r"[ \t]*" if is_indented else ""
    match = re.search(rf"^{around}{pattern}{around}$", report, re.MULTILINE)
    if not match:
        raise BenchmarkError(
            f"{tool}'s report has no line like {pattern.partition(':')[0]!r}", where=report[-200:]
        )
    return printed(match[1])
