"""The level of each factor: how it is read and written, and when two levels are the same.

A factor is whatever tells two figures apart: the platform, the benchmark, its metric, a parameter, a setting of the
link. A setting of the link is called `link.NAME` beside parameters, which may have the same name.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeVar

from vtax.errors import BadInput
from vtax.units import size_bytes

Level = bool | int | float | str
Value = TypeVar("Value")

PLATFORM, BENCHMARK, METRIC, TOPOLOGY = "platform", "benchmark", "metric", "topology"
HOST = "host"
"""In a claim, 1 for the host of a run's first session, 2 for the next other one, ..."""
NAMES = (PLATFORM, BENCHMARK, METRIC, TOPOLOGY, HOST)
"""Factors whose levels are names, never numbers."""
LINK = "link."
_COLUMN = "factor_"  # how columns of exported files begin


class Levels(Mapping[str, Level]):
    """Factor -> level, as a point, a cell or a side of a comparison has them. Immutable, and a key of dictionaries.

    Levels stay as their source spells them; `canonical` has the form in which equal levels are equal.
    """

    __slots__ = ("_canonical", "_levels")

    def __init__(self, levels: Mapping[str, Level] | Iterable[tuple[str, Level]] = ()) -> None:
        self._levels = dict(levels)
        self._canonical: Levels | None = None

    @classmethod
    def parse(cls, text: str) -> Levels:
        """Return the levels of `factor=level,...`. Raises ValueError."""
        levels: dict[str, Level] = {}
        for part in text.split(","):
            factor, _, level = map(str.strip, part.partition("="))
            if not (factor and level):
                raise ValueError(f"{text!r} is not of the form factor=level,...")
            levels[factor] = level
        return cls(levels)

    def __getitem__(self, factor: str) -> Level:
        return self._levels[factor]

    def __iter__(self) -> Iterator[str]:
        return iter(self._levels)

    def __len__(self) -> int:
        return len(self._levels)

    def __hash__(self) -> int:
        return hash(frozenset(self._levels.items()))

    def __repr__(self) -> str:
        return f"Levels({self._levels})"

    def __str__(self) -> str:
        return self.show(", ")

    def show(self, separator: str) -> str:
        """Return the levels as people read and write them: `direction=send, link.mtu=1500`."""
        return separator.join(f"{factor}={level}" for factor, level in self._levels.items())

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """Every factor with its level as text, in order."""
        return tuple((factor, str(level)) for factor, level in self._levels.items())

    @property
    def canonical(self) -> Levels:
        """The same levels, each as `canonical` returns it."""
        if self._canonical is None:
            pairs = self._levels.items()
            self._canonical = Levels((factor, canonical(factor, level)) for factor, level in pairs)
        return self._canonical

    @property
    def link(self) -> dict[str, Level]:
        """The settings of the link among the factors, by their own names."""
        settings = {}
        for factor, level in self._levels.items():
            if factor.startswith(LINK):
                settings[factor.removeprefix(LINK)] = level
        return settings

    def only(self, factors: Container[str]) -> Levels:
        """Return the levels of these factors alone."""
        return Levels(pair for pair in self._levels.items() if pair[0] in factors)

    def without(self, factors: Container[str]) -> Levels:
        """Return the levels of all other factors."""
        return Levels(pair for pair in self._levels.items() if pair[0] not in factors)


NO_LEVELS = Levels()


def canonical(factor: str, level: Level) -> str:
    """Return a level in the one form in which `64KiB`, `65536` and 65536 are the same. A name stays as it is."""
    return str(level) if factor in NAMES else _canonical(level)


@lru_cache(4096, typed=True)  # typed: True and 1.0 are equal, and other levels
def _canonical(level: Level) -> str:
    if isinstance(level, bool):
        return str(level).lower()
    number = number_of(level)
    return str(level).casefold() if number is None else f"{number:.15g}"


def number_of(level: Level) -> float | None:
    """Return a level as a number, a size in bytes; None for what is neither."""
    if isinstance(level, bool):
        return None
    with suppress(ValueError):
        return float(level)
    with suppress(ValueError):
        return float(size_bytes(str(level)))
    return None


