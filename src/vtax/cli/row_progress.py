"""Progress of a command that reads or copies rows of runs: a status line on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator

from vtax.cli.output import notify
from vtax.cli.streams import StandardError
from vtax.foreign_text import one_line
from vtax.store.transfer import Row, Watch

_EXAMINED = 2000  # rows from one look at the clock to the next
_FIRST_S, _TERMINAL_S, PLAIN_S = 1.0, 0.5, 10.0


class StatusLine:
    """A line of progress, in place on a terminal and a line now and then elsewhere.

    plain_first_s: seconds before the first line where there is no terminal; on one it is a second.
    """

    def __init__(self, plain_first_s: float = _FIRST_S) -> None:
        stream = sys.stderr
        self._terminal = stream if isinstance(stream, StandardError) and stream.isatty() else None
        self._due = time.monotonic() + (_FIRST_S if self._terminal else plain_first_s)

    @property
    def is_due(self) -> bool:
        """Whether it is time for another line."""
        return time.monotonic() >= self._due

    def show(self, line: str) -> None:
        """Print the line."""
        if self._terminal:
            self._terminal.status_line(line)
        else:
            notify(line)
        self._due = time.monotonic() + (_TERMINAL_S if self._terminal else PLAIN_S)

    def end(self) -> None:
        """Take the line off the terminal."""
        if self._terminal:
            self._terminal.status_line("")


def row_progress(what: str) -> Watch:
    """Return what shows how many rows were copied, for commands that last longer than a second.

    what: `exporting tour-3`, before each line.
    """

    def watch(verb: str, rows: Iterable[Row]) -> Iterator[Row]:
        status = StatusLine()
        try:
            for number, row in enumerate(rows):
                if number % _EXAMINED == 0 and number and status.is_due:
                    status.show(f"{one_line(what)}: {number} rows {verb}")
                yield row
        finally:
            status.end()

    return watch
