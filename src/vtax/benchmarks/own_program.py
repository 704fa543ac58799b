"""Shared by the benchmarks of vtax's own programs: their version, their report, and time on the outside clock.

A report is lines of `key value`, which begin with the program's name and version and end with a word of completion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from vtax.benchmarks.base import Role
from vtax.benchmarks.checks import successful_result
from vtax.benchmarks.printed import printed
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note

_CLOCK_ROOM = (
    1.01  # a program's time is part of the guest's time of it, but both are read at another moment
)
_CLOCK_ROOM_S = 0.01
_SHORT_S = 0.05
_MAX_CHARACTERS = 1 << 16  # of a report


class Report:
    """The report of a program. Raises BenchmarkError for a failed program, and for what is missing."""

    def __init__(
        self, program: str, results: Mapping[Role, CommandResult], *, end: str = "complete"
    ) -> None:
        """end: the last line of a whole report."""
        self._program = program
        report = successful_result(program, results).stdout
        if len(report) > _MAX_CHARACTERS:
            raise BenchmarkError(
                f"{program} printed {len(report)} characters, which is no report of it"
            )
        lines = report.splitlines()
        if not lines or not lines[0].startswith(f"{program} "):
            raise BenchmarkError(
                f"{program} printed no report that vtax knows", where="; ".join(lines)[:200]
            )
        if lines[-1] != end:
            raise BenchmarkError(
                f"{program}'s report is not complete", where="; ".join(lines)[-200:]
            )
        self._values = {key: value for key, _, value in (line.partition(" ") for line in lines)}

    def text(self, key: str) -> str:
        """Return the value of a key."""
        if key not in self._values:
            raise BenchmarkError(f"{self._program}'s report is not complete: it has no {key}")
        return self._values[key]

    def integer(self, key: str) -> int:
        """Return a whole number."""
        text = self.text(key)
        if not re.fullmatch(r"-?\d{1,18}", text):
            raise BenchmarkError(
                f"{self._program} printed {text[:40]!r} where {key} is a whole number"
            )
        return int(text)

    def number(self, key: str) -> float:
        """Return a finite number."""
        text = self.text(key)
        try:
            value = printed(text)
        except ValueError:
            value = None
        if value is None or not math.isfinite(value):
            raise BenchmarkError(f"{self._program} printed {text[:40]!r} where {key} is a number")
        return value

    def positive(self, key: str) -> float:
        """Return a number above 0."""
        value = self.number(key)
        if value <= 0:
            raise BenchmarkError(
                f"{self._program} printed {value:g} for {key}: no time passed in the guest"
            )
        return value

    def matches(self, expected: Mapping[str, int | str]) -> None:
        """Raise BenchmarkError when the program did something else than it was asked for."""
        printed_values = {key: self.text(key) for key in expected}
        expected_values = {key: str(value) for key, value in expected.items()}
        if printed_values != expected_values:
            raise BenchmarkError(
                f"{self._program} did {printed_values} where {expected_values} was requested"
            )


def loops_outside_s(program: str, result: CommandResult, loops_s: float) -> float:
    """Return the seconds that a program's loops took, by the controller's clock.

    loops_s: their time on the guest's clock. The controller times the whole program; what of it is not loops (its
    start, preparation and end) is known by the guest's clock alone and is subtracted, so a wrong guest clock changes
    the figure by its error over that part only. Raises BenchmarkError when the times contradict each other.
    """
    if loops_s > result.inside_s * _CLOCK_ROOM + _CLOCK_ROOM_S:
        raise BenchmarkError(
            f"{program} reports {loops_s:g} s of loops, and the guest counted {result.inside_s:g} s"
        )
    outside_s = result.outside_s - max(result.inside_s - loops_s, 0.0)
    if outside_s <= 0:
        raise BenchmarkError(
            f"{program} ran {result.outside_s:g} s, and the guest's clock counted more around its loops alone",
            hint="raise the number of loops; the guest's clock may be wrong, see vtax doctor",
        )
    return outside_s


def short_warnings(outside_s: float, parameter: str) -> list[str]:
    """Return a warning for loops that are short beside a round trip to the guest. parameter: to raise."""
    if outside_s >= _SHORT_S:
        return []
    return [Note("loops-short", found=outside_s, parameter=parameter)]
