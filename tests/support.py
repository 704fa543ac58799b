"""What tests need to say about the machine they run on. Import it as `from support import needs_root`."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from vtax.errors import VtaxError
from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.host.lock import HOST_LOCK, measuring_process, open_lock, wait_for_lock
from vtax.host.process import find_program
from vtax.host.waiting import wait_until

Found = TypeVar("Found")

needs_root = pytest.mark.root
"""Skipped for an ordinary user; tests/run runs those of tests/unit, tests/scenarios and tests/security once as root."""


def needs_program(*names: str) -> pytest.MarkDecorator:
    """Skip, naming what is missing, unless every program is installed (the sbin directories count)."""
    missing = [name for name in names if find_program(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@contextmanager
def alone_on_host(
    wait_s: float,
    notify: Callable[[str], None],
    measuring: Path = HOST_LOCK,
    testing: Path = Path("/run/vtax-testing.lock"),
) -> Iterator[None]:
    """Be the only test of real guests here, after what measures has ended; go on after wait_s in any case.

    notify: called with a line before waiting. measuring, testing: the locks.
    """

    def other() -> str:
        name, pid = measuring_process(path=measuring)
        return f"{name} (process {pid})" if pid not in (None, os.getpid()) else ""

    lock = open_lock(testing)
    try:
        with suppress(VtaxError):
            wait_for_lock(lock, "tests guests on this host", notify, wait_s)
        if holder := other():
            notify(f"waiting for {holder}, which measures on this host, for at most {wait_s:.0f} s")
            wait_until(lambda: not other(), wait_s, 1.0)
        yield
    finally:
        os.close(lock)


def of_process(entry: Path, name: str = "cmdline") -> bytes:
    """A file of a process in /proc, which may end at any moment: empty when it has."""
    try:
        return (entry / name).read_bytes()
    except OSError:
        return b""


def allowed_cpus(threads: Iterable[int]) -> dict[int, frozenset[int]]:
    """Where each thread may run, of those that have not ended meanwhile."""
    allowed = {}
    for thread in threads:
        try:
            allowed[thread] = frozenset(os.sched_getaffinity(thread))
        except OSError:
            continue
    return allowed


def clock_keeps_pace(guest: Guest, seconds: int = 2) -> None:
    """Assert that a guest's clock runs as fast as the host's, as far as two exchanges with it can tell.

    Each reading is right within half its round trip, whatever the load; what two of them leave open is allowed, and
    a thousandth of the time between them.
    """
    first = guest.clock()
    guest.run(["sleep", str(seconds)])
    second = guest.clock()
    outside_s = second.outside_s - first.outside_s
    unknown_s = (first.round_trip_s + second.round_trip_s) / 2
    assert unknown_s < outside_s / 4
    assert abs(second.inside_s - first.inside_s - outside_s) <= unknown_s + 0.001 * outside_s


def undisturbed(
    measure: Callable[[], Found], *, reaches: Callable[[Found], bool], attempts: int = 6
) -> Found:
    """Measure again until it reaches what other work on this host can only hinder; the last that was found."""
    found = measure()
    for _ in range(attempts - 1):
        if reaches(found):
            break
        found = measure()
    return found


def vtax(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A vtax command as a process of its own, to its end."""
    command = [sys.executable, "-m", "vtax", *arguments]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False
    )


def nothing_left(home: Home) -> bool:
    """Whether a home has neither a guest nor a journal."""
    return not any(home.guests.iterdir()) and not any(home.journal.iterdir())


def thorough(*cases: object) -> list[Any]:
    """Cases of a parameter that only --thorough runs, since another of their kind is among those of every day."""
    return [
        pytest.param(*case, marks=pytest.mark.thorough)
        if isinstance(case, tuple)
        else pytest.param(case, marks=pytest.mark.thorough)
        for case in cases
    ]
