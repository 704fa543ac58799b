"""A warning as data: a code, how severe it is, typed data, and the places where it holds.

Its sentence is made by a renderer, from the template of its code in `sentences.py`; it is merged with others by code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vtax.messages import Severity
from vtax.report.document.cells import Count, Factor
from vtax.report.document.text import Inline, joined, msg


@dataclass(frozen=True)
class Place:
    """Where a warning holds. subject: a benchmark or one of its metrics. block: from 0, -1 before the first one."""

    platform: str = ""
    subject: str = ""
    levels: tuple[tuple[str, str], ...] = ()
    block: int | None = None

    @property
    def inline(self) -> Inline:
        """`docker, iperf3, direction=send, block 4`."""
        when: Inline = ""
        if self.block is not None:
            number = Count(self.block + 1)
            when = msg("block {number}", number=number) if self.block >= 0 else msg("before the first block")
        return joined([self.platform, self.subject, Factor(self.levels) if self.levels else "", when])


def levels_of(levels: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Factor -> level as a place holds them."""
    return tuple((factor, str(level)) for factor, level in levels.items())


@dataclass(frozen=True)
class Warning:
    """A warning, merged with those of its code that differ in numbers alone.

    data: what its template holds, with ranges where numbers differ. cases: the data of each different one. places:
    where it holds, empty for the whole run. times: how often it was given. given: each as it was given, from which a
    part of the places is merged again. is_primary: false when it is about metrics
    that tables do not show first. kind: the name of its family in documents of schema `vtax.analysis/1`.
    """

    code: str
    severity: Severity
    data: Mapping[str, Inline]
    cases: tuple[Mapping[str, Inline], ...] = ()
    places: tuple[Place, ...] = field(default=())
    times: int = 1
    is_primary: bool = True
    kind: str = ""
    given: tuple[Any, ...] = field(default=(), repr=False, compare=False)
