"""`vtax watch`: shows a run while it is measured, in another terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import click

from vtax.cli.arguments import run_argument
from vtax.host.home import Home

if TYPE_CHECKING:
    from vtax.live.state import LiveRun, LiveState
    from vtax.live.view import Widths
    from vtax.report.analysis import Analysis
    from vtax.report.renderers.language import Language

_PAUSE_S = 0.5


@click.command("watch")
@run_argument
def command(run_name: str) -> None:
    """Show RUN (default: the last run) while it is measured, and end with it.

    It shows block, guest, trial, time left, and after every block the ratios with their intervals.
    Without a terminal it prints one line per event. The command uses only idle CPU time, and reads
    the store once per block. Ctrl-C ends the watching, not the run.
    """
    from vtax.host.lock import is_measuring
    from vtax.live.scheduling import set_idle
    from vtax.live.state import LiveRun
    from vtax.report.renderers.language import of_reader

    home, reader_language = Home.existing(), of_reader()
    set_idle(is_measuring())
    display: _Shown = (
        _LiveScreen(reader_language) if sys.stdout.isatty() else _Events(reader_language)
    )
    with display:
        for state, results in _states(
            LiveRun(home.store_url, home, run_name), home, wants_results=display.has_results
        ):
            display.show(state, results)


class _Results:
    """Measurements of a run up to its last block, and the widths of intervals after the one before."""

    def __init__(self) -> None:
        self.analysis: Analysis | None = None
        self.before: Widths = {}
        self._blocks = -1

    def update(self, run: LiveRun, state: LiveState, home: Home) -> None:
        """Read the results again once a further block is complete."""
        from vtax.live.view import widths
        from vtax.report.analysis import analyse
        from vtax.store.store import Store

        if state.complete_blocks == self._blocks:
            return
        self.before = widths(self.analysis) if self.analysis else {}
        self._blocks = state.complete_blocks
        with Store.existing(home.store_url) as store:
            self.analysis = analyse(store, run.name)


def _states(
    run: LiveRun, home: Home, *, wants_results: bool
) -> Iterator[tuple[LiveState, _Results]]:
    """Yield every state that differs from the one before, the last one included."""
    results, change = _Results(), None
    while True:
        state = run.state()
        if state.change != change:
            change = state.change
            if wants_results:
                results.update(run, state, home)
            yield state, results
        if not state.is_running:
            return
        time.sleep(_PAUSE_S)


class _Shown:
    """A way to show states. has_results: whether it shows ratios."""

    has_results = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Nothing to close."""

    def show(self, state: LiveState, results: _Results) -> None:
        """Show a state."""
        raise NotImplementedError


class _Events(_Shown):
    """A line for every event, for logs and pipes; where there are none, for every change."""

    has_results = False

    def __init__(self, language: Language) -> None:
        from vtax.report.renderers.format import Formatter

        self._text = Formatter(language).text
        self._seen: tuple[float, int] = (0.0, 0)

    def show(self, state: LiveState, results: _Results) -> None:
        """Print what is new."""
        from vtax.live.view import happened, progress

        new = [event for event in state.events if (event.at, event.number) > self._seen]
        for event in new:
            if event.name != "trial_starting":
                click.echo(f"{state.run}: {self._text(happened(event))}")
            self._seen = (event.at, event.number)
        if not new or new[-1].name in ("trial_ended", "ended"):
            click.echo(f"{state.run}: {self._text(progress(state))}")


class _LiveScreen(_Shown):
    """The whole state in one place of a terminal, drawn again on every change."""

    def __init__(self, language: Language) -> None:
        from rich.console import Console
        from rich.live import Live

        self._language = language
        # sys.stdout takes no cursor movement; every text of a document is cleaned where it enters
        self._console = Console(file=sys.__stdout__, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, state: LiveState, results: _Results) -> None:
        """Draw it."""
        from vtax.live.view import document
        from vtax.report.renderers.terminal import drawn

        screen = document(state, results.analysis, results.before)
        self._live.update(drawn(screen, self._console, self._language), refresh=True)
