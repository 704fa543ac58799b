"""How long `vtax --help` takes, from the start of the process to its end: the median of many, one after another.

    .venv/bin/python bench/help_time.py [--rounds 30]

The promise (docs/promises.md): at most 0.15 s. Exits 1 when it is broken.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

import cleanup

LIMIT_S = 0.15


def once(arguments: list[str]) -> float:
    """Seconds of one `vtax` command."""
    started_at = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "vtax", *arguments], check=True, stdout=subprocess.DEVNULL
    )
    return time.monotonic() - started_at


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    once(["--help"])  # compiles what was not compiled yet
    times = sorted(once(["--help"]) for _ in range(arguments.rounds))
    median = statistics.median(times)
    print(
        f"vtax --help, {arguments.rounds} times: median {median:.3f} s, {times[0]:.3f} to {times[-1]:.3f} s "
        f"(at most {LIMIT_S:g})"
    )
    return int(median > LIMIT_S)


if __name__ == "__main__":
    cleanup.run(main)
