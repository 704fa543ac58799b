"""Clean-up that no request to stop breaks off: the request waits until everything is undone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class _UnderWay:
    """How many clean-ups are under way, one within the other, and the request that came meanwhile."""

    depth = 0
    postponed: BaseException | None = None


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Within the block no request to stop raises; one that came is raised at the end of the outermost block."""
    _UnderWay.depth += 1
    try:
        yield
    finally:
        _UnderWay.depth -= 1
        if _UnderWay.depth == 0 and (request := _UnderWay.postponed):
            _UnderWay.postponed = None
            raise request


def postpone(request: BaseException) -> bool:
    """Have a request to stop raised once everything is undone; False when no clean-up is under way."""
    if _UnderWay.depth == 0:
        return False
    _UnderWay.postponed = request
    return True
