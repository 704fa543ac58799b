"""Who watches a run takes only CPU time that nothing else wants: SCHED_IDLE (sched(7)) while a run measures here."""

from __future__ import annotations

import os
from contextlib import suppress

from vtax.host.lock import is_measuring


def yield_to_runs() -> None:
    """Put the calling thread below everything else while a run measures on this host; back when none does.

    Back needs root, or a limit that allows it (setrlimit(2), RLIMIT_NICE): without, the thread stays where it is.
    """
    wanted = os.SCHED_IDLE if is_measuring() else os.SCHED_OTHER
    with suppress(OSError):
        if os.sched_getscheduler(0) != wanted:
            os.sched_setscheduler(0, wanted, os.sched_param(0))
