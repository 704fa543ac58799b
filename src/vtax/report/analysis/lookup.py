"""Platforms, benchmarks, factors and levels of a run by what a person types, with the nearest names for a typo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from vtax.errors import BadInput, NotFound
from vtax.report.document.levels import stored_level
from vtax.store.records import CellRecord

_COLUMN = "factor_"  # how columns of exported files begin


def unknown(kind: str, given: str, names: Sequence[str], where: str, run: str) -> BadInput:
    """Return the error for a name that a run does not have, with the nearest that it has. kind: `platform`, `factor`,
    ..."""
    near = get_close_matches(given, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(names)}"
    if not names:
        hint = "the run has none: every level was fixed"
    return BadInput(f"{run} has no {kind} {given!r}", where=where, hint=hint)


def neither(given: str, platforms: Sequence[str], runs: Sequence[str]) -> NotFound:
    """Return the error for a name that is neither a platform nor a run, with the nearest of both."""
    near = [
        *get_close_matches(given, platforms, n=3, cutoff=0.5),
        *get_close_matches(given, runs, n=3, cutoff=0.5),
    ]
    hint = (
        f"did you mean {', '.join(near)}?"
        if near
        else f"platforms: {', '.join(platforms)}; runs: vtax list"
    )
    if given.endswith(".vtax.gz"):
        hint = f"vtax import {given}, and compare the run that it names; only a gate takes a bundle, as B"
    return NotFound(f"there is no run or platform {given!r}", hint=hint)


class Levels:
    """The factors of a run's cells and their levels, as the run spells them."""

    def __init__(self, run: str, cells: Iterable[CellRecord]) -> None:
        self._run = run
        self.there: dict[str, dict[str, str]] = {}
        for cell in cells:
            for factor, level in cell.levels.items():
                self.there.setdefault(factor, {}).setdefault(str(level).casefold(), str(level))

    def find_all(self, written: str, where: str, form: str) -> list[tuple[str, str]]:
        """Find `factor=level,level`; a level may hold a comma itself. Raises BadInput as `find` does."""
        factor, equals, levels = written.partition("=")
        known = self.there.get(factor.strip().removeprefix(_COLUMN), {})
        if not equals or levels.strip().casefold() in known:
            return [self.find(written, where, form)]
        return [self.find(f"{factor}={level}", where, form) for level in levels.split(",")]

    def find(self, written: str, where: str, form: str) -> tuple[str, str]:
        """(factor, level) of `factor=level`; the factor may be called as in a column of an exported file.

        form: how to write it, for the hint. Raises BadInput.
        """
        factor, equals, level = (each.strip() for each in written.partition("="))
        if not equals:
            what = (
                f"{written!r} is not of the form factor=level"
                if written
                else "a factor=level is missing"
            )
            raise BadInput(what, where=where, hint=form)
        if factor not in self.there:
            factor = factor.removeprefix(_COLUMN)
        if factor not in self.there:
            raise unknown("factor", factor, list(self.there), where, self._run)
        levels: Mapping[str, str] = self.there[factor]
        if level.casefold() not in levels:
            level = stored_level(level)
        if level.casefold() not in levels:
            raise unknown(f"level of {factor},", level, list(levels.values()), where, self._run)
        return factor, levels[level.casefold()]
