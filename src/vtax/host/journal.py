"""What vtax has made and must undo: written down before it is made, struck out after it is gone.

A journal is one append-only file of JSON lines, one file per vtax process, in `VTAX_HOME/journal`. A `hold` line is
written before a resource is made, a `gone` line after it was removed. A process that ends cleanly leaves an empty
list and deletes its file; a killed one leaves a file whose owner is dead, and `clean` undoes it, last made first.
A lost line cannot happen through SIGKILL, since the kernel has the bytes once write(2) returns; a power cut takes
the resources with it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from vtax.errors import VtaxError
from vtax.host.resources import Resource, from_record, to_record


def start_time_of(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot (proc(5), stat field 22); None when it is not alive."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


@dataclass
class Held:
    """A resource in the journal. `release` removes it and strikes it out; it may be called twice."""

    resource: Resource
    number: int
    journal: Journal
    released: bool = False

    def release(self) -> None:
        """Remove the resource, then strike it out. Errors leave it in the journal for `vtax clean`."""
        if not self.released:
            self.resource.remove()
            self.journal.strike(self)

    def forget(self) -> None:
        """Strike out a resource that is already gone (or was handed over) without removing it."""
        if not self.released:
            self.journal.strike(self)


class Journal:
    """The journal of this process. Use as a context manager: leaving it undoes whatever is still held.

    tell: given a sentence for everything that could not be undone when it is left, and stays for `vtax clean`.
    """

    def __init__(self, directory: Path, tell: Callable[[str], None] | None = None) -> None:
        self._tell = tell or _on_stderr
        self.token = secrets.token_hex(3)
        self.path = directory / f"{os.getpid()}-{start_time_of(os.getpid())}-{self.token}.jsonl"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        self._held: list[Held] = []
        self._next = 0

    def hold(self, resource: Resource) -> Held:
        """Write a resource down before it is made. Call this first, make it second.

        Raises VtaxError when that cannot be written, on a full disk.
        """
        held = Held(resource, self._next, self)
        self._next += 1
        self._write({"hold": held.number, **to_record(resource)})
        self._held.append(held)
        return held

    def strike(self, held: Held) -> None:
        """Note that a resource is gone; without room for the note, `clean` will look for it once more."""
        with suppress(VtaxError):
            self._write({"gone": held.number, "kind": held.resource.kind})
        held.released = True
        self._held.remove(held)

    @property
    def held(self) -> tuple[Resource, ...]:
        """What is held now, in the order it was made."""
        return tuple(held.resource for held in self._held)

    def release_all(self) -> list[str]:
        """Undo everything still held, last made first; returns what could not be undone."""
        problems = []
        for held in reversed(self._held.copy()):
            try:
                held.release()
            except (VtaxError, OSError) as error:
                problems.append(f"{held.resource}: {error}")
        return problems

    def close(self) -> list[str]:
        """Release everything and delete the file; a file with leftovers stays for `vtax clean`."""
        problems = self.release_all()
        os.close(self._file)
        if not problems:
            self.path.unlink(missing_ok=True)
        return problems

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for problem in self.close():
            self._tell(f"left behind: {problem.splitlines()[0]} (to do: sudo vtax clean)")

    def _write(self, record: dict[str, object]) -> None:
        """A line of its own: the newline before it keeps it apart from one that a full disk cut."""
        left = f"\n{json.dumps(record)}\n".encode()
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> VtaxError:
        cure = "free some space on that disk" if error.errno == errno.ENOSPC else ""
        return VtaxError(f"the journal cannot be written: {error.strerror}", where=str(self.path), cure=cure)


def _on_stderr(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Cleaned:
    """What `clean` did: descriptions of what was removed, and of what could not be."""

    removed: tuple[str, ...]
    problems: tuple[str, ...]


def clean(directory: Path, progress: Callable[[str], None] = lambda line: None) -> Cleaned:
    """Undo what dead vtax processes left, last made first. Journals of living processes are not touched."""
    removed: list[str] = []
    problems: list[str] = []
    for path in sorted(directory.glob("*.jsonl")) if directory.is_dir() else []:
        if not _left_by_the_dead(path):
            continue
        failed = False
        for record in reversed(_unreleased(path)):
            what = path.name
            try:
                resource = from_record(record)
                what = str(resource)
                if resource.remove():
                    removed.append(what)
                    progress(what)
            except (VtaxError, OSError) as error:
                failed = True
                problems.append(f"{what}: {error}")
        if not failed:
            path.unlink(missing_ok=True)
    return Cleaned(tuple(removed), tuple(problems))


def _left_by_the_dead(path: Path) -> bool:
    """Whether this is a journal, and of a process that is no more; any other file is not ours to judge."""
    owner = re.fullmatch(r"(\d+)-(\d+)-\w+", path.stem)
    return owner is not None and str(start_time_of(int(owner[1]))) != owner[2]


def _unreleased(path: Path) -> list[dict[str, Any]]:
    held: dict[int, dict[str, Any]] = {}
    for line in path.read_text(errors="replace").splitlines():
        with suppress(json.JSONDecodeError):
            record = json.loads(line)
            if "hold" in record:
                held[record["hold"]] = record
            else:
                held.pop(record["gone"], None)
    return list(held.values())
