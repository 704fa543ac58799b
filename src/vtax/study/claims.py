"""`[paper]`, `[[claim]]`, `[[published]]`: what a study that is repeated found, as data that a run is judged by.

A claim is one statement with one or more checks. A check selects cells of the study and states a range for a ratio
of them; `report/answers/claims/compute.py` evaluates it. Sides are written as `vtax compare` takes them:
`PLATFORM@factor=level,...`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from vtax.described import Means
from vtax.levels import HOST, NO_LEVELS, PLATFORM, Level, Levels, flat
from vtax.question import Selection
from vtax.stats.margin import edges
from vtax.study import limits
from vtax.study.fields import (
    KeptNote,
    Name,
    Share,
    StudyTable,
    as_tuple,
    disagreement,
)

Kind = Literal["ratio", "equivalence", "rank", "monotone", "spread", "interaction", "link_rate"]
_KEYS: Mapping[str, tuple[set[str], set[str]]] = {
    "ratio": (set(), {"above", "below", "to"}),
    "equivalence": ({"within"}, {"to"}),
    "rank": ({"to", "place"}, set()),
    "monotone": ({"along", "direction"}, {"to"}),
    "spread": ({"over"}, {"to", "reference", "above", "below"}),
    "interaction": ({"to", "reference"}, {"above", "below"}),
    "link_rate": (set(), {"above", "below"}),
}
"""Kind -> (keys that it needs, further keys that it takes), of those that not every kind has."""
OVER_BLOCKS = ("blocks", "trials", "pairing")
"""Kinds of a spread: over what one value is of two blocks."""
_OF_KINDS = ("to", "reference", "within", "above", "below", "place", "along", "direction", "over")


@dataclass(frozen=True)
class ClaimSide:
    """A platform and the levels that are fixed on it, as written: of factors, `benchmark`, `metric` and `host`."""

    platform: str
    levels: Levels = NO_LEVELS

    @property
    def text(self) -> Annotated[str, Means("side")]:
        """It as it is written."""
        return f"{self.platform}@{self.levels.show(',')}" if self.levels else self.platform

    @property
    def selection(self) -> Selection:
        """The cells that it names."""
        return Selection.of({**self.levels, PLATFORM: self.platform})

    @property
    def host(self) -> int | None:
        """The number of its host; None: of all hosts of the run."""
        return int(self.levels[HOST]) if HOST in self.levels else None

    def beside(self, other: ClaimSide) -> ClaimSide:
        """Return the side with what only the other one fixes held at the same level."""
        return replace(self, levels=Levels({**other.levels, **self.levels}))


def side_of(text: str) -> ClaimSide:
    """Return a side from `PLATFORM@factor=level,...`. Raises ValueError."""
    platform, separator, levels_text = text.partition("@")
    try:
        levels = Levels.parse(levels_text) if separator else NO_LEVELS
    except ValueError as error:
        raise ValueError(f"{text!r} is not of the form PLATFORM@factor=level,...") from error
    number = str(levels.get(HOST, "1"))
    if not number.isdecimal() or number.startswith("0"):
        raise ValueError(f"{HOST}={number} of {text!r} is no number of a host, which count from 1")
    if not platform:
        raise ValueError(f"{text!r} names no platform; write PLATFORM or PLATFORM@factor=level,...")
    return ClaimSide(platform.strip(), levels)


def _side(text: str) -> str:
    side_of(text)
    return text


SideText = Annotated[str, AfterValidator(_side)]
Sides = SideText | Annotated[list[SideText], Field(min_length=1, max_length=limits.MAX_SIDES)]


Where = Annotated[dict[str, Level | list[Level]], BeforeValidator(flat)]


class DifferenceTable(StudyTable):
    """One of `[paper].differences`: what a study does in another way than the publication, or where that is open."""

    what: str = Field(min_length=1, description="what differs, in a few words")
    paper: str = Field(
        min_length=1, description="what the publication did, or that it does not say"
    )
    here: str = Field(min_length=1, description="what the study does")


class PaperTable(StudyTable):
    """`[paper]`: the publication that a study repeats."""

    citation: str = Field(description="authors, title, where and when it was published")
    platforms: dict[str, str] = Field(
        default_factory=dict,
        description="platform -> what it was in the publication; claims may name them, whether they run today or not",
    )
    boots: dict[Name, Annotated[list[str], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="name of a boot -> the platforms that need it, where one boot of a host cannot run all; "
        "--boot NAME=ENTRY takes them",
    )
    differences: list[DifferenceTable] = Field(
        default_factory=list,
        description="where the study differs from the publication, or fills what that leaves open",
    )


class CheckTable(StudyTable):
    """`[[claim.check]]`: cells, and the range that is claimed for a ratio of them."""

    kind: Kind = Field(
        description="ratio: of / to is above, below or between; equivalence: of / to is within a margin; rank: of "
        "is first or last among to; monotone: of rises or falls along a factor; spread: of values over blocks, "
        "or over points as a standard deviation of logarithms: of / to; interaction: (of / reference) / "
        "(to / reference); link_rate: of / the rate limit of its link, rate_mbit_s"
    )
    of: Sides = Field(description="PLATFORM or PLATFORM@factor=level,...; several: each of them")
    to: Sides | None = Field(
        None, description="what it is compared with; ratio and equivalence: the baseline"
    )
    reference: str | None = Field(
        None, description="platform that both sides are divided by, point by point"
    )
    benchmark: str | list[str] = Field(
        default_factory=list, description="labels of benchmarks; absent: all"
    )
    metric: str | list[str] = Field(
        default_factory=list, description="metrics; absent: the primary ones"
    )
    where: Where = Field(
        default_factory=dict, description="factor -> level or levels; other points are left out"
    )
    average_over: list[str] = Field(
        default_factory=list,
        description="factors (benchmark, metric) whose points are averaged geometrically before they are judged; of "
        "the others each point is judged by itself",
    )
    above: float | None = Field(None, gt=0, description="the ratio is claimed to be above this")
    below: float | None = Field(None, gt=0, description="the ratio is claimed to be below this")
    within: Share | None = Field(
        None,
        gt=0,
        lt=1,
        description="margin of an equivalence: from 1 / (1 + within) to 1 + within",
    )
    place: Literal["first", "last"] | None = Field(None, description="of a rank; first is best")
    along: str | None = Field(
        None, description="factor with numbers for levels, of a monotone check"
    )
    direction: Literal["rises", "falls"] | None = Field(
        None, description="of values, or ratios, along the factor"
    )
    over: Literal["blocks", "points", "trials", "pairing"] | None = Field(
        None,
        description="what the values of a spread are of; trials: of is compared with itself, trials of different "
        "guests with trials of one; pairing: of / to in the same block is compared with of / to across blocks",
    )
    each_host: bool = Field(
        False,
        description="of a run of several hosts: judged on each of them by itself, and not of all together",
    )
    needs: Literal["each", "most"] = Field(
        "each", description="how many of the comparisons must be inside"
    )

    @model_validator(mode="after")
    def _keys_of_kind(self) -> CheckTable:
        needed, further = _KEYS[self.kind]
        given = {name for name in _OF_KINDS if getattr(self, name) is not None}
        if missing := sorted(needed - given):
            raise disagreement(
                f"a check of kind {self.kind!r} needs the key {missing[0]}", missing[0]
            )
        if idle := sorted(given - needed - further):
            raise disagreement(f"{idle[0]} has no effect in a check of kind {self.kind!r}", idle[0])
        if "above" in further and self.above is None and self.below is None:
            raise disagreement(f"a check of kind {self.kind!r} needs above, below or both", "above")
        if self.above is not None and self.below is not None and self.above >= self.below:
            raise disagreement(
                f"above ({self.above:g}) is not below `below` ({self.below:g})", "above"
            )
        if self.over in ("blocks", "pairing") and self.to is None:
            raise disagreement(f"a spread over {self.over} needs another side", "to")
        if self.over == "trials" and self.to is not None:
            raise disagreement("a spread over trials is of one side alone", "to")
        if self.over in ("trials", "pairing") and self.reference is not None:
            raise disagreement(f"reference has no effect in a spread over {self.over}", "reference")
        if self.hosts and self.kind not in ("ratio", "equivalence", "interaction"):
            raise disagreement(f"a check of kind {self.kind!r} cannot name hosts", "of")
        if self.each_host and (
            self.hosts or self.kind not in ("ratio", "equivalence", "interaction", "rank")
        ):
            raise disagreement(
                "each_host is for a ratio, equivalence, interaction or rank that names no host",
                "each_host",
            )
        if self.reference is not None and "@" in self.reference:
            raise disagreement(
                "reference is a platform alone: it has the levels of each side", "reference"
            )
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """(low, high) of the ratio; 0 and infinity where there is none. Of rank and monotone they depend on more."""
        if self.within is not None:
            return edges(self.within)
        return self.above or 0.0, math.inf if self.below is None else self.below

    def sides(self, name: Literal["of", "to"]) -> tuple[ClaimSide, ...]:
        """Return the sides of one key; none where it is absent."""
        return tuple(map(side_of, as_tuple(getattr(self, name) or ())))

    def compared_with(self, baseline: str) -> tuple[ClaimSide, ...]:
        """Return the sides that the others are compared with: of a ratio or equivalence that names none the baseline."""
        if self.kind in ("ratio", "equivalence") and self.to is None:
            return (ClaimSide(baseline),)
        return self.sides("to")

    def pairs(self, baseline: str) -> list[tuple[ClaimSide, ClaimSide | None]]:
        """Return every two sides that it compares, at the same levels; of a check of one side that side and None."""
        sides_to = self.compared_with(baseline)
        if not sides_to:
            return [(side, None) for side in self.sides("of")]
        pairs = [(of.beside(to), to.beside(of)) for of, to in product(self.sides("of"), sides_to)]
        return [(of, to) for of, to in pairs if of != to]

    @property
    def hosts(self) -> set[int]:
        """The numbers of hosts that its sides name."""
        sides = (*self.sides("of"), *self.sides("to"))
        return {side.host for side in sides if side.host is not None}

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The labels it names; none: all."""
        return as_tuple(self.benchmark)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics it names; none: the primary ones."""
        return as_tuple(self.metric)

    @property
    def selection(self) -> Selection:
        """The cells that `where` leaves."""
        return Selection.of(self.where)

    def platforms(self, baseline: str) -> tuple[str, ...]:
        """Return every platform that it compares, each once."""
        names = [side.platform for side in (*self.sides("of"), *self.compared_with(baseline))]
        if self.reference:
            names.append(self.reference)
        return tuple(dict.fromkeys(names))


class ClaimTable(StudyTable):
    """`[[claim]]`: one published finding."""

    id: Name
    statement: str = Field(min_length=1, description="the finding, in one English sentence")
    statement_pt: str = Field(min_length=1, description="the same in Portuguese")
    source: str = Field(
        min_length=1, description="section, page, table or figure of the publication"
    )
    note: str = Field("", description="how the checks read the finding, and what they leave out")
    published: float | None = Field(
        None, description="the publication's own number for the ratio of the first check"
    )
    not_tested: KeptNote = Field("", description="why no run can judge it; then it has no checks")
    in_part: KeptNote = Field(
        "", description="what a scale leaves out of it, so that it is judged in part"
    )
    check: list[CheckTable] = Field(default_factory=list, max_length=limits.MAX_CHECKS)

    @model_validator(mode="after")
    def _is_checked_or_not(self) -> ClaimTable:
        if not self.check and not self.not_tested:
            raise disagreement(
                "the claim has no [[claim.check]], and no not_tested that says why", "check"
            )
        if self.check and self.not_tested:
            raise disagreement(
                "not_tested says why a claim has no checks, and this one has", "not_tested"
            )
        return self

    def platforms(self, baseline: str) -> tuple[str, ...]:
        """Return every platform that its checks compare, each once."""
        names: list[str] = []
        for check in self.check:
            names += check.platforms(baseline)
        return tuple(dict.fromkeys(names))


class PublishedTable(StudyTable):
    """`[[published]]`: numbers of the publication, to show beside those of a run."""

    source: str = Field(
        min_length=1, description="section, page, table or figure of the publication"
    )
    benchmark: str = Field(description="label of the benchmark")
    metric: str = Field(description="metric of the benchmark")
    where: Where = Field(
        default_factory=dict,
        description="factor -> level or levels; of several points a largest CV is taken",
    )
    statistic: Literal["mean", "largest_cv"] = Field(
        "mean",
        description="what the values are: means in the metric's unit, or the largest CV of a group of points",
    )
    values: dict[str, float] = Field(min_length=1, description="platform -> number")
    plus_minus: dict[str, float] = Field(
        default_factory=dict, description="platform -> its deviation or interval"
    )
    note: str = Field("", description="what to beware of")
    in_part: KeptNote = Field("", description="what a scale leaves out of its levels")

    @model_validator(mode="after")
    def _deviations_have_values(self) -> PublishedTable:
        for name in self.plus_minus:
            if name not in self.values:
                raise disagreement(
                    f"plus_minus names {name!r}, which has no value", "plus_minus", name
                )
        return self

    @property
    def selection(self) -> Selection:
        """The cells that `where` leaves."""
        return Selection.of(self.where)
