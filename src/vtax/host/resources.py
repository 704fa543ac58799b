"""The kinds of resources that vtax creates on a host; each can be removed from its description alone.

`remove` works from another process after a crash. It returns False when the resource was never created or is already
gone. It touches nothing that vtax did not create.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Protocol

from vtax.errors import VtaxError
from vtax.host.mounts import is_mount_point
from vtax.host.process import TAG_VARIABLE, Result, run
from vtax.host.removal import directories, remove_tree
from vtax.host.waiting import wait_until

_GRACE_S = 3.0
_POLL_INTERVAL_S = 0.2
_REPEAT_REQUEST_S = 10.0
_KIND_CHARS = 60
_TYPES: Mapping[str, Any] = {"str": str, "bool": bool, "int": int, "float": int | float}
"""Annotations of fields of resources -> types of their values in JSON."""


class Resource(Protocol):
    """A resource on the host: a frozen dataclass of strings, numbers and lists of them."""

    kind: ClassVar[str]

    def remove(self) -> bool:
        """Remove it; False when it did not exist. Raises VtaxError or OSError when removal fails."""
        ...


def tagged_pids(tag: str) -> list[int]:
    """Return processes with the tag in their environment (/proc/PID/environ)."""
    variable = f"{TAG_VARIABLE}={tag}".encode()
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if variable in (entry / "environ").read_bytes().split(b"\0"):
                    pids.append(int(entry.name))
    return pids


def end_processes(find: Any, what: str, *, graceful: bool = True) -> bool:
    """Send SIGTERM, then SIGKILL after a grace period, until `find()` (returns PIDs) is empty.

    graceful=False: send SIGKILL at once, repeatedly for new processes.
    """
    had_any = False
    kill_at = time.monotonic() + (_GRACE_S if graceful else 0.0)

    def ended() -> bool:
        nonlocal had_any
        pids = find()
        is_late = time.monotonic() >= kill_at
        if is_late or not had_any:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if is_late else signal.SIGTERM)
        for pid in pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        had_any = had_any or bool(pids)
        return not pids

    wait_until(
        ended,
        2 * _GRACE_S,
        0.002,
        max_interval_s=0.05,
        otherwise=lambda: VtaxError(f"processes of {what} do not end: {find()}"),
    )
    return had_any


@dataclass(frozen=True)
class TaggedProcesses:
    """All processes with a tag in their environment (see host.process.spawn), including children."""

    kind: ClassVar[str] = "processes"
    tag: str
    what: str

    def remove(self) -> bool:
        """Terminate them, after a grace period kill them."""
        return end_processes(lambda: tagged_pids(self.tag), self.what)

    def __str__(self) -> str:
        return f"processes of {self.what}"


@dataclass(frozen=True)
class NetworkNamespace:
    """A named network namespace; every link inside goes with it."""

    kind: ClassVar[str] = "network-namespace"
    name: str

    def remove(self) -> bool:
        """Unmount and delete the name."""
        if not Path("/run/netns", self.name).exists():
            return False
        run(["ip", "netns", "delete", self.name])
        return True

    def __str__(self) -> str:
        return f"network namespace {self.name}"


@dataclass(frozen=True)
class Mount:
    """A mount in the host's mount namespace."""

    kind: ClassVar[str] = "mount"
    path: str

    def remove(self) -> bool:
        """Unmount it, lazily when it is busy."""
        if not is_mount_point(Path(self.path)):
            return False
        if run(["umount", self.path], check=False).status != 0:
            run(["umount", "--lazy", self.path])
        return True

    def __str__(self) -> str:
        return f"mount {self.path}"


@dataclass(frozen=True)
class Tree:
    """A file or directory tree that vtax created; guests may have changed what is in it."""

    kind: ClassVar[str] = "files"
    path: str

    def remove(self) -> bool:
        """Delete it, but nothing that is mounted below it. Raises NotRemoved when something stays."""
        return remove_tree(Path(self.path))

    def __str__(self) -> str:
        return f"files {self.path}"


