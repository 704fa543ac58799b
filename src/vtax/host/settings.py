"""Kernel settings below /proc/sys and /sys, changed for a while; old values are in the journal before the change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from vtax.errors import VtaxError
from vtax.host.journal import Journal, Registration
from vtax.host.resources import FileValue


def change(
    journal: Journal, settings: Iterable[tuple[Path, str, str]], refused: Callable[[Path, OSError], VtaxError]
) -> list[Registration]:
    """Set what is not set yet; returns what to put back, see `put_back`.

    settings: file, value in force, wanted value. refused: what to raise, having undone its part, when the kernel
    does not take a value.
    """
    changed: list[Registration] = []
    for path, before, wanted in settings:
        if before == wanted:
            continue
        changed.append(journal.register(FileValue(str(path), before)))
        try:
            path.write_text(wanted)
        except OSError as error:
            put_back(changed)
            raise refused(path, error) from error
    return changed


def put_back(changed: list[Registration]) -> None:
    """Put old values back, last changed first. Raises OSError when one cannot be; it stays in the journal."""
    for registered in reversed(changed):
        registered.release()
