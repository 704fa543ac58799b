"""Standard output and standard error of every command: text of others is harmless, and nobody is waited for.

Two promises have their one place here. Nothing but text, colours and the foot of a terminal is ever written, whatever
a tool, a guest, a file name or a study holds: no other escape sequence passes. And nothing waits for who reads
standard error: a thread writes, and while the reader stalls, lines queue up, and then are dropped and counted. So a
paused terminal, or a pipe that nobody reads, costs neither a measurement nor its clean-up. Results, on standard
output, wait for their reader; they are written once everything is cleaned up, and a request to stop ends the wait.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Event, Thread
from typing import IO, TextIO, cast

from vtax.errors import VtaxError
from vtax.foreign_text import printable

MAX_WAITING = 1000  # pieces of text, nearly always lines, for a reader of standard error that stalls
LONGEST_LINE = 4000  # characters
IN_ORDER_S = 1.0  # how long a result waits for the lines before it, which another reader may hold up
_COLOURS = re.compile(r"(\x1b\[[0-9;]*m)")
_GONE = (errno.EPIPE, errno.EIO, errno.EBADF)
_ERASE_LINE = "\r\x1b[K"


class Output(io.TextIOBase):
    """A stream over another one that lets text pass, and no control character but tab and newline."""

    _unencodable = "replace"

    def __init__(self, under: TextIO) -> None:
        self._under = under
        self._descriptor = _descriptor_of(under)
        self._encoder = codecs.getincrementalencoder(self.encoding)(self._unencodable)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the stream below."""
        return getattr(self._under, "encoding", None) or "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """How a character is written that the encoding has not: as another, so that tables keep their shape."""
        return "replace"

    def isatty(self) -> bool:
        """Whether the stream below is a terminal."""
        return self._under.isatty()

    def fileno(self) -> int:
        """That of the stream below. Raises OSError when it has none."""
        return self._under.fileno()

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Text of which no line is endless."""
        if not isinstance(text, str):
            raise TypeError("text is written here, not bytes")
        if text:
            self._put(bounded_lines(printable(text.replace("\r\n", "\n"))))
        return len(text)

    def write_whole(self, text: str) -> None:
        """Text with colours, and with lines of any length: tables and documents."""
        self._put(coloured(text))

    def _encoded(self, text: str) -> bytes:
        """The bytes of the next piece of text; the first has the byte order mark, where the encoding has one."""
        return self._encoder.encode(text)

    def _put(self, text: str) -> None:
        raise NotImplementedError


class StandardOutput(Output):
    """Where results go. A write lasts until its reader has taken everything.

    Raises BrokenPipeError when nobody reads any more, VtaxError when it cannot be written.
    """

    def _put(self, text: str) -> None:
        drain(IN_ORDER_S)
        try:
            if self._descriptor is None:
                self._under.write(text)
            else:
                _write_all(self._descriptor, self._encoded(text))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise VtaxError(f"the output cannot be written: {error.strerror or error}", where="stdout") from error

    def flush(self) -> None:
        """Everything is written at once; nothing is kept back."""
        if self._descriptor is None:
            self._under.flush()


class StandardError(Output):
    """Where progress and messages go. Never waits, never fails."""

    _unencodable = "backslashreplace"

    def __init__(self, under: TextIO) -> None:
        super().__init__(under)
        self._queue: SimpleQueue[str | Event | None] = SimpleQueue()
        self._dropped = 0
        self._foot = ""
        self._drawn = ""
        self._thread: Thread | None = None

    def foot(self, line: str) -> None:
        """Draw a styled line below everything else, over the one before; empty: take it away. For terminals."""
        self._foot = coloured(line)
        if self._queue.empty():  # else the thread comes to it after what waits
            self._hand_over("")

    def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until everything is written, as long as that takes or for the time given; whether it is."""
        if self._thread is None or not self._thread.is_alive():
            return True
        self._note_dropped()
        written = Event()
        self._queue.put(written)
        return written.wait(timeout_s)

    def end(self) -> None:
        """Let the thread end, once everything is written."""
        self._queue.put(None)

    def _put(self, text: str) -> None:
        if self._descriptor is None:
            with suppress(OSError, ValueError):
                self._under.write(text)
                self._under.flush()
        elif self._queue.qsize() >= MAX_WAITING:
            self._dropped += max(text.count("\n"), 1)
        else:
            self._note_dropped()
            self._hand_over(text)

    def _note_dropped(self) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self._hand_over(f"({dropped} {'line' if dropped == 1 else 'lines'} dropped: nobody read them in time)\n")

    def _hand_over(self, text: str) -> None:
        if self._thread is None or not self._thread.is_alive():  # no thread outlives a fork
            self._thread = Thread(target=self._write_on, name="vtax-stderr", daemon=True)
            self._thread.start()
        self._queue.put(text)

    def _write_on(self) -> None:
        """The thread: whatever waits, and the foot below it. It holds no lock, so that any process may be forked."""
        while (piece := self._queue.get()) is not None:
            text, foot = piece if isinstance(piece, str) else "", self._foot
            if text or foot != self._drawn:
                erased = _ERASE_LINE if self._drawn else ""
                self._drawn = foot
                self._write(erased + text + foot)
            if isinstance(piece, Event):
                piece.set()

    def _write(self, text: str) -> None:
        assert self._descriptor is not None
        try:
            _write_all(self._descriptor, self._encoded(text))
        except OSError as error:
            if error.errno in _GONE:
                discard(self._descriptor)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Within the block sys.stdout and sys.stderr are these."""
    before = sys.stdout, sys.stderr
    errors = StandardError(sys.stderr)
    sys.stdout, sys.stderr = StandardOutput(sys.stdout), errors
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        errors.end()


def drain(timeout_s: float | None = None) -> bool:
    """Wait until standard error is written, as long as that takes or for the time given; whether it is."""
    return sys.stderr.drain(timeout_s) if isinstance(sys.stderr, StandardError) else True


class _WholeText(io.TextIOBase):
    """Standard output for what lays text out itself: colours pass, and lines of any length."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of standard output."""
        return getattr(sys.stdout, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Whether standard output is a terminal."""
        return sys.stdout.isatty()

    def write(self, text: str) -> int:
        """All of a text at once."""
        if isinstance(sys.stdout, Output):
            sys.stdout.write_whole(text)
        else:
            sys.stdout.write(coloured(text))
        return len(text)

    def flush(self) -> None:
        """As that of standard output."""
        sys.stdout.flush()


def whole_text() -> IO[str]:
    """Where tables and documents are written."""
    return cast(IO[str], _WholeText())


def coloured(text: str) -> str:
    """Text in which nothing but colours is an escape sequence."""
    return "".join(part if number % 2 else printable(part) for number, part in enumerate(_COLOURS.split(text)))


def bounded_lines(text: str) -> str:
    """Text no line of which is longer than LONGEST_LINE; what is left out is counted."""
    if len(text) <= LONGEST_LINE:
        return text
    return "\n".join(
        line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}… ({len(line) - LONGEST_LINE} characters more)"
        for line in text.split("\n")
    )


def discard(descriptor: int) -> None:
    """Send what is still to be written to a standard stream nowhere, so that its end cannot fail the program."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _descriptor_of(stream: TextIO) -> int | None:
    """The open file of a stream; None for one in memory, on which nobody can stall."""
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def _write_all(descriptor: int, left: bytes) -> None:
    """Everything, to a reader however slow, even where whoever opened it asked not to be kept waiting."""
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
