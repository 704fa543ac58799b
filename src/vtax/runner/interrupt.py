"""Ctrl-C, SIGTERM and SIGHUP as an exception in the right place: once, while working; never while cleaning up."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from vtax.errors import RunInterrupted
from vtax.host.undisturbed import postpone

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_requests(message: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Within the block the first signal raises RunInterrupted in the main thread; later ones only say to wait.

    One that comes while a journal is left raises once everything in it is undone. What whoever started vtax had
    ignored (SIGHUP under nohup, SIGINT in the background of a script) stays ignored.
    The block is given a function to call before it cleans up: from then on no signal raises.
    message: told when a signal comes while cleaning up. The old handlers are put back at the end.
    """
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        request = RunInterrupted(f"stopped on request ({signal.Signals(number).name})", signal=number)
        if not asked and not postpone(request):
            asked = True
            raise request
        asked = True
        message("taking everything down, a moment ...")

    def hold_off() -> None:
        nonlocal asked
        asked = True

    left_alone = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in _SIGNALS if number not in left_alone}
    try:
        yield hold_off
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
