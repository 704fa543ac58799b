"""Removal of the files of a guest that has ended, while the next one starts.

A file system may have each directory waited for, and a guest has dozens of them. The wait takes no CPU; so it is over
beside the start of the next guest, and before its first trial: nothing runs beside a trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from typing import Self

from vtax.host.journal import Registration


class Removals:
    """The removal that is under way, if there is one."""

    def __init__(self) -> None:
        self._registered: Sequence[Registration] = ()
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def begin(self, registered: Sequence[Registration]) -> None:
        """Begin to remove files that no process uses any more. They stay in the journal until `finish`."""
        self.finish()
        self._registered = tuple(registered)
        if registered:
            self._thread = Thread(target=_remove, args=(self._registered,), daemon=True)
            self._thread.start()

    def finish(self) -> None:
        """Wait for its end, and release the files in the journal, which removes what is left.

        What stays is reported when the journal is closed.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        registered, self._registered = self._registered, ()
        for one in registered:
            with suppress(Exception):
                one.release()


def _remove(registered: Sequence[Registration]) -> None:
    for one in registered:
        with suppress(Exception):  # its release in the journal tries again
            one.resource.remove()