@dataclass(frozen=True)
class ControlGroup:
    """One or more cgroup directories (one per controller on cgroup v1) that belong to one guest.

    Its processes are killed at once: the first process of a container ignores SIGTERM.
    """

    kind: ClassVar[str] = "cgroup"
    paths: tuple[str, ...]

    def remove(self) -> bool:
        """Kill every process in them and remove the directories, deepest first.

        Repeat while a directory is busy: a forked child of a killed vtax may join later, and a container's monitor
        creates groups when its container ends.
        """
        tops = [Path(path) for path in self.paths if Path(path).is_dir()]
        if not tops:
            return False
        errors: list[OSError] = []

        def removed() -> bool:
            end_processes(lambda: _members(tops), str(self), graceful=False)
            try:
                for top in tops:
                    for at, name in directories(top):
                        with suppress(FileNotFoundError):
                            os.rmdir(name, dir_fd=at)
            except OSError as error:
                errors.append(error)
                return False
            return True

        return wait_until(removed, _GRACE_S, 0.01, otherwise=lambda: errors[-1])

    def __str__(self) -> str:
        return f"cgroup {Path(self.paths[0]).name}" if self.paths else "cgroup"


@dataclass(frozen=True)
class RestoreCommand:
    """A resource that one command removes: a container, a domain, a daemon's record.

    what: the resource in words.
    argv: the command.
    harmless_statuses: exit statuses that mean that there was nothing to remove.
    harmless_words: where there are any, stderr must have one of them too, since some programs end with the same
        status when they cannot know.
    if_any: a command that fails when there is nothing to remove; it runs first, where argv would not tell.
    late_s: for how long to ask again after that, where a daemon may still be making the resource.
    outlives_boot: whether it is still there after a reboot of this host.
    until: for a command that only requests an end: a command that is repeated until its output is one of until_says.
    within_s: for how long to wait for that.
    """

    kind: ClassVar[str] = "command"
    what: str
    argv: tuple[str, ...]
    harmless_statuses: tuple[int, ...] = (1,)
    harmless_words: tuple[str, ...] = ()
    if_any: tuple[str, ...] = ()
    late_s: float = 0.0
    outlives_boot: bool = False
    until: tuple[str, ...] = ()
    until_says: tuple[str, ...] = ()
    within_s: float = 0.0

    def remove(self) -> bool:
        """Run the command and wait for its effect."""
        was_there = wait_until(self._ask, self.late_s, _POLL_INTERVAL_S)
        if was_there and self.until:
            self._wait()
        return was_there

    def _wait(self) -> None:
        requested = time.monotonic()

        def ended() -> bool:
            nonlocal requested
            if self._has_ended():
                return True
            # a machine that is starting may miss the first request
            if time.monotonic() - requested > _REPEAT_REQUEST_S:
                requested = time.monotonic()
                self._ask()
            return False

        late_reason = f"{' '.join(self.argv)} had no effect within {self.within_s:g} s"
        wait_until(ended, self.within_s, _POLL_INTERVAL_S, otherwise=lambda: VtaxError(late_reason))

    def _ask(self) -> bool:
        """Run the command once; False when there was nothing to remove."""
        for argv in filter(None, (self.if_any, self.argv)):
            result = run(list(argv), check=False)
            if result.status != 0 and not self._is_harmless(result) and not self._has_ended():
                raise VtaxError(f"{' '.join(argv)} failed: {result.stderr.strip()[-300:]}")
            if result.status != 0:
                return False
        return True

    def _has_ended(self) -> bool:
        if not self.until:
            return False
        return run(list(self.until), check=False).stdout.strip() in self.until_says

    def _is_harmless(self, result: Result) -> bool:
        if result.status not in self.harmless_statuses:
            return False
        words = self.harmless_words
        return not words or any(word in result.stderr for word in words)

    def __str__(self) -> str:
        return self.what


def selected_option(options: str) -> str:
    """Return the option in brackets of a sysfs list such as `always [madvise] never`."""
    return options.partition("[")[2].partition("]")[0]


