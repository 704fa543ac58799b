"""What vtax has made and must undo: written down before it is made, struck out after it is gone.

A journal is one append-only file of JSON lines in `VTAX_HOME/journal`, named after the process it belongs to, which
may have several, and the boot of the host. A `hold` line is written before a resource is made, a `gone` line after it
was removed. A process that ends cleanly leaves an empty list and deletes its file; a killed one leaves a file whose
owner is dead, and `clean` undoes what all of these hold, last made first. A lost line cannot happen through SIGKILL,
since the kernel has the bytes once write(2) returns. A reboot takes everything but files, a host daemon's containers
and what is on other machines with it, and what then has the same name is no longer ours.

What a killed process had run may go on and make the very thing that is being undone, so such programs are ended
first. They are found by their mark, which they carry only once they are executed; until then they keep the lock on
their parent's journal, as the kernel drops it when the last descriptor of the forked is closed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from vtax.errors import VtaxError
from vtax.host.deferred_interrupts import deferred_interrupts
from vtax.host.lock import wait_for_lock
from vtax.host.process import start_time_of, tag_of_run
from vtax.host.resources import Remote, Resource, TaggedProcesses, Tree, from_record, to_record
from vtax.host.trust import is_trusted_file, private_directory, refuse_foreign

_NOT_OURS = "it may hold anybody's commands, and none was run; look at it, then remove it, or vtax clean --forget"
_DAMAGED = "what they recorded is not removed; look at the file, then vtax clean --forget"
_OUTLIVE_A_BOOT = (Tree.kind, Remote.kind)
_FORKED_S = 5.0  # how long a program may take from fork to exec before it is taken for one that stays
_CLEAN_S = 120.0  # how long another clean may take
_MAX_BYTES = 256 << 20  # of a journal
_MAX_LINE_BYTES = 1 << 20  # bytes
_BEGINNINGS = (b'{"register": ', b'{"deregister": ', b'{"hold": ', b'{"gone": ')
_FORMER_KEYS = {"hold": "register", "gone": "deregister"}  # of a release before
_EXEC_S = 0.05  # what it takes an exec from closing descriptors until the environment can be read


@cache
def boot_id() -> str:
    """The kernel's name of this boot of the host, in 32 digits."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")


@dataclass
class Registration:
    """A resource in the journal. `release` removes it and strikes it out; it may be called twice."""

    resource: Resource
    number: int
    journal: Journal
    released: bool = False

    def release(self) -> None:
        """Remove the resource, then strike it out. Errors leave it in the journal for `vtax clean`."""
        if not self.released:
            self.resource.remove()
            self.journal.deregister(self)

    def forget(self) -> None:
        """Strike out a resource that is already gone (or was handed over) without removing it."""
        if not self.released:
            self.journal.deregister(self)


class Journal:
    """The journal of this process. Use as a context manager: leaving it undoes whatever is still held.

    tell: given a sentence for everything that could not be undone when it is left, and stays for `vtax clean`.
    """

    def __init__(self, directory: Path, notify: Callable[[str], None] | None = None) -> None:
        self._notify = notify or _on_stderr
        self.token = secrets.token_hex(3)
        owner = f"{os.getpid()}-{start_time_of(os.getpid())}"
        self.path = directory / f"{owner}-{self.token}-{boot_id()}.jsonl"
        private_directory(directory)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._registered: list[Registration] = []
        self._next = 0

    def register(self, resource: Resource) -> Registration:
        """Write a resource down before it is made. Call this first, make it second.

        Raises VtaxError when that cannot be written, on a full disk.
        """
        registered = Registration(resource, self._next, self)
        self._next += 1
        self._write({"register": registered.number, "at": time.monotonic_ns(), **to_record(resource)})
        self._registered.append(registered)
        return registered

    def deregister(self, registered: Registration) -> None:
        """Note that a resource is gone; without room for the note, `clean` will look for it once more."""
        with suppress(VtaxError):
            self._write({"deregister": registered.number, "kind": registered.resource.kind})
        registered.released = True
        self._registered.remove(registered)

    @property
    def registered(self) -> tuple[Resource, ...]:
        """What is held now, in the order it was made."""
        return tuple(registered.resource for registered in self._registered)

    def release_all(self) -> list[str]:
        """Undo everything still held, last made first; returns what could not be undone."""
        problems = []
        for registered in reversed(self._registered.copy()):
            try:
                registered.release()
            except (VtaxError, OSError) as error:
                problems.append(f"{registered.resource}: {error}")
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
        with deferred_interrupts():
            for problem in self.close():
                self._notify(f"left behind: {problem.splitlines()[0]} (hint: sudo vtax clean)")

    def _write(self, record: dict[str, object]) -> None:
        """A line of its own: the newline before it keeps it apart from one that a full disk cut."""
        left = f"\n{json.dumps(record)}\n".encode()
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> VtaxError:
        hint = "free some space on that disk" if error.errno == errno.ENOSPC else ""
        return VtaxError(f"the journal cannot be written: {error.strerror}", where=str(self.path), hint=hint)


