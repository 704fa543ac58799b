"""Registers resources before they are created and deregisters them after they are removed.

A journal is one append-only file of JSON lines in `VTAX_HOME/journal`, named after the process it belongs to, which
may have several, and the boot of the host. A `register` line is written before a resource is created, a
`deregister` line after it is removed. A process that ends cleanly deletes its file; a killed one leaves it. `clean`
removes the resources of all journals of dead processes, last created first. SIGKILL loses no line, since the kernel
has the bytes once write(2) returns. Only files, containers of the host's daemons and resources on other machines
survive a reboot; other resources with the same name then belong to somebody else.

Child programs of a killed process may still create resources, so they are terminated first. They are found by their
tag, which they have only after exec; until then they hold the lock on their parent's journal, which the kernel drops
when the last descriptor is closed.
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
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Any, BinaryIO, Self

from vtax.errors import VtaxError
from vtax.foreign_data import parse_json
from vtax.host.interrupts import deferred_interrupts
from vtax.host.left import LEFT, put_aside
from vtax.host.lock import wait_for_lock
from vtax.host.process import start_time_of, tag_of_run
from vtax.host.removal import NotRemoved
from vtax.host.resources import Remote, Resource, TaggedProcesses, Tree, from_record, to_record
from vtax.host.trust import is_trusted_file, private_directory, refuse_foreign
from vtax.limits import JOURNAL, JOURNAL_LINE

_UNTRUSTED_JOURNAL = "it may contain commands of other users, and none was run; inspect it, then remove it, or vtax clean --forget"
_DAMAGED = "their resources are not removed; inspect the file, then vtax clean --forget"
_SURVIVE_REBOOT = (Tree.kind, Remote.kind)
_FORKED_S = 5.0  # timeout from fork to exec of a program
_CLEAN_S = 120.0  # timeout of waiting for another clean
_RECORD_PREFIXES = (b'{"register": ', b'{"deregister": ')
_EXEC_S = 0.05  # time of an exec from closing descriptors until the environment is readable


@cache
def boot_id() -> str:
    """Return the kernel's name of this boot of the host, in 32 digits."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")


@dataclass
class Registration:
    """A registered resource. `release` removes and deregisters it; it may be called twice."""

    resource: Resource
    number: int
    journal: Journal
    released: bool = False

    def release(self) -> None:
        """Remove the resource, then deregister it. After an error it stays in the journal for `vtax clean`.

        Files that cannot be removed are put aside, and said: they are an error only where that fails too.
        """
        if not self.released:
            _, line = _remove(self.resource, self.journal.path.parent)
            self.journal.deregister(self)
            if line:
                self.journal.notify(f"not removed: {line}")

    def forget(self) -> None:
        """Deregister a resource without removing it: it is already gone or has another owner."""
        if not self.released:
            self.journal.deregister(self)


class Journal:
    """Registers resources before they are created, so that `vtax clean` can remove them after a crash.

    As a context manager it removes all registered resources on exit. notify: called with a line per resource that
    could not be removed; it stays in the journal.
    """

    def __init__(self, directory: Path, notify: Callable[[str], None] | None = None) -> None:
        self.notify = notify or _on_stderr
        self.token = secrets.token_hex(3)
        owner = f"{os.getpid()}-{start_time_of(os.getpid())}"
        self.path = directory / f"{owner}-{self.token}-{boot_id()}.jsonl"
        private_directory(directory)
        try:
            flags = (
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            )
            self._file = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._registered: list[Registration] = []
        self._numbers = count()  # threads may register

    def register(self, resource: Resource) -> Registration:
        """Register a resource. Call this before creating the resource.

        Raises VtaxError when the journal cannot be written (disk full).
        """
        registered = Registration(resource, next(self._numbers), self)
        self._write(
            {"register": registered.number, "at": time.monotonic_ns(), **to_record(resource)}
        )
        self._registered.append(registered)
        return registered

    def deregister(self, registered: Registration) -> None:
        """Record that a resource is gone; on a full disk the record is missing, and `clean` removes it again."""
        with suppress(VtaxError):
            self._write({"deregister": registered.number, "kind": registered.resource.kind})
        registered.released = True
        self._registered.remove(registered)

    @property
    def registered(self) -> tuple[Resource, ...]:
        """Registered resources in their order of creation."""
        return tuple(registered.resource for registered in self._registered)

    def release_all(self) -> list[str]:
        """Remove all registered resources, last created first; returns those that could not be removed."""
        problems = []
        for registered in reversed(self._registered.copy()):
            try:
                registered.release()
            except Exception as error:  # a bug must not keep the others
                problems.append(f"{registered.resource}: {_without_hint(error)}")
        return problems

    def close(self) -> list[str]:
        """Release everything and delete the file; a file with remaining resources is kept for `vtax clean`."""
        problems = self.release_all()
        os.close(self._file)
        if not problems:
            self.path.unlink(missing_ok=True)
        return problems

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with deferred_interrupts():
            for problem in self.close():
                self.notify(f"leaked: {problem} (hint: sudo vtax clean)")

    def _write(self, record: dict[str, object]) -> None:
        """Append a line; the leading newline separates it from a line that a full disk truncated."""
        data = f"\n{json.dumps(record)}\n".encode()
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> VtaxError:
        hint = "free some space on that disk" if error.errno == errno.ENOSPC else ""
        return VtaxError(
            f"the journal cannot be written: {error.strerror}", where=str(self.path), hint=hint
        )


