"""Turns Ctrl-C, SIGTERM and SIGHUP into an exception: once during work, after a clean-up, never during it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from vtax.errors import RunInterrupted
from vtax.messages import Note

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Pending:
    """A request to stop that is not yet obeyed. depth: of running clean-ups. is_raised: it waits for none."""

    request: RunInterrupted | None = None
    is_raised = False
    depth = 0


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Within the block no request to stop raises; a deferred one is raised at the end of the outermost block."""
    _Pending.depth += 1
    try:
        yield
    finally:
        _Pending.depth -= 1
        if not _Pending.is_raised:
            insist()


def request_stop(request: RunInterrupted) -> None:
    """Raise a request to stop, at the end of the clean-up if one is running."""
    _Pending.request, _Pending.is_raised = request, False
    insist()


def insist() -> None:
    """Raise a request to stop again that came to nothing, before further work begins.

    Python prints and drops what a signal's handler raises while a finalizer or a callback of a library runs.
    """
    if _Pending.request is not None and _Pending.depth == 0:
        _Pending.is_raised = True
        raise _Pending.request


@contextmanager
def stop_requests(message: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Within the block the first signal raises RunInterrupted in the main thread; later ones only print a message.

    A signal during the clean-up of a journal raises after the clean-up. Signals that were ignored at the start of
    vtax (SIGHUP under nohup, SIGINT in the background of a script) stay ignored. The block gets a function to call
    before it cleans up: from then on no signal raises. message: called on a signal during clean-up. The old handlers
    are restored at the end.
    """
    requested = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested or _Pending.depth:
            message("cleaning up, please wait ...")
        if not requested:
            requested = True
            request_stop(
                RunInterrupted(Note("stopped", name=signal.Signals(number).name), signal=number)
            )

    def ignore_further() -> None:
        nonlocal requested
        requested = True
        _Pending.request = None

    before = {}
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, handle)
    try:
        yield ignore_further
    finally:
        _Pending.request = None
        for number, handler in before.items():
            signal.signal(number, handler)
