"""Effective settings that every platform should have alike: a difference is a warning of the run.

A tool may choose its code by what the (virtual) CPU says of itself, as OpenBLAS does. What differs between
platforms is then that choice too, which no ratio shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vtax.benchmarks.base import Outcome
from vtax.messages import Note
from vtax.runner.plan import PlannedCell


class SameSettings:
    """Compares the trials of a run as they come; a resumed run compares those that it makes itself."""

    def __init__(self) -> None:
        self._first: dict[
            tuple[str, str], tuple[str, Any]
        ] = {}  # point and setting -> platform and value

    def differences(self, cell: PlannedCell, outcome: Outcome) -> Iterator[Note]:
        """Yield a note for each setting that differs from that of the first platform with the same point."""
        benchmark = cell.point.benchmark
        for name in benchmark.same_everywhere:
            value, platform = outcome.effective.get(name), cell.platform.name
            other, known = self._first.setdefault((cell.point.key, name), (platform, value))
            if value != known and platform != other:
                yield Note(
                    "different-settings",
                    label=cell.point.label,
                    name=name,
                    known=str(known),
                    other=other,
                    found=str(value),
                    platform=platform,
                )
