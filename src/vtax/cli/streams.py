"""Standard output and standard error of every command: escape sequences are filtered, stderr never blocks.

Only text, colours and the status line reach a terminal. Other escape sequences, from tools, guests, file names or
studies, are replaced. Writes to standard error never block: a thread writes them, and lines queue up while the reader
stalls. When the queue is full, lines are dropped and counted. A paused terminal or an unread pipe therefore delays
neither a measurement nor its clean-up. Writes to standard output block until their reader reads. Results are written
after the clean-up; a request to stop ends the wait.
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
from vtax.foreign_text import left_out, printable

MAX_QUEUED = 1000  # queued pieces of text (mostly lines) while the reader of standard error stalls
MAX_LINE_CHARS = 4000  # characters
ORDER_TIMEOUT_S = 1.0  # how long a result waits for the lines before it
_COLOURS = re.compile(r"(\x1b\[[0-9;]*m)")
_CLOSED_ERRNOS = (errno.EPIPE, errno.EIO, errno.EBADF)
_ERASE_LINE = "\r\x1b[K"
_ERASE_LINES = "\r\x1b[{}A\x1b[J"  # upwards, then all that is below


class Output(io.TextIOBase):
    """A stream over another one that filters control characters except tab and newline."""

    _unencodable = "replace"

    def __init__(self, under: TextIO) -> None:
        self._under = under
        self._descriptor = _descriptor_of(under)
        self._encoder = codecs.getincrementalencoder(self.encoding)(self._unencodable)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream below."""
        return getattr(self._under, "encoding", None) or "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """Error handler: an unencodable character is replaced by one character, so that tables stay aligned."""
        return "replace"

    def isatty(self) -> bool:
        """Return whether the stream below is a terminal."""
        return self._under.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the stream below. Raises OSError when it has none."""
        return self._under.fileno()

    def writable(self) -> bool:
        """Return true, always."""
        return True

    def write(self, text: str) -> int:
        """Write text with lines of bounded length."""
        if not isinstance(text, str):
            raise TypeError("text is written here, not bytes")
        if text:
            self._put(bounded_lines(printable(text.replace("\r\n", "\n"))))
        return len(text)

    def write_document(self, text: str) -> None:
        """Write text with colours and lines of any length: tables and documents."""
        self._put(coloured(text))

    def _encoded(self, text: str) -> bytes:
        """Return the bytes of the next piece of text; the first has the encoding's byte order mark, if there is one."""
        return self._encoder.encode(text)

    def _put(self, text: str) -> None:
        raise NotImplementedError


class StandardOutput(Output):
    """Standard output, for results. A write blocks until everything is written.

    Raises BrokenPipeError when the reader has closed it, VtaxError when a write fails.
    """

    def _put(self, text: str) -> None:
        drain(ORDER_TIMEOUT_S)
        try:
            if self._descriptor is None:
                self._under.write(text)
            else:
                _write_all(self._descriptor, self._encoded(text))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise VtaxError(
                f"the output cannot be written: {error.strerror or error}", where="stdout"
            ) from error

    def flush(self) -> None:
        """Flush the stream below; this class has no buffer."""
        if self._descriptor is None:
            self._under.flush()


