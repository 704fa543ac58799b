"""Removes trees of files, whoever made them: the one place where vtax does.

A guest's root, or a file of a stranger, may make directories nested so deep that no path reaches them, files that
are immutable, and more names than fit in memory. So directories are visited one at a time, by descriptors and without
recursion; the attributes that forbid removal are cleared; nothing on another mount is entered; time is bounded. One
file that cannot be removed does not keep the others.

It imports nothing but the standard library, since it also travels to other machines (platforms.ssh).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

REMOVAL_S = 300.0
"""For so long one tree is removed."""
MAX_FAILURES = 100
"""After so many names of a tree that cannot be removed no further one is tried."""
MAX_NAMES = 1_000_000
"""Directories in one directory: their names are in memory at once."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602  # FS_IOC_GETFLAGS, FS_IOC_SETFLAGS (linux/fs.h)
_KEEPING = 0x00000010 | 0x00000020  # FS_IMMUTABLE_FL, FS_APPEND_FL
_FULL = (errno.ENOTEMPTY, errno.EEXIST)
_SHOWN = 100  # characters of a name


class NotRemoved(OSError):
    """Something of a tree could not be removed. errno: of the first failure."""

    def __str__(self) -> str:
        return str(self.strerror)


def remove_tree(path: Path, within_s: float = REMOVAL_S) -> bool:
    """Remove a file, or a directory with all below; False when there is none. A symbolic link is removed itself.

    Raises NotRemoved when something stays: it names the first of it, and everything else was removed, unless the time
    was over or MAX_FAILURES names stayed.
    """
    try:
        is_directory = stat.S_ISDIR(path.lstat().st_mode)
        parent = os.open(path.parent, _DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    removal = _Removal(parent, time.monotonic() + within_s)
    try:
        if not is_directory:
            removal.is_gone(os.unlink, parent, path.name)
        else:
            for at, name in directories(path):
                removal.directory(at, name)
    except _Ended:
        pass
    finally:
        os.close(parent)
    if removal.first is not None:
        raise NotRemoved(removal.first.errno, removal.first.strerror, str(path))
    return True


def directories(top: Path) -> Iterator[tuple[int, str]]:
    """Yield (descriptor of the directory above it, name) of each directory of a tree, the deepest first, top last.

    The descriptor is valid until the next one is asked for. What cannot be entered, or is on another mount, is
    yielded and not entered. Raises NotRemoved when a directory is moved meanwhile, and for one that holds more than
    MAX_NAMES directories.
    """
    try:
        at = os.open(top.parent, _DIRECTORY)
    except FileNotFoundError:
        return
    levels = [_Level(_identity(at), [top.name])]
    try:
        while levels:
            level = levels[-1]
            if level.names:
                name = level.names.pop()
                child = _enter_directory(at, name)
                if child is None:
                    yield at, name
                    continue
                os.close(at)
                at, level.entered = child, name
                levels.append(_Level(_identity(at), _directories_in(at)))
                continue
            levels.pop()
            if levels:
                parent = os.open("..", _DIRECTORY, dir_fd=at)
                os.close(at)
                at = parent
                if _identity(at) != levels[-1].identity:
                    raise NotRemoved(errno.ESTALE, "a directory was moved meanwhile", str(top))
                yield at, levels[-1].entered
    finally:
        os.close(at)


class _Level:
    """A directory on the way to the one that is visited. entered: the name in it that leads there."""

    def __init__(self, identity: tuple[int, int], names: list[str]) -> None:
        self.identity = identity
        self.names = names
        self.entered = ""


class _Ended(Exception):
    """The removal of a tree ends before its end; its first failure says why."""


class _Removal:
    """The removal of one tree. outer: the directory that it is in, which stays as it is."""

    def __init__(self, outer: int, deadline: float) -> None:
        self._outer = _identity(outer)
        self._deadline = deadline
        self._failures = 0
        self.first: NotRemoved | None = None

    def directory(self, at: int, name: str) -> None:
        """Remove a directory with its files; the directories in it are gone, or failed. Raises _Ended."""
        while not self.is_gone(os.rmdir, at, name):
            child = _enter_directory(at, name)
            if child is None:
                return self._fail(errno.EACCES, name, "it cannot be entered")
            try:
                file_count = self._remove_files(child)
            finally:
                os.close(child)
            if not file_count:
                if self.first is None and not self.is_gone(os.rmdir, at, name):
                    self._fail(errno.ENOTEMPTY, name, "something is still made in it")
                return None
        return None

    def is_gone(self, call: Callable[..., None], at: int, name: str) -> bool:
        """Remove one name by a call; False for a directory that holds something. Raises _Ended."""
        if time.monotonic() > self._deadline:
            self._fail(errno.ETIME, name, "the time for its removal is over")
            raise _Ended
        for is_first in (True, False):
            try:
                call(name, dir_fd=at)
            except FileNotFoundError:
                return True
            except OSError as error:
                if error.errno in _FULL:
                    return False
                if is_first and error.errno in (errno.EPERM, errno.EACCES):
                    self._allow(at, name)
                    continue
                reason = error.strerror or str(error)
                if error.errno == errno.EBUSY:
                    reason = "something is mounted on it"
                self._fail(error.errno or errno.EIO, name, reason)
            return True
        return True

    def _remove_files(self, at: int) -> int:
        """Remove all but directories of an open one; returns how many are gone."""
        failures, count = self._failures, 0
        with os.scandir(at) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    self.is_gone(os.unlink, at, entry.name)
                    count += 1
        return count - (self._failures - failures)

    def _allow(self, at: int, name: str) -> None:
        """Clear attributes of a file and of its directory that forbid its removal, as far as they can be."""
        with suppress(OSError):
            if _identity(at) != self._outer:
                _clear_attributes(at)
        with suppress(OSError):
            mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # to open others may wait, or act
                return
            file = os.open(name, _FILE, dir_fd=at)
            try:
                if _mount(file) == _mount(at):
                    _clear_attributes(file)
            finally:
                os.close(file)

    def _fail(self, number: int, name: str, reason: str) -> None:
        self._failures += 1
        if self.first is None:
            self.first = NotRemoved(number, f"{json.dumps(name)[:_SHOWN]} stays: {reason}", name)
        if self._failures >= MAX_FAILURES:
            raise _Ended


def _enter_directory(at: int, name: str) -> int | None:
    """Open a directory below an open one; None for what is none, cannot be opened, or is on another mount."""
    try:
        child = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    except OSError:
        return None
    if _mount(child) == _mount(at):
        return child
    os.close(child)
    return None


def _directories_in(at: int) -> list[str]:
    """Return the names of directories in an open one. Raises NotRemoved for too many."""
    names: list[str] = []
    with suppress(FileNotFoundError), os.scandir(at) as entries:  # a cgroup may vanish meanwhile
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                names.append(entry.name)
                if len(names) > MAX_NAMES:
                    reason = f"a directory in it has more than {MAX_NAMES} directories"
                    raise NotRemoved(errno.E2BIG, reason, entry.name)
    return names


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _mount(descriptor: int) -> str:
    """Return the kernel's number of the mount that an open file is on (proc_pid_fdinfo(5)).

    The device does not tell: a bind mount has that of its source.
    """
    with open(f"/proc/self/fdinfo/{descriptor}") as file:  # noqa: PTH123 - of many directories
        for line in file:
            if line.startswith("mnt_id:"):
                return line.split()[1]
    return ""


def _clear_attributes(descriptor: int) -> None:
    """Make an open file neither immutable nor append-only (chattr(1))."""
    flags = bytearray(8)
    fcntl.ioctl(descriptor, _GET_FLAGS, flags)
    before = int.from_bytes(flags[:4], "little")
    if before & _KEEPING:
        fcntl.ioctl(descriptor, _SET_FLAGS, (before & ~_KEEPING).to_bytes(8, "little"))
