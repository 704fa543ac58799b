"""Changes kernel settings below /proc/sys and /sys temporarily; old values are registered in the journal first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from vtax.errors import VtaxError
from vtax.host.journal import Journal, Registration
from vtax.host.resources import FileValue


def change_settings(
    journal: Journal,
    settings: Iterable[tuple[Path, str, str]],
    refused: Callable[[Path, OSError], VtaxError],
) -> list[Registration]:
    """Write the values that differ; returns registrations for `restore`.

    journal: registers the old values.
    settings: (file, effective value, wanted value).
    refused: makes the error that is raised, after restoring, when the kernel rejects a value.
    """
    changed: list[Registration] = []
    for path, before, wanted in settings:
        if before == wanted:
            continue
        changed.append(journal.register(FileValue(str(path), before)))
        try:
            path.write_text(wanted)
        except OSError as error:
            restore(changed)
            raise refused(path, error) from error
    return changed


def restore(changed: list[Registration]) -> None:
    """Restore old values, last changed first. Raises OSError on failure; the value stays in the journal."""
    for registered in reversed(changed):
        registered.release()
