"""Progress of a run: a bar with the estimated time left on a terminal, a plain line every 10 s elsewhere."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self, cast

from vtax.benchmarks.printed import Printed
from vtax.cli.output import notify
from vtax.cli.streams import StandardError
from vtax.foreign_text import one_line
from vtax.report.document import scale_for
from vtax.report.renderers.numbers import mean_and_half_width
from vtax.runner.events import EndedTrial, Figure, Observer, Progress
from vtax.stats.terms import MINIMUM_BLOCKS
from vtax.units import format_duration

if TYPE_CHECKING:
    from vtax.report.document import Document
    from vtax.store.run import RunHandle

LINE_EVERY_S = 10.0  # where there is no terminal
_TIMES_APART = 30.0  # as long as it takes, the time until the matrix is computed again


def block_text(progress: Progress) -> str:
    """Return the position of a run: `block 2/5`."""
    return f"block {progress.block + 1}/{progress.blocks}"


def done_text(progress: Progress) -> str:
    """Return `5/336`: of the measured trials; nothing before the first one, since warm-up trials are not counted."""
    return f"{progress.done_trials}/{progress.total_trials}" if progress.done_trials else ""


def figure_text(figure: Figure | None) -> str:
    """Return a value in the unit of the tables, with the digits that its tool tells: `10.5 Gbit/s`."""
    if figure is None:
        return ""
    value, unit = figure
    scale = scale_for(unit, [value])
    step = value.step if isinstance(value, Printed) else 0.0
    mean_text, _ = mean_and_half_width(value, math.inf, scale, step)
    return f"{mean_text} {scale.unit}"


def observer(run: RunHandle) -> PlainProgress | BarProgress:
    """Return the observer of a run for stderr: a bar and the matrix so far on a terminal, else plain lines."""
    stream = sys.stderr
    if isinstance(stream, StandardError) and stream.isatty():
        return BarProgress(stream, MatrixSoFar(run))
    return PlainProgress()


class MatrixSoFar:
    """The matrix of a run while it is measured, with the verdicts that its rule allows at that look.

    It is computed between blocks, and not again until thirty times that long has passed, so that it takes a
    thirtieth of the run at most.
    """

    def __init__(self, run: RunHandle) -> None:
        self._run = run
        self._due_at = 0.0
        self.document: Document | None = None

    def refresh(self, blocks: int) -> None:
        """Compute it after so many whole blocks, where they are enough for a verdict and it is due."""
        start_s = time.monotonic()
        if blocks < MINIMUM_BLOCKS or start_s < self._due_at:
            return
        from vtax.report.analysis.result import analyse_data
        from vtax.report.answers.result.view import matrix_of
        from vtax.store.query import load

        self.document = matrix_of(analyse_data(load(self._run.engine, self._run)))
        end_s = time.monotonic()
        self._due_at = end_s + _TIMES_APART * (end_s - start_s)


class PlainProgress(Observer):
    """Prints the last trial every LINE_EVERY_S on stderr, and each that failed, for logs and pipes."""

    def __init__(self) -> None:
        self._due_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to close."""

    def message(self, text: str) -> None:
        """Print a message."""
        notify(text)

    def trial_ended(self, trial: EndedTrial) -> None:
        """Print the trial's outcome when a line is due, and in any case that it failed."""
        now = time.monotonic()
        if now < self._due_at and not trial.error:
            return
        self._due_at = now + LINE_EVERY_S
        progress, error = trial.progress, trial.error
        outcome = f"FAILED: {error.splitlines()[0]}" if error else figure_text(trial.figure)
        number = f"{progress.done_trials}/{progress.total_trials}"
        if progress.is_warmup:
            number = "warm-up"
        time_left = f"about {format_duration(progress.left_s)} left"
        where = f"[{block_text(progress)}, {number}] {trial.platform} {trial.what}"
        notify(f"{where}: {outcome} ({time_left})")


class BarProgress(PlainProgress):
    """A status line with a bar at the bottom of the terminal; failures and messages scroll above it.

    From the fifth block on the matrix stands below the line. Both are drawn on changes, not on a timer, which would
    disturb the measurement.
    """

    def __init__(self, stream: StandardError, matrix: MatrixSoFar | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__()
        self._stream = stream
        self._matrix = matrix
        self._below: list[str] = []
        self._console = Console(file=cast(IO[str], stream), highlight=False)
        where = TextColumn("{task.fields[where]}", markup=False, style="")
        count = TextColumn("{task.fields[count]}", markup=False, style="")
        now = TextColumn("{task.fields[now]}", markup=False, style="dim")
        self._bar = Progress(where, BarColumn(bar_width=28), count, now, console=self._console)
        self._task = self._bar.add_task("run", total=1, where="starting", count="", now="")

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.status_line("")

    def guest_starting(self, platform: str, block: int) -> None:
        """Show beside the bar that a guest starts."""
        self._draw(now=f"{platform}: starting a fresh guest")

    def guest_ready(self, platform: str, ready_s: float) -> None:
        """Show beside the bar that a guest is ready."""
        self._draw(now=f"{platform}: ready in {ready_s:.2f} s")

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        """Show the trial beside the bar."""
        self._draw(now=f"{platform}: {label} {levels}")

    def trial_ended(self, trial: EndedTrial) -> None:
        """Advance the bar; print a failure on its own line."""
        progress = trial.progress
        if trial.error:
            self.message(f"{trial.platform} {trial.what} failed: {trial.error.splitlines()[0]}")
        self._bar.update(self._task, completed=progress.done_trials, total=progress.total_trials)
        self._draw(
            where=block_text(progress) + (" warm-up" if progress.is_warmup else ""),
            count=f"{done_text(progress)}  about {format_duration(progress.left_s)} left".lstrip(),
        )

    def block_ended(self, block: int) -> None:
        """Refine the matrix below the bar."""
        if self._matrix is None:
            return
        self._matrix.refresh(block + 1)
        if self._matrix.document is not None:
            self._below = self._lines_of(self._matrix.document)
            self._draw()

    def _lines_of(self, document: Document) -> list[str]:
        """Return a document as lines of this terminal."""
        from vtax.report.renderers.language import of_reader
        from vtax.report.renderers.terminal import render

        with self._console.capture() as captured:
            render(document, self._console, of_reader())
        return captured.get().rstrip().splitlines()

    def _draw(self, **fields: str) -> None:
        lines = {name: one_line(text) for name, text in fields.items()}
        self._bar.update(self._task, **lines)  # type: ignore[arg-type]
        with self._console.capture() as captured:
            self._console.print(self._bar.get_renderable(), end="")
        bar = captured.get().partition("\n")[0]
        room = max(self._console.height - 2, 0)
        self._stream.status_line("\n".join([bar, *self._below[:room]]))
