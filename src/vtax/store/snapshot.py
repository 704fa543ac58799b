"""SQLite stores between their owner, who writes, and everybody else, who may look.

In WAL mode SQLite's processes agree by locks on the file `-shm`, and whoever may open it can hold one of them and
stop every writer. So `-shm` is made for the store's owner alone, and others read a private copy of the file and its
write-ahead log (`-wal`), for which they take no lock.

A copy is consistent if the log did not begin anew while it was made: the file is copied first, and whatever was moved
from the log into the file meanwhile stands in the log that is copied after it. A log that begins anew has other salts
in its header ("WAL File Format" in SQLite's documentation).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from vtax.errors import StoreBusy
from vtax.host.waiting import wait_until

_HEADER_BYTES = 32
_COPIED_S = 20.0
_PAUSE_S = 0.05


def log_of(file: Path) -> Path:
    """Return the write-ahead log beside a store."""
    return file.with_name(file.name + "-wal")


def index_of(file: Path) -> Path:
    """Return the index of the log beside a store, which SQLite's processes lock."""
    return file.with_name(file.name + "-shm")


def close_index(file: Path) -> None:
    """Make `-shm` beside a store, or change it, so that only the store's owner opens it.

    It is never opened when it is there: closing it would drop the locks that this process holds on it (fcntl(2)).
    """
    index = index_of(file)
    try:
        descriptor = os.open(
            index, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
    except FileExistsError:
        with suppress(OSError):  # it belongs to another owner of the store, or is gone
            if index.stat(follow_symlinks=False).st_mode & 0o077:
                index.chmod(0o600)
        return
    except OSError:  # SQLite says what is wrong with the directory
        return
    try:
        if os.geteuid() == 0 and file.exists():
            owner = file.stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        os.write(descriptor, b"\0")  # to an empty file SQLite gives the mode of the store
    except OSError:  # of a full disk, which SQLite says
        index.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


class Snapshot:
    """A private copy of a store, in the directory for temporary files until `remove`, or the end of the process.

    Raises OSError where there is no room, StoreBusy when the store changes too fast to be copied.
    """

    def __init__(self, store: Path) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="vtax-store-")
        self.file = Path(self._directory.name, store.name)
        try:
            wait_until(
                lambda: _copied(store, self.file),
                _COPIED_S,
                _PAUSE_S,
                otherwise=lambda: StoreBusy(
                    "the store changes too fast to be copied for reading",
                    where=str(store),
                    hint="try again, or sudo",
                ),
            )
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Delete the copy. May be called twice."""
        self._directory.cleanup()


def _copied(store: Path, copy: Path) -> bool:
    """Return whether one consistent copy was made."""
    state_before = _state(store)
    shutil.copyfile(store, copy)
    log_of(copy).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        shutil.copyfile(log_of(store), log_of(copy))
    return _state(store) == state_before


def _state(store: Path) -> tuple[object, ...]:
    """Return what stays the same while the log does not begin anew; without a log, while the file does not change."""
    try:
        with log_of(store).open("rb") as log:
            return os.fstat(log.fileno()).st_ino, log.read(_HEADER_BYTES)
    except FileNotFoundError:
        status = store.stat()
        return status.st_mtime_ns, status.st_size
