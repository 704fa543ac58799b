"""Events of a run for observers: a terminal, a log, a live page. Observers never change the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Figure = tuple[float, str]
"""A value and its unit."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run.

    done_trials, failed_trials, total_trials: measured trials without warm-up, of all sessions, as in `vtax list`.
    is_warmup: the last trial was a warm-up trial.
    left_s: estimated time left in this boot, including warm-up.
    """

    block: int
    blocks: int
    done_trials: int
    total_trials: int
    elapsed_s: float
    left_s: float
    is_warmup: bool = False
    failed_trials: int = 0


@dataclass(frozen=True)
class EndedTrial:
    """A committed trial.

    levels: of its point, in words.
    figure: its primary metric; None without one.
    error: why it failed, or empty.
    progress: of the run.
    """

    platform: str
    label: str
    levels: str
    figure: Figure | None
    error: str
    progress: Progress

    @property
    def what(self) -> str:
        """Name what was measured: `netperf mtu=1500`."""
        return f"{self.label} {self.levels}".rstrip()


class Observer:
    """Is called on every event; this one ignores them. Others must be fast; one that raises is not called again."""

    def message(self, text: str) -> None:
        """Take a message of one line."""

    def guest_starting(self, platform: str, block: int) -> None:
        """Take note that a fresh guest is being started."""

    def guest_ready(self, platform: str, ready_s: float) -> None:
        """Take note that the agent of the guest is ready."""

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        """Take note of a trial before it begins. Others may begin before it is committed."""

    def trial_ended(self, trial: EndedTrial) -> None:
        """Take note of a committed trial."""

    def block_ended(self, block: int) -> None:
        """Take note that a block is whole and stored. No guest is measured until this returns. block: from 0."""


class SafeObserver(Observer):
    """Forwards events to other observers, each until it fails, so that a closed terminal does not fail the run."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = list(observers)

    def message(self, text: str) -> None:
        """Forward this event."""
        self._notify(lambda observer: observer.message(text))

    def guest_starting(self, platform: str, block: int) -> None:
        """Forward this event."""
        self._notify(lambda observer: observer.guest_starting(platform, block))

    def guest_ready(self, platform: str, ready_s: float) -> None:
        """Forward this event."""
        self._notify(lambda observer: observer.guest_ready(platform, ready_s))

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        """Forward this event."""
        self._notify(lambda observer: observer.trial_starting(platform, label, levels))

    def trial_ended(self, trial: EndedTrial) -> None:
        """Forward this event."""
        self._notify(lambda observer: observer.trial_ended(trial))

    def block_ended(self, block: int) -> None:
        """Forward this event."""
        self._notify(lambda observer: observer.block_ended(block))

    def _notify(self, call: Callable[[Observer], None]) -> None:
        for observer in tuple(self._observers):
            try:
                call(observer)
            except (Exception, SystemExit):  # rich exits the program when its pipe breaks
                self._observers.remove(observer)
