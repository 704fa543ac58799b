"""Factors to points: every combination of levels of every benchmark of a study, in a stable order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

from vtax.levels import Level, Levels
from vtax.study.fields import Scratch
from vtax.study.model import BenchmarkTable, Study

DEFAULT_TOPOLOGY = "point-to-point"


@dataclass(frozen=True)
class Colocation:
    """The further guests of a point, of the same platform and limits.

    guests: how many run the benchmark at once.
    neighbour: what one more loads meanwhile, empty without one.
    is_counted: whether guests is a factor, so that their memory and fairness are measured.
    is_networked: whether the neighbour has a network, since one of its levels loads it.
    """

    guests: int = 1
    neighbour: str = ""
    is_counted: bool = False
    is_networked: bool = False

    @property
    def total(self) -> int:
        """Guests that run at once."""
        return self.guests + bool(self.neighbour)

    @property
    def kind(self) -> tuple[int, bool, bool]:
        """The part that decides which guests are started: one session serves every load of a neighbour."""
        return self.guests, bool(self.neighbour), self.is_networked

    @property
    def defining(self) -> dict[str, Any]:
        """The part that distinguishes its point from others; empty where there is neither factor."""
        levels: dict[str, Any] = {}
        if self.is_counted:
            levels["guests"] = self.guests
        if self.neighbour:
            levels["neighbour"] = self.neighbour
        return levels


ALONE = Colocation()


@dataclass(frozen=True)
class RawPoint:
    """One combination of levels of one benchmark table, not yet checked by the benchmark.

    table: index of the `[[benchmark]]` table.
    levels: only what varies; link settings appear as `link.NAME`.
    tuning: the study's level of it, empty when it is no factor.
    scratch: where /scratch is to lie.
    colocation: its further guests.
    trial_time_s: how long a trial is to measure, None where the parameters say it.
    """

    table: int
    label: str
    benchmark: str
    topology: str | None
    parameters: Mapping[str, Level]
    link: Mapping[str, Level]
    levels: Levels
    tuning: str = ""
    scratch: Scratch = "volume"
    colocation: Colocation = ALONE
    trial_time_s: float | None = None


def points(study: Study) -> Iterator[RawPoint]:
    """Yield all points of a study, benchmark tables in file order, levels varying fastest in the last factor.

    One after the other: whoever refuses one has not made all of them.
    """
    for index, table in enumerate(study.benchmark):
        for start in study.starts:
            yield from _points_of(index, table, start, study.scratch[0])


def count_points(study: Study) -> int:
    """Return how many points a study has."""
    return sum(table.points for table in study.benchmark) * len(study.starts)


def key_of(defining: Mapping[str, Any]) -> str:
    """Return a stable key of 12 hexadecimal digits: SHA-256 of the canonical JSON of all that defines a thing."""
    canonical = json.dumps(defining, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def _points_of(
    index: int, table: BenchmarkTable, start: Mapping[str, str], scratch: Scratch
) -> Iterator[RawPoint]:
    """Yield the points of a table. start: levels of factors over everything. scratch: of the study, where no factor."""
    for combination in product(*table.varied.values()):
        levels = Levels(zip(table.varied, combination, strict=True))
        yield RawPoint(
            table=index,
            label=table.title,
            benchmark=table.name,
            topology=table.topology,
            parameters={**table.parameters, **levels.only(table.factors)},
            link={**table.link, **levels.link},
            levels=Levels({**start, **levels}),
            tuning=start.get("tuning", ""),
            scratch=cast(Scratch, start.get("scratch", scratch)),
            colocation=Colocation(
                guests=int(levels["guests"]) if table.guests else 1,
                neighbour=str(levels["neighbour"]) if table.neighbour else "",
                is_counted=bool(table.guests),
                is_networked="network" in table.neighbour,
            ),
            trial_time_s=table.trial_time,
        )
