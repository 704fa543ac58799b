"""Opens files that others wrote, or that a user named: regular ones alone, of bounded size. Never waits for a writer.

A pipe may never be written, a device may never end, and opening one may do something; so what a path is, is looked at
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
_SHOWN = 80  # characters of a path
_CHUNK_BYTES = 1 << 20


@contextmanager
def opened(
    path: Path,
    what: str,
    most_bytes: int,
    *,
    hint: str = "",
    follows_links: bool = True,
) -> Iterator[IO[bytes]]:
    """Yield a file to read.

    what: the file should be, with its article: `a bundle`.
    hint: of the error for anything else.
    follows_links: whether the path may be a symbolic link: where a user named it, not where a directory was searched.
    Raises BadInput for what is no regular file or holds more than most_bytes, and OSError for what cannot be opened.
    A file that grows while it is read is the reader's to bound.
    """
    _refuse_other(path, path.stat() if follows_links else path.lstat(), what, hint)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags if follows_links else flags | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        seen = os.fstat(descriptor)
        _refuse_other(path, seen, what, hint)
        if seen.st_size > most_bytes:
            raise too_large(what, most_bytes, path, hint)
        yield file


def content_of(
    path: Path, what: str, most_bytes: int, *, hint: str = "", follows_links: bool = True
) -> bytes:
    """Return what a file holds. Raises as `opened`."""
    with opened(path, what, most_bytes, hint=hint, follows_links=follows_links) as file:
        content = file.read(most_bytes + 1) or b""
    if len(content) > most_bytes:
        raise too_large(what, most_bytes, path, hint)
    return content


def copied(
    path: Path, what: str, most_bytes: int, target: Path | None, *, follows_links: bool = True
) -> str:
    """Copy a file to a target, if any, and return the SHA-256 of what it holds. Raises as `opened`."""
    digest, left = hashlib.sha256(), most_bytes
    with (
        opened(path, what, most_bytes, follows_links=follows_links) as source,
        (target or Path(os.devnull)).open("wb") as copy,
    ):
        while chunk := source.read(_CHUNK_BYTES):
            left -= len(chunk)
            if left < 0:
                raise too_large(what, most_bytes, path)
            digest.update(chunk)
            copy.write(chunk)
    return digest.hexdigest()


def too_large(what: str, most_bytes: int, path: Path, hint: str = "") -> BadInput:
    """Return the error for a file that holds more than it may."""
    return BadInput(f"{what} holds at most {_size(most_bytes)}", where=str(path), hint=hint)


def _refuse_other(path: Path, seen: os.stat_result, what: str, hint: str) -> None:
    """Raise BadInput for anything but a regular file."""
    if stat.S_ISREG(seen.st_mode):
        return
    kind = next((name for is_one, name in _KINDS if is_one(seen.st_mode)), "not a regular file")
    name = str(path)
    shown = name if len(name) <= _SHOWN else f"{name[: _SHOWN - 1]}…"
    raise BadInput(f"{shown!r} is {kind}, not {what}", hint=hint)


def _size(count: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:g} {name}"
    return f"{count} bytes"
