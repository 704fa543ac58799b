"""Turns exceptions into failed trials: a misbehaving guest fails its trial, never the run.

Expected errors (VtaxError) and unexpected ones (KeyError in a parser) fail the trial with their cause; the run
continues. A request to stop (a BaseException) and StoreError are not contained, since a trial that cannot be stored
ends the run.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vtax.benchmarks.base import Benchmark
from vtax.errors import BenchmarkError, GuestError, StoreError, VtaxError
from vtax.foreign_text import clean
from vtax.messages import Note, at

_MAX_CAUSE_CHARS = 200
_MISSING = "no such program"  # of the agent's error
_MAX_TRACE_CALLS = 30  # calls


@dataclass
class Failure:
    """Why something failed; empty when it did not.

    error: the message. traceback: of an unexpected exception.
    """

    error: str = ""
    traceback: str = ""

    def __bool__(self) -> bool:
        return bool(self.error)


@contextmanager
def contained(failure: Failure, code: str = "", **data: str) -> Iterator[None]:
    """Turn every exception in the block into `failure`: its text, or the reason of a note of a code with data."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        failure.error = Note(code, reason=_text(error), **data) if code else _text(error)
        if not isinstance(error, VtaxError | OSError):
            calls = traceback.format_exception(error, limit=-_MAX_TRACE_CALLS)
            failure.traceback = clean("".join(calls), 1 << 16)


@contextmanager
def named_packages(benchmark: Benchmark) -> Iterator[None]:
    """Within the block, the error for a program that a machine lacks names the Debian packages of the benchmark."""
    try:
        yield
    except GuestError as error:
        if _MISSING not in error.what or not benchmark.packages:
            raise
        hint = Note("hint-install-tool", names=" ".join(benchmark.packages))
        raise BenchmarkError(error.what, hint=hint) from error


def _text(error: Exception) -> str:
    if isinstance(error, VtaxError) and isinstance(error.what, Note):
        return at(error.what, error.where, error.hint)
    if isinstance(error, VtaxError | OSError):
        return clean(str(error))
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"unexpected {cause(error)}{place}; the traceback is stored with the trial's outputs"


def cause(error: Exception) -> str:
    """Return an exception as one bounded text."""
    return clean(f"{type(error).__name__}: {error}", _MAX_CAUSE_CHARS)
