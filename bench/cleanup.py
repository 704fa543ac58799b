"""How every program here ends and begins, so that none leaves anything behind: `run` starts it.

SIGTERM and SIGHUP unwind a program as Ctrl-C does. What it makes on the host is in a journal of VTAX_HOME and its
children carry its mark (`environment`), so `vtax clean`, or the next program here (`journal`), removes what is left
of one that was killed.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from vtax.errors import RunInterrupted, VtaxError
from vtax.host.home import Home
from vtax.host.interrupts import stop_requests
from vtax.host.journal import Journal, clean
from vtax.host.process import child_environment, start_time_of, tag_of_run
from vtax.host.resources import Tree


def run(main: Callable[[], int | None]) -> NoReturn:
    """Run a program and exit with its status: 0 for None, 128 + signal when it was asked to stop."""
    try:
        with stop_requests(_say):
            status = main() or 0
    except RunInterrupted as stop:
        _say(stop.what)
        status = stop.exit_status
    except VtaxError as error:
        _say(str(error))
        status = error.exit_status
    sys.exit(status)


@contextmanager
def journal() -> Iterator[Journal]:
    """The journal of a program, after removing what a killed one left. Undoes everything in it at the end."""
    home = Home.from_environment().ensure()
    for line in clean(home.journal).removed:
        _say(f"left by a killed program, removed: {line}")
    with Journal(home.journal) as made:
        yield made


@contextmanager
def directory(journal: Journal) -> Iterator[Path]:
    """An empty directory that goes at the end."""
    path = Home.from_environment().guests / f"vtax-{secrets.token_hex(3)}"
    registered = journal.register(Tree(str(path)))
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        registered.release()


def environment() -> dict[str, str]:
    """The environment of a child: it carries this process' mark."""
    return child_environment(tag=tag_of_run(os.getpid(), start_time_of(os.getpid())))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