@dataclass(frozen=True)
class FileValue:
    """A kernel setting (under /proc/sys or /sys) that vtax changed, with the value to restore."""

    kind: ClassVar[str] = "setting"
    path: str
    before: str

    def remove(self) -> bool:
        """Restore the old value, unless it is effective (of several words, the one in brackets is)."""
        path = Path(self.path)
        if not path.exists():
            return False
        text = path.read_text().strip()
        if self.before.strip() in (text, selected_option(text)):
            return False
        path.write_text(self.before)
        return True

    def __str__(self) -> str:
        return f"setting {self.path}"


@dataclass(frozen=True)
class Remote:
    """Resources of a guest on another machine: a directory, processes, a network interface.

    path: the directory. argv: ends and removes all of it there; status 3 says that there was nothing, 126 and 127
    that what would have made it is not installed.
    """

    kind: ClassVar[str] = "remote"
    host: str
    path: str
    argv: tuple[str, ...]

    def remove(self) -> bool:
        """Run the removal on the machine."""
        result = run(list(self.argv), check=False)
        if result.status not in (0, 3, 126, 127):
            message = result.stderr.strip()[-300:] or f"status {result.status}"
            raise VtaxError(
                f"{self.host} did not confirm that it removed {self.path}: {message}",
                hint="it does so by itself once the connection is gone; or make ssh work and run vtax clean",
            )
        return result.status == 0

    def __str__(self) -> str:
        return f"files and processes of {self.path} on {self.host}"


KINDS: dict[str, type[Any]] = {
    cls.kind: cls
    for cls in (
        TaggedProcesses,
        NetworkNamespace,
        Mount,
        Tree,
        ControlGroup,
        RestoreCommand,
        FileValue,
        Remote,
    )
}


def to_record(resource: Resource) -> dict[str, object]:
    """Return the JSON form of a resource."""
    return {"kind": resource.kind, **asdict(resource)}  # type: ignore[call-overload]


def from_record(record: dict[str, Any]) -> Resource:
    """Return the resource of a JSON form; unknown keys are ignored.

    Raises VtaxError on what another version wrote, and on a damaged record: a value of another type, a text that no
    file or argument can be called, a path that depends on the directory of this process.
    """
    try:
        cls = KINDS[record["kind"]]
        values = {}
        for field in fields(cls):
            if field.name in record:
                annotation = str(cls.__annotations__[field.name])
                values[field.name] = _check_value(annotation, record[field.name])
        resource: Resource = cls(**values)
        if isinstance(resource, Tree | Mount | FileValue) and not Path(resource.path).is_absolute():
            raise ValueError("a relative path")
    except (KeyError, TypeError, ValueError) as error:
        kind = repr(record.get("kind"))[:_KIND_CHARS]
        raise VtaxError(
            f"this version of vtax cannot remove {kind}", hint="use the version that made it"
        ) from error
    return resource


def _check_value(annotation: str, value: Any) -> Any:
    """Return a value of a record for a field of this type. Raises TypeError or ValueError for any other value."""
    if annotation.startswith("tuple[") and isinstance(value, list | tuple):
        annotation = annotation.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(_check_value(annotation, item) for item in value)
    if not isinstance(value, _TYPES.get(annotation, ())):
        raise TypeError(f"{annotation} is expected")
    if isinstance(value, str) and b"\0" in os.fsencode(value):
        raise ValueError("a null byte")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite")
    return value


def _members(tops: list[Path]) -> list[int]:
    """Return the processes in some groups, without this one and those of other PID namespaces, which v2 shows as 0."""
    pids = set(chain.from_iterable(map(pids_below, tops)))
    return sorted(pids - {0, os.getpid()})


def pids_below(group: Path) -> Iterator[int]:
    """Yield the processes in a cgroup and below it; a runtime may be removing some of those meanwhile."""
    for at, name in directories(group):
        with suppress(OSError):
            file = os.open(f"{name}/cgroup.procs", os.O_RDONLY | os.O_CLOEXEC, dir_fd=at)
            with os.fdopen(file) as lines:
                yield from map(int, lines.read().split())
