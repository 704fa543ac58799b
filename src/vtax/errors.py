"""The one exception family for everything a user can cause or mend.

Every error says what happened, where, and what to do. The command line prints these three and nothing else; a
traceback is reserved for defects of vtax itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from signal import SIGINT
from typing import TypeVar

T = TypeVar("T")


class VtaxError(Exception):
    """An error a person can act on.

    what: one sentence, what happened. where: file, table and key, platform or trial (may be empty).
    hint: what to do about it (may be empty). exit_status: 2 for bad input, 1 for what failed.
    """

    exit_status = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """The three parts on at most three lines."""
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class BadInput(VtaxError):
    """What was asked for cannot be understood or cannot be done: exit status 2."""

    exit_status = 2


class BadInputs(BadInput):
    """Several problems of one file, shown together. problems: each with its own what, where and hint."""

    MAX_SHOWN = 12

    def __init__(self, problems: Iterable[BadInput], *, where: str, hint: str) -> None:
        self.problems = tuple({(each.where, each.what): each for each in reversed([*problems])}.values())[::-1]
        hidden = len(self.problems) - self.MAX_SHOWN
        lines: list[str] = []
        for problem in self.problems[: self.MAX_SHOWN]:
            place = problem.where.removeprefix(where).removeprefix(":").strip()
            lines.append(f"  - {place}: {problem.what}" if place else f"  - {problem.what}")
            fix = f"      hint: {problem.hint}"
            if problem.hint not in ("", hint) and fix not in lines:
                lines.append(fix)
        more = [f"  and {hidden} problem{'s' if hidden > 1 else ''} more"] if hidden > 0 else []
        super().__init__("\n".join([f"{len(self.problems)} problems:", *lines, *more]), where=where, hint=hint)


def all_of(problems: Iterable[BadInput], *, where: str, hint: str) -> BadInput:
    """One error for all problems of a file: the only one itself, or BadInputs. where, hint: of the file."""
    flat: list[BadInput] = []
    for problem in problems:
        flat += problem.problems if isinstance(problem, BadInputs) else [problem]
    return flat[0] if len(flat) == 1 else BadInputs(flat, where=where, hint=hint)


class Problems:
    """Collects what several checks refuse, so that all of it can be shown at once."""

    def __init__(self) -> None:
        self.found: list[BadInput] = []

    def of(self, check: Callable[[], T], where: str = "") -> T | None:
        """What a check returns; None when it raised BadInput, which is kept. where: of an error that does not say."""
        try:
            with placed(where):
                return check()
        except BadInput as error:
            self.found.append(error)
            return None


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Give a BadInput that does not say where it is this place."""
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
    """A guest sent garbage, died, or fell silent: the trial fails, the run goes on."""


class NetworkError(VtaxError):
    """The lab's links could not be made or do not behave as asked."""


class BenchmarkError(VtaxError):
    """A tool failed or its output could not be parsed: the trial fails, the run goes on."""


class StoreError(VtaxError):
    """The database is missing, corrupt, full, or of a schema this version does not know."""


class StoreBusy(StoreError):
    """Another process holds the lock of the database for longer than a transaction waits for it."""


class RunInterrupted(BaseException):
    """The run was stopped on request; everything measured so far is kept.

    Not an error, so that nothing which turns errors into failed trials or lost guests can take it for one.
    signal: the number of the one that asked; the exit status tells it as shells do.
    """

    def __init__(self, what: str, *, signal: int = SIGINT, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.signal = signal
        self.hint = hint
        self.exit_status = 128 + signal

    def __str__(self) -> str:
        """What happened, and how to go on."""
        return f"{self.what}\n  hint: {self.hint}" if self.hint else self.what


def with_hint(what: str, hint: str) -> str:
    """What happened and its hint (may be empty) as running text, whether or not what ends in a full stop."""
    return f"{what.rstrip('. ')}. To do: {hint}" if what and hint else what or hint
