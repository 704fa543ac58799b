"""Ctrl-C and SIGTERM as an exception in the right place: once, while measuring; never while cleaning up."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from vtax.errors import RunInterrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_requests(message: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Within the block the first signal raises RunInterrupted in the main thread; later ones only say to wait.

    The block is given a function to call before it cleans up: from then on no signal raises.
    message: told when a signal comes while cleaning up. The old handlers are put back at the end.
    """
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            message("taking everything down, a moment ...")
            return
        asked = True
        raise RunInterrupted(f"stopped on request ({signal.Signals(number).name})", signal=number)

    def hold_off() -> None:
        nonlocal asked
        asked = True

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield hold_off
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
