"""Time, CPU time and memory that a command takes, for programs here."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence

import cleanup


def usage_of(command: Sequence[str], **environment: str) -> tuple[float, float, float]:
    """Return (seconds, CPU seconds, peak MiB) of a command, whose output is dropped. environment: beside the usual.

    Python keeps compiled modules, as for users; the first call makes them. Raises SystemExit where it fails.
    """
    all_of_it = {**cleanup.environment(), **environment, "PYTHONDONTWRITEBYTECODE": ""}
    started = time.perf_counter()
    child = subprocess.Popen(command, env=all_of_it, stdout=subprocess.DEVNULL)
    try:
        _, status, usage = os.wait4(child.pid, 0)
    except BaseException:
        child.kill()
        raise
    if status:
        raise SystemExit(f"{' '.join(command)} failed with {status}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
