"""The measuring lock for probes: a probe starts guests, which would disturb a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from vtax.errors import BadInput
from vtax.host.lock import measuring_lock


@contextmanager
def probing_lock(name: str) -> Iterator[str]:
    """Hold the measuring lock; yields "" or the reason why no guest may be started.

    name: of the probing command, shown to a run that starts meanwhile. Without root, probes start no guests and the
    lock is not taken.
    """
    with ExitStack() as stack:
        why_not = ""
        if os.geteuid() == 0:
            try:
                stack.enter_context(measuring_lock(name))
            except BadInput as error:
                why_not = error.what
        yield why_not
