"""What a run tells whoever watches it: a terminal, a log, a live page. Watching never changes the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Progress:
    """Where a run stands. left_s: estimate of the time left, from what was measured so far."""

    block: int
    blocks: int
    done_trials: int
    total_trials: int
    elapsed_s: float
    left_s: float


class Observer(Protocol):
    """Told of everything as it happens. Implementations must be quick and must not raise."""

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

    def trial_ended(self, platform: str, label: str, figure: str, error: str, progress: Progress) -> None:
        """A trial was committed. figure: its primary metric, formatted; error: why it failed, or empty."""
        ...


class Silent:
    """An observer that says nothing."""

    def message(self, text: str) -> None:
        """Nothing."""

    def guest_starting(self, platform: str, block: int) -> None:
        """Nothing."""

    def guest_ready(self, platform: str, ready_s: float) -> None:
        """Nothing."""

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        """Nothing."""

    def trial_ended(self, platform: str, label: str, figure: str, error: str, progress: Progress) -> None:
        """Nothing."""
