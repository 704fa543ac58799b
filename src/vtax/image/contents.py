"""Integrity of an image: its contents are listed at the end of the build, and checked before guests start.

The list has every file of the image with its mode, owner and content. To read all of it takes seconds, so beside it
stands a stamp: one hash over what the kernel says of every file, the time of its last change (ctime) among it, which
only the kernel sets. While the stamp is the same, nothing has changed. Where it differs, as after an image that
shares files by hard links was made or removed, or in a home that was copied, all is read, and the stamp renewed.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from vtax.errors import ImageError
from vtax.foreign_data import parse_json
from vtax.host.walking import walk
from vtax.image.image import MODULES, Image
from vtax.store.hosts import IMAGE_DIGEST

LIST, STAMP = "contents", "contents.stamp"
_CHUNK_BYTES = 1 << 20
_ZEROS = bytes(_CHUNK_BYTES)
_OF_GUESTS = frozenset({"tree", "vmlinuz", "vmlinux", MODULES, "initrd.cpio"})
_MAX_NAMES = 3  # of the files that differ, in an error


def record(image: Image) -> None:
    """Write the list of an image's contents as they are now, and the stamp."""
    now = _stamp(image.directory)
    (image.directory / LIST).write_text("".join(f"{line}\n" for line in _lines(image.directory)))
    (image.directory / STAMP).write_text(now)


def stamp(image: Image) -> None:
    """Note that all of an image was compared with its list."""
    (image.directory / STAMP).write_text(_stamp(image.directory))


def digest(image: Image) -> str:
    """Return the SHA-256 of what guests get of an image: its tree, kernel, modules and initrd; empty without a list.

    Times do not count, nor do the archive and the disk, which are made of the tree. The caller has checked the image.
    """
    try:
        lines = (image.directory / LIST).read_text().splitlines()
    except OSError:
        return ""
    sha256 = hashlib.sha256()
    for name, line in sorted(_by_name(lines).items()):
        if parse_json(name).partition("/")[0] in _OF_GUESTS:
            sha256.update(f"{line}\n".encode())
    return sha256.hexdigest()


def facts(image: Image) -> dict[str, str]:
    """Return the facts of an image that a run and its sessions keep, beside those of the host."""
    of_guests = digest(image)
    if of_guests and image.is_own:
        of_guests = hashlib.sha256(f"{of_guests} {digest(image.of_peers)}".encode()).hexdigest()
    return {IMAGE_DIGEST: of_guests} if of_guests else {}


def check(image: Image) -> None:
    """Raise ImageError, naming what differs, when the image is not as it was built."""
    list_file = image.directory / LIST
    if not list_file.exists():
        raise _not_as_built(image, [f'"{LIST}" is missing'])
    stamp_file, current = image.directory / STAMP, _stamp(image.directory)
    with suppress(OSError):
        if stamp_file.read_text() == current:
            return
    changes = [f"{name} {change}" for name, change in differing(image).items()]
    if changes:
        raise _not_as_built(image, changes)
    with suppress(OSError):  # images that are mounted read-only are read whole each time
        stamp_file.write_text(current)


def differing(image: Image) -> dict[str, str]:
    """Return the files that differ from the list: name, in quotes -> `was added`, `was changed` or `is missing`.

    Reads all files.

    Raises ValueError for a list that is none.
    """
    before = _by_name((image.directory / LIST).read_text().splitlines())
    now = _by_name(_lines(image.directory))
    changes = {}
    for name in sorted({**before, **now}):
        if name not in before:
            changes[name] = "was added"
        elif name not in now:
            changes[name] = "is missing"
        elif before[name] != now[name]:
            changes[name] = "was changed"
    return changes


def digest_of_files(top: Path) -> str:
    """Return the SHA-256 of a directory's files: names, modes, owners and contents, no times."""
    return hashlib.sha256("\n".join(sorted(_lines(top))).encode()).hexdigest()


def _not_as_built(image: Image, changes: list[str]) -> ImageError:
    rest = f" and {len(changes) - _MAX_NAMES} more" if len(changes) > _MAX_NAMES else ""
    return ImageError(
        f"image {image.key} is not as it was built: {', '.join(changes[:_MAX_NAMES])}{rest}",
        where=str(image.directory),
        hint=f"sudo vtax image remove {image.key}, then build it again: sudo vtax image build",
    )


def _walk(top: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Walk an image in order, but for its list and its stamp."""
    for name, status in walk(top, in_order=True):
        if name not in (LIST, STAMP):
            yield name, status


def _stamp(top: Path) -> str:
    digest = hashlib.sha256()
    for name, status in _walk(top):
        facts = (
            status.st_mode,
            status.st_uid,
            status.st_gid,
            status.st_size,
            status.st_rdev,
            status.st_ino,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        digest.update(f"{json.dumps(name)} {facts}\n".encode())
    return digest.hexdigest()


def _lines(top: Path) -> list[str]:
    """Return a JSON array for every file: name, mode with type, owner, group, content, file capabilities."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda file: _line(top, *file), list(_walk(top))))


def _line(top: Path, name: str, status: os.stat_result) -> str:
    path, owner = top / name, (status.st_uid, status.st_gid)
    content = _content_of(path, status)
    return json.dumps([name, oct(status.st_mode), *owner, content, _capabilities(path)])


def _by_name(lines: list[str]) -> dict[str, str]:
    return {json.dumps(parse_json(line)[0]): line for line in lines}


def _content_of(path: Path, status: os.stat_result) -> str:
    if stat.S_ISREG(status.st_mode):
        return _hash(path, status.st_size)
    if stat.S_ISLNK(status.st_mode):
        return str(path.readlink())
    return str(status.st_rdev)


def _hash(path: Path, size: int) -> str:
    """SHA-256 of a file's size and, with their places, its chunks that hold more than zeros: disks are sparse."""
    digest = hashlib.sha256(str(size).encode())
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        at = 0
        while at < size:
            at = _next_data(descriptor, at) // _CHUNK_BYTES * _CHUNK_BYTES
            chunk = os.pread(descriptor, _CHUNK_BYTES, at)
            if not chunk:
                break
            if chunk != _ZEROS[: len(chunk)]:
                digest.update(b"%d:" % at + chunk)
            at += _CHUNK_BYTES
    finally:
        os.close(descriptor)
    return digest.hexdigest()


def _next_data(descriptor: int, at: int) -> int:
    """Return where the next byte is that is not in a hole; the end of the file when there is none."""
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError:
        return os.fstat(descriptor).st_size


def _capabilities(path: Path) -> str:
    with suppress(OSError):
        return os.getxattr(path, "security.capability", follow_symlinks=False).hex()
    return ""
