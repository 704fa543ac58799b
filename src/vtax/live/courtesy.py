"""Who watches a run takes only CPU time that nothing else wants: SCHED_IDLE (sched(7)) while a run measures here."""

from __future__ import annotations

import os
from contextlib import suppress

from vtax.host.lock import is_measuring

_OWN = os.sched_getscheduler(0)  # as it was started, such as below `chrt --batch`


def must_yield() -> bool:
    """Whether a run measures on this host."""
    return is_measuring()


def yield_to_runs(yields: bool) -> None:
    """Put the calling process, of one thread, below everything else; or back.

    Back needs root, or a limit that allows it (setrlimit(2), RLIMIT_NICE): without, it stays where it is. A thread
    among others is no use: one that is put aside with Python's lock stops the others.
    """
    wanted = os.SCHED_IDLE if yields else _OWN
    with suppress(OSError):
        if os.sched_getscheduler(0) != wanted:
            os.sched_setscheduler(0, wanted, os.sched_param(0))
