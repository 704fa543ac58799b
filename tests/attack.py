"""What attack programs share: seeds, limits of time and memory, and a count of what got through.

An attack is one hostile input. It may be refused with an error of the VtaxError family, or survived; a traceback of
any other kind, one that takes longer than LONGEST_S, and a process that grows by more than MOST_GROWTH are failures.
Every attack has a seed of its own, so that one that failed is made again by its number alone.
"""

from __future__ import annotations

import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from vtax.errors import RunInterrupted, VtaxError

LONGEST_S = 60.0
MOST_GROWTH = 200 << 20
_SHOWN = 5


class Hang(BaseException):
    """An attack took longer than LONGEST_S."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise Hang when what is inside takes longer. A timer that was set before goes on afterwards."""

    def hang(*_: object) -> None:
        raise Hang(f"longer than {seconds:g} s")

    started_at = time.monotonic()
    handler = signal.signal(signal.SIGALRM, hang)
    before_s, interval_s = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        left_s = max(before_s - (time.monotonic() - started_at), 0.001) if before_s else 0.0
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, left_s, interval_s)


def reset_peak() -> int:
    """Forget the peak memory of this process; returns its memory now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def peak() -> int:
    """The most memory this process had since `reset_peak`, in bytes."""
    return _memory("VmHWM")


def _memory(name: str) -> int:
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith(f"{name}:")
    )
    return int(line.split()[1]) * 1024


class Campaign:
    """Attacks of one kind, one after the other.

    count: how many. seed: of all of them. outcomes: how often each way to end was seen (`survived`, or the name of
    the error that refused it). slowest_s: of the attacks that ended.
    """

    def __init__(self, name: str, count: int, seed: int = 1) -> None:
        self.name = name
        self.count = count
        self.seed = seed
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []
        self.elapsed_s = 0.0
        self.slowest_s = 0.0
        self.growth = 0

    def run(self, attack: Callable[[Random], None]) -> None:
        """Make every attack; each gets random numbers of its own. One outside the campaign comes first: imports."""
        self._attack(attack, -1)
        self.outcomes.clear()
        self.slowest_s = 0.0
        before, started_at = reset_peak(), time.monotonic()
        for number in range(self.count):
            self._attack(attack, number)
        self.elapsed_s = time.monotonic() - started_at
        self.growth = peak() - before
        if self.growth > MOST_GROWTH:
            self.failures.append(f"memory grew by {self.growth >> 20} MiB")

    def _attack(self, attack: Callable[[Random], None], number: int) -> None:
        started_at = time.monotonic()
        try:
            with at_most(LONGEST_S):
                attack(Random(f"{self.seed}-{number}"))
            self.outcomes["survived"] += 1
        except (VtaxError, RunInterrupted) as error:
            self.outcomes[type(error).__name__] += 1
        except KeyboardInterrupt:
            raise
        except BaseException:
            self.failures.append(
                f"attack {number} of seed {self.seed}:\n{traceback.format_exc(limit=-12)}"
            )
        self.slowest_s = max(self.slowest_s, time.monotonic() - started_at)

    def figures(self) -> dict[str, Any]:
        """Everything that was counted, as JSON has it; the first failures as texts."""
        return {
            "program": self.name,
            "attacks": self.count,
            "seed": self.seed,
            "outcomes": self.outcomes,
            "failures": len(self.failures),
            "texts": self.failures[:_SHOWN],
            "elapsed_s": self.elapsed_s,
            "slowest_s": self.slowest_s,
            "growth": self.growth,
        }

    def __str__(self) -> str:
        """One line of figures."""
        ended = ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        return (
            f"{self.name}: {self.count} attacks in {self.elapsed_s:.0f} s, {len(self.failures)} failures, "
            f"memory +{self.growth / (1 << 20):.0f} MiB ({ended})"
        )

    def check(self) -> None:
        """Fail with the first failures when there were any."""
        assert not self.failures, f"{self}\n" + "\n".join(self.failures[:_SHOWN])
