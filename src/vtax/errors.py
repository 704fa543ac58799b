"""The exception family for all errors that a user can cause or fix.

Every error has what failed, where, and a hint. The command line prints these three parts; only bugs of vtax produce a
traceback.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from signal import SIGINT
from typing import TypeVar

T = TypeVar("T")


class VtaxError(Exception):
    """An error that a user can act on.

    what: what failed, one sentence. where: file, table and key, platform or trial (may be empty).
    hint: how to fix it (may be empty). exit_status: 2 for bad input, 75 for a busy host or store, 1 for a failure.
    """

    exit_status = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """Return the three parts on at most three lines."""
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class BadInput(VtaxError):
    """The request is invalid or cannot be served: exit status 2."""

    exit_status = 2


class Busy(BadInput):
    """Another command uses the host, so that the same request may be served later: exit status 75, EX_TEMPFAIL."""

    exit_status = os.EX_TEMPFAIL


class NotFound(BadInput):
    """The run, study, platform or page of this name does not exist."""


class BadInputs(BadInput):
    """Several problems of one file, shown together. problems: each with its own what, where and hint."""

    MAX_SHOWN = 20

    def __init__(self, problems: Iterable[BadInput], *, where: str, hint: str) -> None:
        unique: dict[tuple[str, str], BadInput] = {}
        for problem in reversed(list(problems)):
            unique[problem.where, problem.what] = problem
        self.problems = tuple(unique.values())[::-1]
        lines = [f"{len(self.problems)} problems:"]
        for problem in self.problems[: self.MAX_SHOWN]:
            place = problem.where.removeprefix(where).removeprefix(":").strip()
            lines.append(f"  - {place}: {problem.what}" if place else f"  - {problem.what}")
            fix = f"      hint: {problem.hint}"
            if problem.hint not in ("", hint) and fix not in lines:
                lines.append(fix)
        hidden = len(self.problems) - self.MAX_SHOWN
        if hidden > 0:
            lines.append(f"  and {hidden} problem{'s' if hidden > 1 else ''} more")
        super().__init__("\n".join(lines), where=where, hint=hint)


def all_of(problems: Iterable[BadInput], *, where: str, hint: str) -> BadInput:
    """Return one error for all problems of a file: a single problem itself, else BadInputs.

    where, hint: of the file.
    """
    flat: list[BadInput] = []
    for problem in problems:
        flat += problem.problems if isinstance(problem, BadInputs) else [problem]
    return flat[0] if len(flat) == 1 else BadInputs(flat, where=where, hint=hint)


class Problems:
    """Collects the problems that several checks raise, to report them together."""

    def __init__(self) -> None:
        self.found: list[BadInput] = []

    def of(self, check: Callable[[], T], where: str = "") -> T | None:
        """Return the result of a check; None when it raised BadInput, which is collected.

        where: of an error that names no place.
        """
        try:
            with placed(where):
                return check()
        except BadInput as error:
            self.found.append(error)
            return None


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Set `where` of a BadInput that has none."""
    try:
        yield
    except BadInput as error:
        error.where = error.where or where
        raise


class CommandFailed(VtaxError):
    """An external program failed, was missing, or did not end in time."""


class ImageError(VtaxError):
    """The guest image could not be built or exported."""


class PlatformError(VtaxError):
    """A guest could not be started or stopped, or a platform cannot run here."""


class GuestError(VtaxError):
    """A guest sent invalid data, died, or stopped responding: the trial fails, the run continues."""


class NetworkError(VtaxError):
    """The links of the lab could not be created or do not have the requested settings."""


class BenchmarkError(VtaxError):
    """A tool failed or its output could not be parsed: the trial fails, the run continues."""


class StoreError(VtaxError):
    """The database is missing, corrupt, full, or of an unknown schema version."""


class DamagedRows(StoreError):
    """Rows of the database cannot be read. problem: the first of them."""

    def __init__(self, problem: str, *, where: str, hint: str) -> None:
        super().__init__(f"the store is damaged: {problem}", where=where, hint=hint)
        self.problem = problem


class StoreBusy(StoreError):
    """Others use the database, or its server does not answer for now: exit status 75, EX_TEMPFAIL."""

    exit_status = os.EX_TEMPFAIL


class RunInterrupted(BaseException):
    """The run was stopped on request; all committed trials are kept.

    It is not an Exception, so that no handler of errors turns it into a failed trial or a lost guest.
    signal: number of the signal; the exit status is 128 + signal, as in shells.
    run_name: of the run that was measured; empty where none was.
    """

    def __init__(
        self, what: str, *, signal: int = SIGINT, hint: str = "", run_name: str = ""
    ) -> None:
        super().__init__(what)
        self.what = what
        self.signal = signal
        self.hint = hint
        self.run_name = run_name
        self.exit_status = 128 + signal

    def __str__(self) -> str:
        """Return what happened, and the hint."""
        return f"{self.what}\n  hint: {self.hint}" if self.hint else self.what


def with_hint(what: str, hint: str) -> str:
    """Return what happened and its hint (may be empty) as one text."""
    return f"{what.rstrip('. ')}; hint: {hint}" if what and hint else what or hint


def did_you_mean(names: Iterable[str], separator: str = " or ") -> str:
    """Return what an error about an unknown name goes on with: `; did you mean docker or podman?`, if anything."""
    suggestions = separator.join(names)
    return f"; did you mean {suggestions}?" if suggestions else ""


def nearest_of(name: str, known_names: Iterable[str]) -> str:
    """Return the same of the three names that come nearest to one: `; did you mean docker, podman?`."""
    return did_you_mean(get_close_matches(name, known_names, 3), ", ")
