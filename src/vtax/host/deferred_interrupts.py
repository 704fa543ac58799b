"""Clean-up that requests to stop do not interrupt: they are deferred until it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class _CleanupState:
    """Nesting depth of running clean-ups, and the deferred request."""

    depth = 0
    postponed: BaseException | None = None


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Within the block no request to stop raises; a deferred one is raised at the end of the outermost block."""
    _CleanupState.depth += 1
    try:
        yield
    finally:
        _CleanupState.depth -= 1
        if _CleanupState.depth == 0 and (request := _CleanupState.postponed):
            _CleanupState.postponed = None
            raise request


def postpone(request: BaseException) -> bool:
    """Defer a request to stop to the end of the clean-up; False when no clean-up is running."""
    if _CleanupState.depth == 0:
        return False
    _CleanupState.postponed = request
    return True
