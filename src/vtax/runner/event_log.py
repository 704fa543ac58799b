"""Events of the run that measures, for those who watch it: lines of JSON in `VTAX_HOME/events.jsonl`.

The runner appends a line and waits for nobody: no fsync, no lock, no reader. The lines are written whether anybody
watches or not. One run measures on a host at a time, so there is one file, which the next run replaces. It grows to
MAX_BYTES and a line, then begins anew with the last trial and the guest that runs. Where it cannot be written it is
removed, and those who watch read the store instead: that costs the watching, not the run.

The first line names the run, and has an `id` of its own, by which a reader knows that the file began anew. Each other
line is an event of `Observer` by its name, with its arguments and the Unix time `at`; the last one is `ended`.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from vtax.foreign_text import one_line
from vtax.messages import Note, packed
from vtax.runner.events import EndedTrial, Observer

MAX_BYTES = 4 << 20
_MODE = 0o644  # less the umask, as the store: whoever may read that may read this
_LONGEST = 500  # characters of a text of guests and tools


class EventLog(Observer):
    """An observer that writes every event to a file, which it makes at the first one."""

    def __init__(self, path: Path, run: str, identity: str) -> None:
        self._path = path
        self._run = {"run": run, "identity": identity}
        self._descriptor: int | None = None
        self._bytes = 0
        self._guest: list[dict[str, Any]] = []  # events of the guest that runs
        self._trial: list[dict[str, Any]] = []  # the end of the last one

    def message(self, text: str) -> None:
        """Write this event."""
        self._write("message", text=one_line(text, _LONGEST))

    def guest_starting(self, platform: str, block: int) -> None:
        """Write this event."""
        self._guest = []
        self._guest = [self._write("guest_starting", platform=platform, block=block)]

    def guest_ready(self, platform: str, ready_s: float) -> None:
        """Write this event."""
        self._guest.append(self._write("guest_ready", platform=platform, ready_s=ready_s))

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        """Write this event."""
        self._write("trial_starting", platform=platform, label=label, levels=levels)

    def trial_ended(self, trial: EndedTrial) -> None:
        """Write this event."""
        value, unit = trial.figure or (None, "")
        outcome = {"value": value, "unit": unit, "error": _short(trial.error)}
        self._trial = [
            self._write(
                "trial_ended",
                platform=trial.platform,
                label=trial.label,
                levels=trial.levels,
                **outcome,
                **vars(trial.progress),
            )
        ]

    def ended(self, status: str, because: str) -> None:
        """Write that the run ended, once the store says so, and close the file. Never fails."""
        with suppress(OSError):
            self._write("ended", status=status, because=_short(because))
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, event: str, **data: Any) -> dict[str, Any]:
        """Write an event, and return it. A file that cannot be written on is removed: what it says is out of date."""
        record = {"event": event, "at": time.time(), **data}
        try:
            if self._descriptor is None or self._bytes > MAX_BYTES:
                self._begin()
            self._append(record)
        except OSError:
            with suppress(OSError):
                self._path.unlink()
            raise
        return record

    def _begin(self) -> None:
        """Make a new file in the place of the old one, with what is known of the run."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor, self._bytes = os.open(self._path, flags, _MODE), 0
        self._append({"event": "run", "at": time.time(), "id": secrets.token_hex(8), **self._run})
        for record in (*self._trial, *self._guest):
            self._append(record)

    def _append(self, record: dict[str, Any]) -> None:
        assert self._descriptor is not None
        line = json.dumps(record).encode() + b"\n"
        written = os.write(self._descriptor, line)
        self._bytes += written
        if written < len(line):
            raise OSError(errno.ENOSPC, "no space left for the events of the run", str(self._path))


def _short(text: str) -> str:
    """Return a text as it is kept, on one line; of a long note only its words."""
    note = packed(text)
    return note if len(note) <= _LONGEST and isinstance(text, Note) else one_line(text, _LONGEST)
