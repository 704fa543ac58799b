"""The scheduling class of what watches a run or serves its page: SCHED_IDLE (sched(7)) while one measures here."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_OWN = os.sched_getscheduler(0)  # as the process was started, such as below `chrt --batch`
_THREADS = Path("/proc/self/task")


def set_idle(is_idle: bool) -> None:
    """Put every thread of the calling process into SCHED_IDLE; or back into the class in which the process started.

    Every one, as libraries have threads of their own: OpenBLAS starts its when numpy is imported. Back needs root, or
    a limit that allows it (setrlimit(2), RLIMIT_NICE): without, they stay where they are.
    """
    policy = os.SCHED_IDLE if is_idle else _OWN
    for thread in [int(path.name) for path in _THREADS.iterdir()]:
        with suppress(OSError):  # also of a thread that has ended meanwhile
            if os.sched_getscheduler(thread) != policy:
                os.sched_setscheduler(thread, policy, os.sched_param(0))
