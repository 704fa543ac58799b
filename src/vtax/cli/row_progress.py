"""Progress of a command that copies the rows of a run: a status line on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator

from vtax.cli.output import notify
from vtax.cli.streams import StandardError
from vtax.foreign_text import one_line
from vtax.store.transfer import Row, Watch

_EXAMINED = 2000  # rows from one look at the clock to the next
_FIRST_S, _TERMINAL_S, _PLAIN_S = 1.0, 0.5, 10.0


def row_progress(what: str) -> Watch:
    """What shows how many rows were copied, for commands that last longer than a second.

    what: `exporting tour-3`, before each line.
    """
    stream = sys.stderr
    terminal = stream if isinstance(stream, StandardError) and stream.isatty() else None

    def watch(done: str, rows: Iterable[Row]) -> Iterator[Row]:
        due = time.monotonic() + _FIRST_S
        try:
            for number, row in enumerate(rows):
                if number % _EXAMINED == 0 and number and time.monotonic() >= due:
                    line = f"{one_line(what)}: {number} rows {done}"
                    if terminal:
                        terminal.status_line(line)
                    else:
                        notify(line)
                    due = time.monotonic() + (_TERMINAL_S if terminal else _PLAIN_S)
                yield row
        finally:
            if terminal:
                terminal.status_line("")

    return watch
