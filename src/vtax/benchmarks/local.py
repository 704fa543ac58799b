"""What the tools that run in the guest alone share: one program's success, and what no CPU limit allows."""

from __future__ import annotations

from collections.abc import Mapping

from vtax.benchmarks.base import Context, Role
from vtax.errors import BenchmarkError
from vtax.guest.guest import CommandResult

_CPU_ROOM = 1.05  # the guest's accounting ticks, and its start and end are not the controller's
_CPU_ROOM_S = 0.1
_WORDS_SHOWN = 300


def succeeded(tool: str, results: Mapping[Role, CommandResult]) -> CommandResult:
    """The result of the only program. Raises BenchmarkError, with its last output, when it failed."""
    result = results["single"]
    if result.status != 0:
        words = "; ".join((result.stderr.strip() or result.stdout.strip()).split("\n"))[-_WORDS_SHOWN:]
        raise BenchmarkError(
            f"{tool} failed with status {result.status}" + (f": {words}" if words else ""),
            where=" ".join(result.argv)[:200],
        )
    return result


def check_cpu(tool: str, result: CommandResult, context: Context) -> None:
    """Raise BenchmarkError when a program used more CPU time than the guest's CPUs have in that time."""
    used_s = result.user_s + result.system_s
    available_s = context.vcpus * result.outside_s
    if used_s > available_s * _CPU_ROOM + _CPU_ROOM_S:
        raise BenchmarkError(
            f"{tool} used {used_s:.2f} s of CPU time; {context.vcpus} CPUs have {available_s:.2f} s",
            hint="the guest's CPU limit is not in force, or its clock is wrong: see vtax doctor",
        )