def _on_stderr(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Cleaned:
    """What `clean` did: descriptions of what was removed, and of what could not be, each with the reason."""

    removed: tuple[str, ...]
    problems: tuple[str, ...]


def clean(directory: Path, notify: Callable[[str], None] | None = None, *, forget: bool = False) -> Cleaned:
    """Undo what dead vtax processes left, last made first. Journals of living processes are not touched.

    tell: given a sentence before a wait, as for another clean. forget: give up what cannot be undone, where it
    otherwise stays in the journal. Raises BadInput for a journal directory that others own or may change, since what
    is written there is executed, and VtaxError when another clean does not end.
    """
    removed: list[str] = []
    problems: list[str] = []
    if not directory.exists():
        refuse_foreign(directory)
        return Cleaned((), ())
    private_directory(directory)
    with _alone(directory, notify or _on_stderr):
        dead = [left for path in sorted(directory.glob("*.jsonl")) if (left := _journal_of_dead(path))]
        failed = {left.path for left in dead if not left.is_trusted}
        problems += [f"journal {path.name} is not of this user alone ({_NOT_OURS})" for path in sorted(failed)]
        _await_executed([left.path for left in dead if left.of_this_boot and left.is_trusted], notify or _on_stderr)
        records, damaged = _last_made_first(left for left in dead if left.is_trusted)
        failed.update(damaged)
        problems += [f"journal {path.name}: {problem} ({_DAMAGED})" for path, problem in damaged.items()]
        for record, left in records:
            what = left.path.name
            try:
                resource = from_record(record)
                what = str(resource)
                with deferred_interrupts():
                    was_there = resource.remove()
                    left.deregister(record.get("register"))
                if was_there:
                    removed.append(what)
            except (VtaxError, OSError) as error:
                failed.add(left.path)
                problems.append(f"{what}: {_in_one_line(error)}")
        for left in dead:
            if forget or left.path not in failed:
                left.path.unlink(missing_ok=True)
    return Cleaned(tuple(removed), tuple(problems))


@dataclass(frozen=True)
class _DeadJournal:
    """The journal of a dead process."""

    path: Path
    of_this_boot: bool
    programs: TaggedProcesses

    @property
    def is_trusted(self) -> bool:
        """Whether nobody but this user can have written it: a link, or a file of another, is nothing to execute."""
        with suppress(OSError):
            return is_trusted_file(self.path, self.path.lstat())
        return True  # it is gone

    def deregister(self, number: int | None) -> None:
        """Strike out what was undone, lest it is undone once more after somebody else made or set the same."""
        if number is not None:
            with suppress(OSError), self.path.open("a") as file:
                file.write(f'\n{{"deregister": {number}}}\n')


@contextmanager
def _alone(directory: Path, notify: Callable[[str], None]) -> Iterator[None]:
    """One clean at a time: two would take each other's things away under their hands."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wait_for_lock(descriptor, "cleans up in this home", notify, _CLEAN_S)
        yield
    finally:
        os.close(descriptor)


def _journal_of_dead(path: Path) -> _DeadJournal | None:
    """A journal of a process that is no more, None for any other file: that is not ours to judge.

    A name without a boot is taken for one of this boot.
    """
    name = re.fullmatch(r"(\d+)-(\d+)-\w+(?:-([0-9a-f]{32}))?", path.stem)
    if name is None:
        return None
    pid, start_time = int(name[1]), int(name[2])
    of_this_boot = name[3] in (None, boot_id())
    if of_this_boot and start_time_of(pid) == start_time:
        return None
    return _DeadJournal(
        path, of_this_boot, TaggedProcesses(tag_of_run(pid, start_time), f"vtax {pid}, which was killed")
    )


def _await_executed(paths: Sequence[Path], notify: Callable[[str], None]) -> None:
    """Wait until whatever the dead had forked carries its mark; one that stays is passed over."""
    deadline = time.monotonic() + _FORKED_S
    for path in paths:
        with suppress(FileNotFoundError, VtaxError), path.open("rb") as file:
            wait_for_lock(file.fileno(), "a killed vtax began", notify, deadline - time.monotonic())
    if paths:
        time.sleep(_EXEC_S)


def _last_made_first(
    dead: Iterable[_DeadJournal],
) -> tuple[list[tuple[dict[str, Any], _DeadJournal]], dict[Path, str]]:
    """What is to be undone, from all journals together, after the programs that might go on making some of it; and
    which journals are damaged, and how.
    """
    damaged: dict[Path, str] = {}
    programs: list[tuple[dict[str, Any], _DeadJournal]] = []
    made: list[tuple[dict[str, Any], _DeadJournal]] = []
    for left in dead:
        if left.of_this_boot:
            programs.append((to_record(left.programs), left))
        unreleased, problem = _unreleased(left.path)
        if problem:
            damaged[left.path] = problem
        made += [
            (record, left)
            for record in unreleased
            if left.of_this_boot or record.get("kind") in _OUTLIVE_A_BOOT or record.get("outlives_boot")
        ]
    made.sort(key=lambda each: each[0].get("at", 0))
    return programs + made[::-1], damaged


def _unreleased(path: Path) -> tuple[list[dict[str, Any]], str]:
    """What a journal holds, and how it is damaged: empty when it is not."""
    registered: dict[int, dict[str, Any]] = {}
    damaged = 0
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > _MAX_BYTES:
                return [], f"it is larger than {_MAX_BYTES >> 20} MiB"
            for line, following in pairwise(chain(_lines(file), (b"",))):
                if not line.strip():
                    continue
                try:
                    record = _record(line)
                except json.JSONDecodeError:
                    damaged += not _is_cut(line, following)
                except (ValueError, RecursionError):
                    damaged += 1
                else:
                    if "register" in record:
                        registered[record["register"]] = record
                    else:
                        registered.pop(record["deregister"], None)
    except FileNotFoundError:  # its owner has ended cleanly just now
        pass
    except OSError as error:
        return [], f"it cannot be read: {error.strerror}"
    if damaged:
        return list(registered.values()), "1 line is damaged" if damaged == 1 else f"{damaged} lines are damaged"
    return list(registered.values()), ""


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a journal with their ends; of one that is too long for a record, only the first part."""
    while line := file.readline(_MAX_LINE_BYTES):
        yield line
        while line and not line.endswith(b"\n"):
            line = file.readline(_MAX_LINE_BYTES)


def _record(line: bytes) -> dict[str, Any]:
    """The record of a line. Raises JSONDecodeError, ValueError or RecursionError when it has none."""
    record = json.loads(str(line, "utf-8"))
    if not isinstance(record, dict):
        raise ValueError("not an object")
    record = {_FORMER_KEYS.get(key, key): value for key, value in record.items()}
    if {type(record.get("register", record.get("deregister"))), type(record.get("at", 0))} != {int}:
        raise ValueError("not a number")
    return record


def _is_cut(line: bytes, following: bytes) -> bool:
    """Whether the write of a line that is no JSON was cut, by a full disk or SIGKILL: its resource was not made.

    A whole line has its end, and the next write leaves an empty line after it; see Journal._write.
    """
    begins = line.startswith(_BEGINNINGS) or any(each.startswith(line.rstrip(b"\n")) for each in _BEGINNINGS)
    return begins and (not line.endswith(b"\n") or bool(following.strip()))


def _in_one_line(error: VtaxError | OSError) -> str:
    text = str(error)
    if isinstance(error, VtaxError):
        text = ": ".join(filter(None, (error.what, error.where))) + (f" ({error.hint})" if error.hint else "")
    return " ".join(text.split())
