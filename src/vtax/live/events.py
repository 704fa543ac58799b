"""Reads the events of the run that measures, as `runner.event_log` writes them, and what has been read adds up to.

The file is read from where the last reading ended. Texts in it come from guests and tools: they are cleaned again.
"""

from __future__ import annotations

import math
import os
import stat
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vtax.foreign_data import parse_json
from vtax.foreign_text import one_line
from vtax.messages import restored

KEPT = 200
"""How many events a state holds, the newest ones."""
_MAX_READ = 8 << 20  # bytes of one reading; the runner's file is half as large
_LONGEST = 500
_NUMBERS = (
    "at",
    "block",
    "blocks",
    "done_trials",
    "failed_trials",
    "total_trials",
    "elapsed_s",
    "left_s",
    "ready_s",
    "value",
)


@dataclass(frozen=True)
class Event:
    """Something that happened in a run. name: of the method of `runner.events.Observer`, or `ended`. at: Unix time.

    data: the arguments of the event by their names; of the end of a trial its levels, too. number: counts the events
    of a file from 1.
    """

    name: str
    at: float
    data: dict[str, Any]
    number: int


@dataclass(frozen=True)
class RunProgress:
    """Where a run is.

    block: from 0, below it before the first one; None before the first guest. blocks, total_trials: planned, None
    where unknown. done_trials, failed_trials: measured ones of all sessions. elapsed_s, left_s: as of the last trial.
    guest: `starting`, `ready`, or empty between guests. trial: (label, levels) of the one that runs.
    """

    block: int | None = None
    blocks: int | None = None
    done_trials: int = 0
    failed_trials: int = 0
    total_trials: int | None = None
    elapsed_s: float | None = None
    left_s: float | None = None
    platform: str = ""
    guest: str = ""
    ready_s: float | None = None
    trial: tuple[str, str] | None = None


@dataclass
class RunEvents:
    """State of a run by the file of events. run, identity: of the run. ended: (status, why) once it has."""

    run: str = ""
    identity: str = ""
    progress: RunProgress = field(default_factory=RunProgress)
    ended: tuple[str, str] | None = None
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=KEPT))
    count: int = 0


class EventReader:
    """Follows the file of events. read(): what is known now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._id: tuple[int, bytes] = (0, b"")
        self._offset = 0
        self._found = RunEvents()

    def read(self) -> RunEvents:
        """Read what was added. What is absent, or no file, has no events."""
        try:
            descriptor = os.open(
                self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            )
        except OSError:
            self._restart((0, b""))
            return self._found
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
                self._restart((0, b""))
                return self._found
            identity = (status.st_ino, os.pread(descriptor, 200, 0).partition(b"\n")[0])
            if identity != self._id or status.st_size < self._offset:
                self._restart(identity)
            data = os.pread(descriptor, _MAX_READ, self._offset)
        finally:
            os.close(descriptor)
        complete_bytes = data.rfind(b"\n") + 1
        self._offset += complete_bytes
        for line in data[:complete_bytes].splitlines():
            self._add(line)
        return self._found

    @property
    def change(self) -> tuple[bytes, int]:
        """A value that differs after every event."""
        return self._id[1], self._offset

    def _restart(self, identity: tuple[int, bytes]) -> None:
        self._id, self._offset, self._found = identity, 0, RunEvents()

    def _add(self, line: bytes) -> None:
        record = _record(line)
        name = record.pop("event", "")
        at = record.pop("at", 0.0)
        if name == "run":
            self._found.run, self._found.identity = (
                record.get("run", ""),
                record.get("identity", ""),
            )
        elif name in _APPLIED:
            self._found.count += 1
            if name == "ended":
                self._found.ended = (
                    record.get("status", ""),
                    restored(str(record.get("because", ""))),
                )
            self._found.progress = _APPLIED[name](self._found.progress, record)
            self._found.events.append(Event(name, at, record, self._found.count))


def _record(line: bytes) -> dict[str, Any]:
    """Return a line as an object of cleaned texts and finite numbers; empty when it is none."""
    try:
        value = parse_json(line)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    record: dict[str, Any] = {}
    for name, item in value.items():
        is_flag = isinstance(item, bool)
        if name in _NUMBERS:
            is_number = isinstance(item, int | float) and not is_flag and math.isfinite(item)
            record[name] = item if is_number else None
        elif isinstance(item, str):
            record[name] = one_line(item, _LONGEST)
        elif is_flag:
            record[name] = item
    record["at"] = record.get("at") or 0.0
    return record


def _guest_starting(now: RunProgress, data: dict[str, Any]) -> RunProgress:
    platform, block = data.get("platform", ""), data.get("block")
    return replace(now, platform=platform, guest="starting", ready_s=None, trial=None, block=block)


def _guest_ready(now: RunProgress, data: dict[str, Any]) -> RunProgress:
    return replace(
        now, platform=data.get("platform", ""), guest="ready", ready_s=data.get("ready_s")
    )


def _trial_starting(now: RunProgress, data: dict[str, Any]) -> RunProgress:
    return replace(
        now,
        platform=data.get("platform", ""),
        trial=(data.get("label", ""), data.get("levels", "")),
    )


def _trial_ended(now: RunProgress, data: dict[str, Any]) -> RunProgress:
    return replace(
        now,
        trial=None,
        block=data.get("block"),
        blocks=data.get("blocks"),
        done_trials=data.get("done_trials") or 0,
        failed_trials=data.get("failed_trials") or 0,
        total_trials=data.get("total_trials"),
        elapsed_s=data.get("elapsed_s"),
        left_s=data.get("left_s"),
    )


def _run_ended(now: RunProgress, data: dict[str, Any]) -> RunProgress:
    return replace(now, guest="", trial=None, left_s=None)


_APPLIED: Mapping[str, Callable[[RunProgress, dict[str, Any]], RunProgress]] = {
    "message": lambda now, data: now,
    "guest_starting": _guest_starting,
    "guest_ready": _guest_ready,
    "trial_starting": _trial_starting,
    "trial_ended": _trial_ended,
    "ended": _run_ended,
}