def _on_stderr(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Cleaned:
    """Result of `clean`.

    removed: resources that were removed.
    problems: resources that could not be removed, and damaged journals, each with the reason.
    left: files that could not be removed and were put aside, where they block nothing, each with the reason.
    """

    removed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def stays(self) -> tuple[str, ...]:
        """Everything that could not be removed."""
        return self.problems + self.left


def clean(
    directory: Path, notify: Callable[[str], None] | None = None, *, forget: bool = False
) -> Cleaned:
    """Remove leaked resources of dead vtax processes, last created first. Running processes are not affected.

    directory: of the journals.
    notify: called with a line before a wait, as for another clean.
    forget: deregister resources that cannot be removed.

    Raises BadInput for a journal directory that other users own or can write to, since journals contain commands, and
    VtaxError when another clean does not end.
    """
    removed_names: list[str] = []
    problems: list[str] = []
    aside: list[str] = []
    notify = notify or _on_stderr
    if not directory.exists():
        refuse_foreign(directory)
        return Cleaned()
    private_directory(directory)
    with _clean_lock(directory, notify):
        paths = sorted(directory.glob("*.jsonl"))
        journals = [journal for journal in map(_journal_of_dead, paths) if journal is not None]
        failed: set[Path] = set()
        trusted: list[_DeadJournal] = []
        for journal in journals:
            if journal.is_trusted:
                trusted.append(journal)
            else:
                failed.add(journal.path)
                name = journal.path.name
                problems.append(f"journal {name} is not of this user alone ({_UNTRUSTED_JOURNAL})")
        _wait_for_exec([journal.path for journal in trusted if journal.of_this_boot], notify)
        records, damage_by_path = _removal_order(trusted)
        for path, problem in damage_by_path.items():
            failed.add(path)
            problems.append(f"journal {path.name}: {problem} ({_DAMAGED})")
        for record, journal in records:
            what = journal.path.name
            try:
                resource = from_record(record)
                what = str(resource)
                with deferred_interrupts():
                    existed, line = _remove(resource, directory)
                    journal.deregister(record.get("register"))
                if line:
                    aside.append(line)
                elif existed:
                    removed_names.append(what)
            except Exception as error:  # one resource, whatever is wrong with it, keeps no other
                failed.add(journal.path)
                problems.append(f"{what}: {_one_line_error(error)}")
        for journal in journals:
            if forget or journal.path not in failed:
                journal.path.unlink(missing_ok=True)
    return Cleaned(tuple(removed_names), tuple(problems), tuple(aside))


def _remove(resource: Resource, journals: Path) -> tuple[bool, str]:
    """Remove a resource; return (whether it existed, a line for files that could not be removed and are put aside).

    journals: the directory of the journal that has it; files are put aside beside that.
    """
    try:
        return resource.remove(), ""
    except NotRemoved as problem:
        if isinstance(resource, Tree):
            return True, put_aside(Path(resource.path), journals.with_name(LEFT), problem)
        raise


@dataclass(frozen=True)
class _DeadJournal:
    """The journal of a dead process."""

    path: Path
    of_this_boot: bool
    programs: TaggedProcesses

    @property
    def is_trusted(self) -> bool:
        """Whether only this user can have written it: links and files of other users are not executed."""
        with suppress(OSError):
            return is_trusted_file(self.path, self.path.lstat())
        return True  # it is gone

    def deregister(self, number: int | None) -> None:
        """Deregister a removed resource, so that it is not removed again after another process recreated it."""
        if number is not None:
            with suppress(OSError), self.path.open("a") as file:
                file.write(f'\n{{"deregister": {number}}}\n')


@contextmanager
def _clean_lock(directory: Path, notify: Callable[[str], None]) -> Iterator[None]:
    """Allow one clean at a time: concurrent cleans would remove the same resources."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wait_for_lock(descriptor, "cleans up in this home", notify, _CLEAN_S)
        yield
    finally:
        os.close(descriptor)


def _journal_of_dead(path: Path) -> _DeadJournal | None:
    """Return the journal of a dead process; None for any other file."""
    name = re.fullmatch(r"(\d+)-(\d+)-\w+-([0-9a-f]{32})", path.stem)
    if name is None:
        return None
    pid, start_time = int(name[1]), int(name[2])
    of_this_boot = name[3] == boot_id()
    if of_this_boot and start_time_of(pid) == start_time:
        return None
    return _DeadJournal(
        path,
        of_this_boot,
        TaggedProcesses(tag_of_run(pid, start_time), f"vtax {pid}, which was killed"),
    )


def _wait_for_exec(paths: Sequence[Path], notify: Callable[[str], None]) -> None:
    """Wait until forked children of dead processes have their tag; a child that never executes is ignored."""
    deadline = time.monotonic() + _FORKED_S
    for path in paths:
        with suppress(FileNotFoundError, VtaxError), path.open("rb") as file:
            wait_for_lock(
                file.fileno(),
                "was started by a killed vtax process",
                notify,
                deadline - time.monotonic(),
            )
    if paths:
        time.sleep(_EXEC_S)


def _removal_order(
    dead: Iterable[_DeadJournal],
) -> tuple[list[tuple[dict[str, Any], _DeadJournal]], dict[Path, str]]:
    """Return the records of all journals in the order of removal, programs first; and why journals are damaged."""
    damage_by_path: dict[Path, str] = {}
    programs: list[tuple[dict[str, Any], _DeadJournal]] = []
    resources: list[tuple[dict[str, Any], _DeadJournal]] = []
    for journal in dead:
        if journal.of_this_boot:
            programs.append((to_record(journal.programs), journal))
        unreleased, problem = _read_unreleased(journal.path)
        if problem:
            damage_by_path[journal.path] = problem
        for record in unreleased:
            survives = record.get("kind") in _SURVIVE_REBOOT or record.get("outlives_boot")
            if journal.of_this_boot or survives:
                resources.append((record, journal))
    resources.sort(key=lambda pair: pair[0].get("at", 0))
    return programs + resources[::-1], damage_by_path


def _read_unreleased(path: Path) -> tuple[list[dict[str, Any]], str]:
    """Return registered records of a journal, and its damage (empty when intact)."""
    registered: dict[int, dict[str, Any]] = {}
    damaged_lines = 0
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > JOURNAL.size_bytes:
                return [], f"it is larger than {JOURNAL.size_bytes >> 20} MiB"
            for line, next_line in pairwise(chain(_lines(file), (b"",))):
                if not line.strip():
                    continue
                try:
                    record = _record(line)
                except json.JSONDecodeError:
                    damaged_lines += not _is_truncated(line, next_line)
                except ValueError:
                    damaged_lines += 1
                else:
                    if "register" in record:
                        registered[record["register"]] = record
                    else:
                        registered.pop(record["deregister"], None)
    except FileNotFoundError:  # its owner has ended cleanly just now
        pass
    except OSError as error:
        return [], f"it cannot be read: {error.strerror}"
    damage = ""
    if damaged_lines == 1:
        damage = "1 line is damaged"
    elif damaged_lines:
        damage = f"{damaged_lines} lines are damaged"
    return list(registered.values()), damage


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a journal with their ends; of one that is too long for a record, only the first part."""
    while line := file.readline(JOURNAL_LINE.size_bytes):
        yield line
        while line and not line.endswith(b"\n"):
            line = file.readline(JOURNAL_LINE.size_bytes)


def _record(line: bytes) -> dict[str, Any]:
    """Return the record of a line. Raises JSONDecodeError or another ValueError when it has none."""
    record = parse_json(str(line, "utf-8"))
    if not isinstance(record, dict):
        raise ValueError("not an object")
    if {type(record.get("register", record.get("deregister"))), type(record.get("at", 0))} != {int}:
        raise ValueError("not a number")
    return record


def _is_truncated(line: bytes, next_line: bytes) -> bool:
    """Return whether a line was truncated by a full disk or SIGKILL; its resource was then not created.

    A whole line has its end, and the next write leaves an empty line after it, as Journal._write does.
    """
    if line.endswith(b"\n") and not next_line.strip():
        return False
    text = line.rstrip(b"\n")
    return any(text.startswith(start) or start.startswith(text) for start in _RECORD_PREFIXES)


def _without_hint(error: Exception) -> str:
    """Return the text of an error, without its hint."""
    if isinstance(error, VtaxError | OSError):
        return str(error).partition("\n")[0]
    return f"a bug in vtax: {type(error).__name__}: {' '.join(str(error).split())}"


def _one_line_error(error: Exception) -> str:
    text = _without_hint(error)
    if isinstance(error, VtaxError):
        text = ": ".join(filter(None, (error.what, error.where)))
        if error.hint:
            text = f"{text} ({error.hint})"
    return " ".join(text.split())
