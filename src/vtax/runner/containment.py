"""Whatever a guest does costs its trial, never the run: the one place where an exception becomes a failure.

A guest answers nonsense, renames an interface, prints what stops a parser: whether vtax foresaw it (VtaxError) or not
(KeyError), the trial fails with that cause and the run continues. Not contained: a request to stop, which is no
Exception, and StoreError, since a trial that cannot be stored must end the run.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import BenchmarkError, StoreError, VtaxError
from vtax.foreign_text import clean

_MAX_CAUSE_CHARS = 200
_MAX_TRACE_CALLS = 30  # calls


@dataclass
class Failure:
    """Why something failed; empty when it did not.

    error: for people. traceback: of an exception that vtax did not foresee.
    """

    error: str = ""
    traceback: str = ""

    def __bool__(self) -> bool:
        return bool(self.error)

    @property
    def is_unforeseen(self) -> bool:
        """Whether vtax does not know what happened, so that the guest cannot be believed any more."""
        return bool(self.traceback)


@contextmanager
def contained(failure: Failure, saying: str = "") -> Iterator[None]:
    """Turn every exception inside into `failure`. saying: the beginning of its text."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        failure.error = saying + _text(error)
        if not isinstance(error, VtaxError | OSError):
            failure.traceback = clean("".join(traceback.format_exception(error, limit=-_MAX_TRACE_CALLS)), 1 << 16)


@contextmanager
def parsing(tool: str) -> Iterator[None]:
    """Around whatever reads a tool's output: anything a parser stumbles over becomes a BenchmarkError."""
    try:
        yield
    except VtaxError:
        raise
    except Exception as error:
        raise BenchmarkError(f"{tool}'s output could not be parsed: {_cause(error)}") from error


def _text(error: Exception) -> str:
    if isinstance(error, VtaxError | OSError):
        return clean(str(error))
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"unexpected {_cause(error)}{place}; the traceback is stored with the trial's outputs"


def _cause(error: Exception) -> str:
    return clean(f"{type(error).__name__}: {error}", _MAX_CAUSE_CHARS)
