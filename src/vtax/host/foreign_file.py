"""Opens files that others wrote, or that a user named: regular ones alone, of bounded size. Never waits for a writer.

A pipe may never be written, a device may never end, and opening one may do something. So the kind of a file is checked
before it is opened, and once more when it is open.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from vtax.errors import BadInput

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_NAME_CHARS = 80  # of a path, in an error
_CHUNK_BYTES = 1 << 20


@contextmanager
def open_foreign(
    path: Path,
    what: str,
    most_bytes: int,
    *,
    hint: str = "",
    follows_links: bool = True,
) -> Iterator[IO[bytes]]:
    """Yield a file to read. The caller bounds a file that grows while it is read.

    path: of the file.
    what: the kind of file that is expected, with its article: `a bundle`.
    most_bytes: the size that it may have.
    hint: of the error for any other kind.
    follows_links: whether the path may be a symbolic link; a user may name one, a search of a directory must not.

    Raises BadInput for anything but a regular file, and for one of more than most_bytes; OSError where it cannot be
    opened.
    """
    status, flags = path.stat(), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    if not follows_links:
        status, flags = path.lstat(), flags | os.O_NOFOLLOW
    _refuse_other(path, status, what, hint)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        _refuse_other(path, status, what, hint)
        if status.st_size > most_bytes:
            raise too_large(what, most_bytes, path, hint)
        yield file


def read_foreign(
    path: Path, what: str, most_bytes: int, *, hint: str = "", follows_links: bool = True
) -> bytes:
    """Return the content of a file. Its arguments and errors are those of `open_foreign`."""
    with open_foreign(path, what, most_bytes, hint=hint, follows_links=follows_links) as file:
        content = file.read(most_bytes + 1) or b""
    if len(content) > most_bytes:
        raise too_large(what, most_bytes, path, hint)
    return content


def copy_foreign(
    path: Path, what: str, most_bytes: int, target: Path | None, *, follows_links: bool = True
) -> str:
    """Copy a file to a target, if any, and return its SHA-256. Other arguments and errors are those of `open_foreign`."""
    digest, remaining_bytes = hashlib.sha256(), most_bytes
    with (
        open_foreign(path, what, most_bytes, follows_links=follows_links) as source,
        (target or Path(os.devnull)).open("wb") as copy,
    ):
        while chunk := source.read(_CHUNK_BYTES):
            remaining_bytes -= len(chunk)
            if remaining_bytes < 0:
                raise too_large(what, most_bytes, path)
            digest.update(chunk)
            copy.write(chunk)
    return digest.hexdigest()


def too_large(what: str, most_bytes: int, path: Path, hint: str = "") -> BadInput:
    """Return the error for a file that holds more than it may."""
    return BadInput(f"{what} holds at most {_size(most_bytes)}", where=str(path), hint=hint)


def _refuse_other(path: Path, status: os.stat_result, what: str, hint: str) -> None:
    """Raise BadInput for anything but a regular file."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return
    kind = next((name for is_of_kind, name in _KINDS if is_of_kind(mode)), "not a regular file")
    name = str(path)
    if len(name) > _NAME_CHARS:
        name = f"{name[: _NAME_CHARS - 1]}…"
    raise BadInput(f"{name!r} is {kind}, not {what}", hint=hint)


def _size(count: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:g} {name}"
    return f"{count} bytes"
