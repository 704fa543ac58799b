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
    make_error: Callable[[Path, OSError], VtaxError],
) -> list[Registration]:
    """Write the values that differ; returns registrations for `restore`.

    journal: registers the old values.
    settings: (file, effective value, wanted value).
    make_error: makes the error that is raised, after restoring, when the kernel rejects a value.
    """
    registrations: list[Registration] = []
    for path, before, value in settings:
        if before == value:
            continue
        registrations.append(journal.register(FileValue(str(path), before)))
        try:
            path.write_text(value)
        except OSError as error:
            restore(registrations)
            raise make_error(path, error) from error
    return registrations


def restore(registrations: list[Registration]) -> None:
    """Restore old values, last changed first. Raises OSError on failure; the value stays in the journal."""
    for registered in reversed(registrations):
        registered.release()
