"""Turns Ctrl-C, SIGTERM and SIGHUP into an exception: once during work, never during clean-up."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from vtax.errors import RunInterrupted
from vtax.host.deferred_interrupts import postpone
from vtax.messages import Note

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Raised:
    """The request that was raised in the innermost block and is not yet obeyed."""

    request: RunInterrupted | None = None


def insist() -> None:
    """Raise a request to stop again that came to nothing, before further work begins.

    Python prints and drops what a signal's handler raises while a finalizer or a callback of a library runs.
    """
    if _Raised.request is not None:
        raise _Raised.request


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
        request = RunInterrupted(Note("stopped", name=signal.Signals(number).name), signal=number)
        if not requested and not postpone(request):
            requested = True
            _Raised.request = request
            raise request
        requested = True
        message("cleaning up, please wait ...")

    def ignore_further() -> None:
        nonlocal requested
        requested = True
        _Raised.request = None

    left_alone = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in _SIGNALS if number not in left_alone}
    try:
        yield ignore_further
    finally:
        _Raised.request = None
        for number, handler in before.items():
            signal.signal(number, handler)
