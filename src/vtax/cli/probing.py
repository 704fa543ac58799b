"""Guests are not started just to see what runs while something measures: they would show in its figures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from vtax.errors import BadInput
from vtax.host.lock import measuring_lock


@contextmanager
def free_to_probe(name: str) -> Iterator[str]:
    """Give the block why guests must not be started now, or, when they may, "" and the host's measuring lock.

    name: of what probes, told to a run that would begin meanwhile. Without root no probe starts anything, and the
    lock is not asked for.
    """
    with ExitStack() as registered:
        why_not = ""
        if os.geteuid() == 0:
            try:
                registered.enter_context(measuring_lock(name))
            except BadInput as error:
                why_not = error.what
        yield why_not
