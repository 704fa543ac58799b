"""A check and its result. Checks run in order; checks that need a failed check are skipped."""

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
    """A check failed; the message is the reason, one sentence."""


class Skipped(Exception):
    """A check cannot run here; the message is the reason, one sentence."""


@dataclass(frozen=True)
class Check(Generic[S]):
    """A named check.

    run: raises Failed or Skipped.
    hint: how to fix a failure.
    needs: checks that must pass first.

    limit_s: time limit in seconds, multiplied on emulated CPUs.
    """

    name: str
    run: Callable[[S], None]
    hint: str
    needs: tuple[str, ...] = ()
    limit_s: float = 180.0


@dataclass(frozen=True)
class CheckResult:
    """Result of a check. reason, hint: empty for a passed check; hint is also empty for a skipped one."""

    name: str
    status: Status
    reason: str = ""
    hint: str = ""


def require(condition: object, reason: str) -> None:
    """Raise Failed with this reason when the condition is false."""
    if not condition:
        raise Failed(reason)


def results(checks: Sequence[Check[S]], subject: S) -> Iterator[CheckResult]:
    """Run the checks and yield each result. Raises only a request to stop."""
    passed: set[str] = set()
    for check in checks:
        result = _result(check, subject, passed)
        if result.status == "pass":
            passed.add(check.name)
        yield result


def _result(check: Check[S], subject: S, passed: set[str]) -> CheckResult:
    missing = [name for name in check.needs if name not in passed]
    if missing:
        return CheckResult(check.name, "skipped", f"{', '.join(missing)} did not pass")
    try:
        with _time_limit(check.limit_s * timeout_factor()):
            check.run(subject)
    except Skipped as skipped:
        return CheckResult(check.name, "skipped", str(skipped))
    except Failed as failed:
        return CheckResult(check.name, "fail", str(failed), check.hint)
    except RunInterrupted:
        raise
    except VtaxError as error:
        return CheckResult(
            check.name, "fail", ": ".join(filter(None, (error.what, error.where))), check.hint
        )
    except Exception as error:  # third-party code may raise anything
        return CheckResult(check.name, "fail", f"{type(error).__name__}: {error}", check.hint)
    return CheckResult(check.name, "pass")


@contextmanager
def _time_limit(limit_s: float) -> Iterator[None]:
    """Raise Failed in the block when the time limit is exceeded; works in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def time_limit_reached(*_: object) -> None:
        raise Failed(f"it did not end within {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, time_limit_reached)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