class StandardError(Output):
    """Standard error, for progress and messages. Writes never block and never fail."""

    _unencodable = "backslashreplace"

    def __init__(self, under: TextIO) -> None:
        super().__init__(under)
        self._queue: SimpleQueue[str | Event | None] = SimpleQueue()
        self._dropped = 0
        self._status_line = ""
        self._drawn = ""
        self._writers: dict[
            int, Thread
        ] = {}  # process -> its writing thread: no thread outlives a fork

    def status_line(self, line: str) -> None:
        """Draw the status line, or several, below all other text; empty: erase it. For terminals.

        line: lines no wider than the terminal, and no more than it has.
        """
        self._status_line = coloured(line)
        if self._queue.empty():  # else the thread draws it after the queued text
            self._enqueue("")

    def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until everything is written, at most timeout_s (None: no limit); whether everything is."""
        if os.getpid() not in self._writers:
            return True
        self._note_dropped()
        all_written = Event()
        self._queue.put(all_written)
        return all_written.wait(timeout_s)

    def end(self) -> None:
        """End the thread after everything is written."""
        self._writers.pop(os.getpid(), None)
        self._queue.put(None)

    def _put(self, text: str) -> None:
        if self._descriptor is None:
            with suppress(OSError, ValueError):
                self._under.write(text)
                self._under.flush()
        elif self._queue.qsize() >= MAX_QUEUED:
            self._dropped += max(text.count("\n"), 1)
        else:
            self._note_dropped()
            self._enqueue(text)

    def _note_dropped(self) -> None:
        count, self._dropped = self._dropped, 0
        if count:
            self._enqueue(
                f"({count} {'line' if count == 1 else 'lines'} dropped: the reader was too slow)\n"
            )

    def _enqueue(self, text: str) -> None:
        if os.getpid() not in self._writers:
            writer = Thread(target=self._write_queued, name="vtax-stderr", daemon=True)
            if (
                self._writers.setdefault(os.getpid(), writer) is writer
            ):  # atomic: one thread writes, in order
                self._start(writer)
        self._queue.put(text)

    def _start(self, writer: Thread) -> None:
        try:
            writer.start()
        except BaseException:
            self._writers.pop(os.getpid(), None)
            raise

    def _write_queued(self) -> None:
        """Run the thread: write queued text and the status line. It takes no lock, so that fork(2) is safe."""
        while (piece := self._queue.get()) is not None:
            text, line = piece if isinstance(piece, str) else "", self._status_line
            if text or line != self._drawn:
                erased = _erase_sequence(self._drawn)
                self._drawn = line
                self._write(erased + text + line)
            if isinstance(piece, Event):
                piece.set()

    def _write(self, text: str) -> None:
        assert self._descriptor is not None
        try:
            _write_all(self._descriptor, self._encoded(text))
        except OSError as error:
            if error.errno in _CLOSED_ERRNOS:
                discard(self._descriptor)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Within the block, sys.stdout and sys.stderr are StandardOutput and StandardError."""
    before = sys.stdout, sys.stderr
    errors = StandardError(sys.stderr)
    sys.stdout, sys.stderr = StandardOutput(sys.stdout), errors
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        errors.end()


def drain(timeout_s: float | None = None) -> bool:
    """Wait until standard error is written, at most timeout_s (None: no limit); whether it is."""
    return sys.stderr.drain(timeout_s) if isinstance(sys.stderr, StandardError) else True


class _DocumentStream(io.TextIOBase):
    """Standard output for laid-out text: colours and lines of any length pass."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of standard output."""
        return getattr(sys.stdout, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Return whether standard output is a terminal."""
        return sys.stdout.isatty()

    def write(self, text: str) -> int:
        """Write the whole text."""
        if isinstance(sys.stdout, Output):
            sys.stdout.write_document(text)
        else:
            sys.stdout.write(coloured(text))
        return len(text)

    def flush(self) -> None:
        """Flush standard output."""
        sys.stdout.flush()


def document_stream() -> IO[str]:
    """Return the stream for tables and documents."""
    return cast(IO[str], _DocumentStream())


def _erase_sequence(status: str) -> str:
    """Return what erases status lines, after which the cursor is where they began."""
    lines_below = status.count("\n")
    if lines_below:
        return _ERASE_LINES.format(lines_below)
    return _ERASE_LINE if status else ""


def coloured(text: str) -> str:
    """Return text without escape sequences except colours."""
    parts = _COLOURS.split(text)
    parts[::2] = map(printable, parts[::2])  # the others are colours
    return "".join(parts)


def bounded_lines(text: str) -> str:
    """Return text with lines of at most MAX_LINE_CHARS; omitted characters are counted."""
    if len(text) <= MAX_LINE_CHARS:
        return text
    lines = []
    for line in text.split("\n"):
        excess = len(line) - MAX_LINE_CHARS
        lines.append(line[:MAX_LINE_CHARS] + left_out(excess) if excess > 0 else line)
    return "\n".join(lines)


def discard(descriptor: int) -> None:
    """Redirect a standard stream to /dev/null, so that flushing it at exit cannot fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def _descriptor_of(stream: TextIO) -> int | None:
    """Return the file descriptor of a stream; None for one in memory, which never blocks."""
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def _write_all(descriptor: int, data: bytes) -> None:
    """Write everything, also to a slow reader of a non-blocking descriptor."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
