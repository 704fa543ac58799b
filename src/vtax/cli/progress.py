"""How a run looks while it goes on: a bar with the time left on a terminal, one plain line a trial elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from vtax.cli.output import discard, tell
from vtax.report.document import scale_for
from vtax.report.renderers.numbers import number
from vtax.runner.events import Figure, Progress
from vtax.study.units import format_duration


def block_text(progress: Progress) -> str:
    """Where a run stands: `block 2/5`; blocks before the first one look for the warm-up."""
    return f"block {progress.block + 1}/{progress.blocks}" if progress.block >= 0 else "finding warm-up"


def figure_text(figure: Figure | None) -> str:
    """A value in the unit that the tables choose: `10.5 Gbit/s`."""
    if figure is None:
        return ""
    value, unit = figure
    scale = scale_for(unit, [value])
    return f"{number(value / scale.divisor)} {scale.unit}"


def observer() -> PlainProgress | BarProgress:
    """The right one for where stderr goes: a bar on a terminal, else plain lines."""
    return BarProgress() if sys.stderr.isatty() else PlainProgress()


class PlainProgress:
    """One line a trial on stderr, for logs and pipes."""

    def __init__(self) -> None:
        self._levels = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to take down."""

    def message(self, text: str) -> None:
        """A remark."""
        tell(text)

    def guest_starting(self, platform: str, block: int) -> None:
        """Said when it is ready."""

    def guest_ready(self, platform: str, ready_s: float) -> None:
        """A fresh guest answered."""
        tell(f"{platform}: fresh guest ready in {ready_s:.2f} s")

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        """Said when it ends, with these levels."""
        self._levels = levels

    def trial_ended(self, platform: str, label: str, figure: Figure | None, error: str, progress: Progress) -> None:
        """What it gave."""
        told = error.splitlines()[0] if error else figure_text(figure)
        kind = ", warm-up" if progress.is_warmup else ""
        where = f"[{block_text(progress)}, {progress.done_trials}/{progress.total_trials}{kind}]"
        left = f"about {format_duration(progress.left_s)} left"
        what = f"{label} {self._levels}".rstrip()
        tell(f"{where} {platform} {what}: {'FAILED: ' if error else ''}{told} ({left})")


class BarProgress:
    """A bar at the foot of the terminal; failures and remarks scroll above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = Console(stderr=True, highlight=False)
        self._bar = Progress(
            TextColumn("{task.fields[where]}"),
            BarColumn(bar_width=28),
            TextColumn("{task.completed}/{task.total}  {task.fields[left]}"),
            TextColumn("[dim]{task.fields[now]}[/dim]"),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("run", total=1, where="starting", left="", now="")
        self._escape = escape
        self._levels = ""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._bar.stop()
        except (OSError, SystemExit):  # the terminal is gone; rich exits the program when a pipe breaks
            discard(2)

    def message(self, text: str) -> None:
        """A remark above the bar."""
        self._console.print(text, markup=False)

    def guest_starting(self, platform: str, block: int) -> None:
        """Shown beside the bar."""
        self._bar.update(self._task, now=f"{platform}: starting a fresh guest")

    def guest_ready(self, platform: str, ready_s: float) -> None:
        """Shown beside the bar."""
        self._bar.update(self._task, now=f"{platform}: ready in {ready_s:.2f} s")

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        """Shown beside the bar."""
        self._levels = levels
        self._bar.update(self._task, now=self._escape(f"{platform}: {label} {levels}"))

    def trial_ended(self, platform: str, label: str, figure: Figure | None, error: str, progress: Progress) -> None:
        """Moves the bar; a failure gets a line of its own."""
        if error:
            what = f"{label} {self._levels}".rstrip()
            self.message(f"{platform} {what} failed: {error.splitlines()[0]}")
        self._bar.update(
            self._task,
            completed=progress.done_trials,
            total=progress.total_trials,
            where=block_text(progress) + (" warm-up" if progress.is_warmup else ""),
            left=f"about {format_duration(progress.left_s)} left",
        )
