"""Which cells a question is about, and how they are put together: the same for every table, gate, claim and figure.

A selection picks cells by their levels, a projection makes the places of a table from them, and the residue of a
place is what its cells differ in although nobody asked for it. How a level is read and compared is known to `levels`
alone; what is computed from two cells that belong together is in `pairing`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Protocol, TypeVar

from vtax.described import Means
from vtax.errors import BadInput
from vtax.grouping import by_key
from vtax.levels import BENCHMARK, PLATFORM, KnownLevels, Level, Levels, canonical, list_levels

_CONDITION = re.compile(r"[\s,]+(?=[^\s=|,]+=)")
"""The separator of two conditions; a level may hold spaces and commas itself."""
_ALTERNATIVES = re.compile(r"[|,]")
"""The separator of two levels of one factor; a comma needs no quotes in a shell."""


@dataclass(frozen=True)
class Selection:
    """The cells that have, of every factor that is named, one of its levels; all cells without any factor.

    choices: factor -> its levels, as they are written.
    """

    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, where: Mapping[str, Level | list[Level]]) -> Selection:
        """Return the selection of a table that names one level or several of each factor."""
        return cls({name: tuple(map(str, list_levels(given))) for name, given in where.items()})

    @classmethod
    def parse(
        cls, conditions: Iterable[str], known: KnownLevels, where: str, form: str
    ) -> Selection:
        """Return the selection that a person writes: `platform=docker|podman link.mtu=1500`.

        A condition on one factor may be written several times. Its levels are alternatives, and may hold commas and
        spaces themselves.

        conditions: texts of one condition or several.
        known: all that may be named.
        where: what the texts were given to, for errors.
        form: how to write them, for the hint.
        Raises BadInput with the nearest names.
        """
        choices: dict[str, tuple[str, ...]] = {}
        for condition in conditions:
            for part in _CONDITION.split(condition.strip()):
                for factor, alike in _read(part, known, where, form):
                    choices[factor] = tuple(dict.fromkeys((*choices.get(factor, ()), *alike)))
        return cls(choices)

    def __bool__(self) -> bool:
        return bool(self.choices)

    def __str__(self) -> str:
        return self.show(" ")

    def show(self, separator: str) -> str:
        """Return the selection as it is written: `platform=docker|podman link.mtu=1500`."""
        return separator.join(f"{name}={'|'.join(them)}" for name, them in self.choices.items())

    @property
    def platforms(
        self,
    ) -> Annotated[tuple[str, ...], Means("platforms that were named; none for all")]:
        """The platforms that are named."""
        return self.choices.get(PLATFORM, ())

    @property
    def benchmarks(
        self,
    ) -> Annotated[tuple[str, ...], Means("labels of benchmarks that were named; none for all")]:
        """The benchmarks that are named."""
        return self.choices.get(BENCHMARK, ())

    @property
    def levels(self) -> Annotated[Mapping[str, tuple[str, ...]], Means("factor -> levels of it")]:
        """The levels of the other factors."""
        return self.without((PLATFORM, BENCHMARK)).choices

    @cached_property
    def canonical(self) -> Mapping[str, frozenset[str]]:
        """Factor -> its levels, in the form in which equal levels are equal."""
        return {
            name: frozenset(canonical(name, level) for level in them)
            for name, them in self.choices.items()
        }

    def selects(self, levels: Levels) -> bool:
        """Return whether a cell of these levels is selected; not one without a factor that is named."""
        own = levels.canonical
        return all(own.get(name) in them for name, them in self.canonical.items())

    def allows(self, levels: Levels) -> bool:
        """Return whether a cell of these levels has no other level of a factor that is named; it may lack it."""
        own = levels.canonical
        return all(own.get(name) in (None, *them) for name, them in self.canonical.items())

    def has_all_of(self, other: Selection) -> bool:
        """Return whether all levels of the other selection are here, of factors that both name."""
        return all(other.canonical.get(name, them) <= them for name, them in self.canonical.items())

    def and_also(self, other: Selection) -> Selection:
        """Return the selection by the factors of both; of a factor of both, the levels of the other one."""
        return Selection({**self.choices, **other.choices})

    def beside(self, baseline: str) -> Selection:
        """Return the same cells, and those of the baseline beside the platforms that are named."""
        if not self.platforms:
            return self
        return self.and_also(Selection({PLATFORM: (*self.platforms, baseline)}))

    def without(self, factors: Collection[str]) -> Selection:
        """Return the selection by all other factors."""
        return Selection({name: them for name, them in self.choices.items() if name not in factors})

    def only(self, factors: Collection[str]) -> Selection:
        """Return the selection by these factors alone."""
        return Selection({name: them for name, them in self.choices.items() if name in factors})


def _read(
    condition: str, known: KnownLevels, where: str, form: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the factor of one condition with the spellings of each of its levels. The others are as in `parse`."""
    name, equals, levels = condition.partition("=")
    if not equals or known.has(known.find_factor(name, where), levels.strip()):
        yield known.find(condition, where, form)
        return
    for level in _ALTERNATIVES.split(levels):
        if not level.strip():
            what = f"a level of {known.find_factor(name, where)} is missing"
            raise BadInput(what, where=where, hint=form)
        yield known.find(f"{name}={level}", where, form)


EVERYTHING = Selection()


@dataclass(frozen=True)
class Projection:
    """The factors that make a place out of levels: these, or all but these."""

    factors: frozenset[str]
    is_rest: bool = False

    def of(self, levels: Levels) -> Levels:
        """Return the place of a cell, equal to that of every cell of the same levels of these factors."""
        own = levels.canonical
        return own.without(self.factors) if self.is_rest else own.only(self.factors)


def by(*factors: str) -> Projection:
    """Return the projection to these factors."""
    return Projection(frozenset(factors))


def rest(*factors: str) -> Projection:
    """Return the projection to all factors but these."""
    return Projection(frozenset(factors), is_rest=True)


class HasLevels(Protocol):
    """A cell, in a metric or not."""

    @property
    def levels(self) -> Levels:
        """Factor -> level."""


Cell = TypeVar("Cell", bound=HasLevels)


def group(cells: Iterable[Cell], projection: Projection) -> dict[Levels, list[Cell]]:
    """Return the cells of every place, in their order."""
    return by_key((projection.of(cell.levels), cell) for cell in cells)


def residue(levels: Iterable[Mapping[str, Level]], asked: Collection[str]) -> dict[str, list[str]]:
    """Return what the cells of one place differ in although nobody asked for it: factor -> its levels there.

    asked: factors that somebody projected or fixed.
    """
    cells = list(levels)
    factors = dict.fromkeys(name for cell in cells for name in cell if name not in asked)
    found = {}
    for name in factors:
        there = list(dict.fromkeys(str(cell.get(name, "none")) for cell in cells))
        if len({canonical(name, level) for level in there}) > 1:
            found[name] = there
    return found
