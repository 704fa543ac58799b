"""Calls of a function in a forked process, which limits on time and memory end.

Text of a guest may need hours in a regular expression, and Python stops one neither in a thread nor at a signal. The
process is forked once and serves all calls. It is idle between them, so that a call costs no start of a process. It
ends with the thread that forked it, also after a SIGKILL (prctl(2), PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import resource
import signal
import socket
import struct
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from vtax.errors import VtaxError

MEMORY_BYTES = 1 << 30
"""Address space of the process beyond what it had when it was forked."""
_MAX_ANSWER_BYTES = 16 << 20
_MAX_GROWTH_BYTES = 128 << 20  # of a process that serves a further call
_LENGTH = struct.Struct("!Q")
_PR_SET_PDEATHSIG = 1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class CallEnded(VtaxError):
    """A call was ended by a limit, or its process died. what: begins with a verb, such as `took more than 10 s`."""


class BoundedCalls:
    """A function, and the process that calls it.

    Arguments and values must be picklable. The process sees everything else as it was at the fork.
    """

    def __init__(self, function: Callable[..., Any], memory_bytes: int = MEMORY_BYTES) -> None:
        self._function = function
        self._memory_bytes = memory_bytes
        self._libc = ctypes.CDLL(None)
        self._stream: socket.socket | None = None
        self._pid = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self) -> None:
        """Fork the process, unless it is there."""
        if self._stream is not None:
            return
        parent_end, child_end = socket.socketpair()
        parent = os.getpid()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", DeprecationWarning
                )  # a thread beside it holds no locks (cli.streams)
                self._pid = os.fork()
            if self._pid == 0:
                self._be_child(child_end, parent)
            self._stream = parent_end
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            child_end.close()

    def call(self, *arguments: Any, timeout_s: float) -> Any:
        """Return the value of the function. Raises CallEnded; a request to stop ends the process and is passed on."""
        deadline = time.monotonic() + timeout_s
        request = pickle.dumps(arguments)
        self.start()
        assert self._stream is not None
        try:
            is_value, value, is_last = _exchange(self._stream, request, deadline)
        except TimeoutError as error:
            self.end()
            raise CallEnded(f"took more than {round(timeout_s, 1):g} s") from error
        except (EOFError, OSError) as error:
            raise CallEnded(f"ended with {_status_words(self.end())}") from error
        except BaseException:
            self.end()
            raise
        if is_last:
            self.end()
        if not is_value:
            raise CallEnded(value)
        return value

    def end(self) -> int:
        """Kill the process; returns its exit status, or minus the signal. The next call forks anew."""
        if self._stream is None:
            return 0
        self._stream.close()
        self._stream = None
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def _be_child(self, stream: socket.socket, parent: int) -> None:
        """Serve calls until the other end is closed. Never returns."""
        status = 1
        try:
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == parent:
                gc.freeze()  # what the parent has open is finalized by the parent alone
                os.setsid()  # Ctrl-C on the terminal is for the parent, which ends this
                for number in _SIGNALS:
                    signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                stream = _close_other_files(stream)
                pages = int(_first_line("/proc/self/statm").split()[0])
                limit = pages * resource.getpagesize() + self._memory_bytes
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                before = _peak_bytes()
                while request := _receive(stream, None):
                    stream.sendall(self._answer(request, before))
                status = 0
        finally:
            os._exit(status)

    def _answer(self, request: bytearray, before: int) -> bytes:
        """Return a frame of three: whether there is a value, the value or the reason, whether this process ends now."""
        try:
            value = self._function(*pickle.loads(request))
            data = pickle.dumps((True, value, _peak_bytes() - before > _MAX_GROWTH_BYTES))
            if len(data) <= _MAX_ANSWER_BYTES:
                return _LENGTH.pack(len(data)) + data
            why = f"returned more than {_MAX_ANSWER_BYTES >> 20} MiB"
        except MemoryError:
            why = f"needed more than {self._memory_bytes >> 20} MiB of memory"
        except BaseException as error:
            why = f"raised {type(error).__name__}: {error}"[:1000]
        data = pickle.dumps((False, why, True))
        return _LENGTH.pack(len(data)) + data


def _close_other_files(stream: socket.socket) -> socket.socket:
    """Close every file but a stream, and return that: locks, stores and journals are of the parent alone."""
    descriptor = os.dup2(stream.detach(), 3)
    os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.close(null)
    return socket.socket(fileno=descriptor)


def _exchange(stream: socket.socket, request: bytes, deadline: float) -> tuple[bool, Any, bool]:
    """Send a request and return the answer; see BoundedCalls._answer.

    Raises TimeoutError at the deadline, EOFError or OSError when the process is gone.
    """
    stream.settimeout(max(deadline - time.monotonic(), 0.001))
    stream.sendall(_LENGTH.pack(len(request)))
    stream.sendall(request)
    data = _receive(stream, deadline)
    if not data:
        raise EOFError
    answer: tuple[bool, Any, bool] = pickle.loads(data)
    return answer


def _receive(stream: socket.socket, deadline: float | None) -> bytearray:
    """Return one frame; empty at the end of the stream. Raises TimeoutError at the deadline (monotonic)."""
    head = _receive_bytes(stream, _LENGTH.size, deadline)
    return _receive_bytes(stream, _LENGTH.unpack(head)[0], deadline) if head else head


def _receive_bytes(stream: socket.socket, count: int, deadline: float | None) -> bytearray:
    data = bytearray(count)
    view, count_received = memoryview(data), 0
    while count_received < count:
        if deadline is not None:
            stream.settimeout(max(deadline - time.monotonic(), 0.001))
        read = stream.recv_into(view[count_received:])
        if not read:
            return bytearray()
        count_received += read
    return data


def _first_line(path: str) -> str:
    with open(path) as file:  # noqa: PTH123 - nothing else is needed in the child
        return file.readline()


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status_words(status: int) -> str:
    """Return an exit status, or a signal (negative), in words."""
    if status >= 0:
        return f"status {status}"
    return f"signal {-status} ({signal.Signals(-status).name})"