def list_levels(given: Level | list[Level]) -> list[Level]:
    """Return the levels that a key holds which takes one level or a list of them."""
    return given if isinstance(given, list) else [given]


def link_factor(setting: str) -> str:
    """Return what a setting of the link is called as a factor: `link.mtu` for `mtu`."""
    return f"{LINK}{setting}"


def link_factors(settings: Mapping[str, Value]) -> dict[str, Value]:
    """Return settings of the link, or their levels, by the names of their factors."""
    return {link_factor(name): value for name, value in settings.items()}


def flat(where: Any) -> Any:
    """Return `{ link.mtu = 500 }`, which TOML reads as a table in a table, as `{ "link.mtu" = 500 }`.

    What is no such table stays as it is.
    """
    if not (isinstance(where, Mapping) and isinstance(where.get("link"), Mapping)):
        return where
    rest = {factor: levels for factor, levels in where.items() if factor != "link"}
    return {**rest, **link_factors(where["link"])}


class KnownLevels:
    """The factors that a run or a study has, with their levels as it spells them: what a person may name."""

    def __init__(
        self, owner: str, points: Iterable[Mapping[str, Level]], factors: Iterable[str] = ()
    ) -> None:
        """Collect the levels of points.

        owner: the run or study, for errors.
        points: factor -> level, of all that there is.
        factors: names that come first, in this order.
        """
        self._owner = owner
        self._levels: dict[str, dict[str, list[str]]] = {factor: {} for factor in factors}
        for point in points:
            for factor, level in point.items():
                known = self._levels.setdefault(factor, {})
                spellings = known.setdefault(canonical(factor, level), [])
                if str(level) not in spellings:
                    spellings.append(str(level))

    @property
    def factors(self) -> list[str]:
        """The names of the factors, in order."""
        return list(self._levels)

    def levels(self, factor: str) -> list[str]:
        """Return the levels of a factor, in their first spelling; none of a factor that is not there."""
        return [spellings[0] for spellings in self._levels.get(factor, {}).values()]

    def has(self, factor: str, level: Level) -> bool:
        """Return whether a factor has a level, however it is spelled."""
        return canonical(factor, level) in self._levels.get(factor, {})

    def has_any(self, factor: str, levels: Iterable[Level]) -> bool:
        """Return whether a factor has one of these levels."""
        return any(self.has(factor, level) for level in levels)

    def find_factor(self, written: str, where: str) -> str:
        """Return the factor that a person means, in any case, as in a column of an exported file, or without `link.`.

        written: what the person wrote.
        where: what it was given to, for errors.
        Raises BadInput with the nearest names.
        """
        wanted = written.strip().casefold()
        if wanted not in self._levels:
            wanted = wanted.removeprefix(_COLUMN)
        for name in (wanted, link_factor(wanted)):
            for factor in self._levels:
                if factor.casefold() == name:
                    return factor
        raise unknown("factor", written.strip(), self.factors, where, self._owner)

    def find(self, written: str, where: str, form: str) -> tuple[str, tuple[str, ...]]:
        """Return the factor of `factor=level`, and every spelling of that level.

        where: what it was given to, for errors.
        form: how to write it, for the hint.
        Raises BadInput with the nearest names.
        """
        if not written:
            raise BadInput("a factor=level is missing", where=where, hint=form)
        name, equals, level = map(str.strip, written.partition("="))
        if not equals:
            what = f"{written!r} is not of the form factor=level"
            raise BadInput(what, where=where, hint=form)
        factor = self.find_factor(name, where)
        wanted = canonical(factor, level).casefold()
        for key, spellings in reversed(self._levels[factor].items()):
            if key.casefold() == wanted:
                return factor, tuple(spellings)
        raise unknown(f"level of {factor},", level, self.levels(factor), where, self._owner)


def unknown(kind: str, given: str, names: Sequence[str], where: str, owner: str) -> BadInput:
    """Return the error for a name that a run does not have, with the nearest that it has.

    kind: `platform`, `factor`, ...
    given: the name.
    names: all that there are.
    where: what it was given to.
    owner: the run.
    """
    near = get_close_matches(given, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(names)}"
    if not names:
        hint = "the run has none: every level was fixed"
    return BadInput(f"{owner} has no {kind} {given!r}", where=where, hint=hint)
