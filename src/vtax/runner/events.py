"""What a run tells whoever watches it: a terminal, a log, a live page. Watching never changes the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

Figure = tuple[float, str]
"""A value and its unit."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands.

    done_trials, total_trials: measured ones, as `vtax list` counts them; warm-up trials come on top. is_warmup: the
    trial that has just ended is one of those. left_s: estimate of the time left, warm-up included, from what was
    done so far.
    """

    block: int
    blocks: int
    done_trials: int
    total_trials: int
    elapsed_s: float
    left_s: float
    is_warmup: bool = False


class Observer(Protocol):
    """Told of everything as it happens. Implementations must be quick; one that raises is not reported any more."""

    def message(self, text: str) -> None:
        """A remark worth a line."""
        ...

    def guest_starting(self, platform: str, block: int) -> None:
        """A fresh guest is being started."""
        ...

    def guest_ready(self, platform: str, ready_s: float) -> None:
        """Its agent answered."""
        ...

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        """A trial begins."""
        ...

    def trial_ended(self, platform: str, label: str, figure: Figure | None, error: str, progress: Progress) -> None:
        """A trial was committed. figure: its primary metric, None without one; error: why it failed, or empty."""
        ...


class NullObserver:
    """An observer that says nothing."""

    def message(self, text: str) -> None:
        """Nothing."""

    def guest_starting(self, platform: str, block: int) -> None:
        """Nothing."""

    def guest_ready(self, platform: str, ready_s: float) -> None:
        """Nothing."""

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        """Nothing."""

    def trial_ended(self, platform: str, label: str, figure: Figure | None, error: str, progress: Progress) -> None:
        """Nothing."""


class SafeObserver:
    """Tells another observer, and nobody once that has failed: a closed terminal or a full disk is no failed run."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def message(self, text: str) -> None:
        """Passed on."""
        with self._guarded() as observer:
            observer.message(text)

    def guest_starting(self, platform: str, block: int) -> None:
        """Passed on."""
        with self._guarded() as observer:
            observer.guest_starting(platform, block)

    def guest_ready(self, platform: str, ready_s: float) -> None:
        """Passed on."""
        with self._guarded() as observer:
            observer.guest_ready(platform, ready_s)

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        """Passed on."""
        with self._guarded() as observer:
            observer.trial_starting(platform, label, levels)

    def trial_ended(self, platform: str, label: str, figure: Figure | None, error: str, progress: Progress) -> None:
        """Passed on."""
        with self._guarded() as observer:
            observer.trial_ended(platform, label, figure, error, progress)

    @contextmanager
    def _guarded(self) -> Iterator[Observer]:
        try:
            yield self._observer
        except (Exception, SystemExit):  # rich exits the program when its pipe breaks
            self._observer = NullObserver()
