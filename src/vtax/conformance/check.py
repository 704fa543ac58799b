"""A check and its result. Checks of a plug-in run in order; one that fails or raises costs those that need it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from vtax.errors import RunInterrupted, VtaxError
from vtax.host.emulated_cpu import timeout_factor

S = TypeVar("S")
Status = Literal["pass", "fail", "skipped"]


class Failed(Exception):
    """What a check found wrong, one sentence."""


class Skipped(Exception):
    """Why a check cannot be made here, one sentence."""


@dataclass(frozen=True)
class Check(Generic[S]):
    """An expectation. run: raises Failed or Skipped. hint: what makes it pass. needs: checks that must pass first.

    limit_s: seconds after which it fails, several times as many where CPUs are emulated.
    """

    name: str
    run: Callable[[S], None]
    hint: str
    needs: tuple[str, ...] = ()
    limit_s: float = 180.0


@dataclass(frozen=True)
class Result:
    """What became of a check. reason, hint: empty when it passed; hint also when it was skipped."""

    name: str
    status: Status
    reason: str = ""
    hint: str = ""


def require(condition: object, reason: str) -> None:
    """Raise Failed unless a condition holds."""
    if not condition:
        raise Failed(reason)


def results(checks: Sequence[Check[S]], subject: S) -> Iterator[Result]:
    """The result of each check, as soon as it is known. Raises nothing but a request to stop."""
    passed: set[str] = set()
    for check in checks:
        result = _result(check, subject, passed)
        if result.status == "pass":
            passed.add(check.name)
        yield result


def _result(check: Check[S], subject: S, passed: set[str]) -> Result:
    if missing := [name for name in check.needs if name not in passed]:
        return Result(check.name, "skipped", f"{', '.join(missing)} did not pass")
    try:
        with _within(check.limit_s * timeout_factor()):
            check.run(subject)
    except Skipped as skipped:
        return Result(check.name, "skipped", str(skipped))
    except Failed as failed:
        return Result(check.name, "fail", str(failed), check.hint)
    except RunInterrupted:
        raise
    except VtaxError as error:
        return Result(check.name, "fail", ": ".join(filter(None, (error.what, error.where))), check.hint)
    except Exception as error:  # whatever somebody else's code does
        return Result(check.name, "fail", f"{type(error).__name__}: {error}", check.hint)
    return Result(check.name, "pass")


@contextmanager
def _within(limit_s: float) -> Iterator[None]:
    """Raise Failed in the block when it has not ended in time; only the main thread can be interrupted so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(*_: object) -> None:
        raise Failed(f"it has not ended within {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
