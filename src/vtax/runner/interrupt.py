"""Ctrl-C, SIGTERM and SIGHUP as an exception in the right place: once, while working; never while cleaning up."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from vtax.errors import RunInterrupted
from vtax.host.deferred_interrupts import postpone

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_requests(message: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Within the block the first signal raises RunInterrupted in the main thread; later ones only say to wait.

    One that comes while a journal is left raises once everything in it is undone. What whoever started vtax had
    ignored (SIGHUP under nohup, SIGINT in the background of a script) stays ignored.
    The block is given a function to call before it cleans up: from then on no signal raises.
    message: told when a signal comes while cleaning up. The old handlers are put back at the end.
    """
    requested = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        request = RunInterrupted(f"stopped on request ({signal.Signals(number).name})", signal=number)
        if not requested and not postpone(request):
            requested = True
            raise request
        requested = True
        message("taking everything down, a moment ...")

    def ignore_further() -> None:
        nonlocal requested
        requested = True

    left_alone = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in _SIGNALS if number not in left_alone}
    try:
        yield ignore_further
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
