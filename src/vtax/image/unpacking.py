"""Unpacks the archive of an image that came from elsewhere, member by member, into a directory of root alone.

Its content is untrusted. Every parent of a name is a directory that was made before, never a link, so nothing leaves
the directory; members are files, directories, links and the devices that guests need, each name once; names, headers,
files and their number are bounded before anything of their size is read.
"""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from vtax.image.contents import LIST
from vtax.image.image import MODULES
from vtax.limits import CARRIED_IMAGE
from vtax.units import about_size

MAX_MEMBERS = CARRIED_IMAGE.count
MAX_BYTES = CARRIED_IMAGE.size_bytes
MANIFEST, TREE = "manifest.json", "tree"
FILES = (LIST, MANIFEST, "vmlinuz", "vmlinux", "initrd.cpio")
DIRECTORIES = (MODULES, TREE)
_OPTIONAL = ("vmlinux",)
_MAX_BYTES_OF = {LIST: 128 << 20, MANIFEST: 1 << 20}  # that are read at once
_MAX_NAME, _MAX_AT_ONCE, _MAX_CAPABILITY = 4096, 1 << 20, 24
"""Bytes; a header of tar is read at once."""
_MAX_ID = 1 << 31
_CHUNK_BYTES = 1 << 18
_DEVICES = {
    "console": (5, 1),
    "full": (1, 7),
    "null": (1, 3),
    "ptmx": (5, 2),
    "random": (1, 8),
    "tty": (5, 0),
    "urandom": (1, 9),
    "zero": (1, 5),
}
_CAPABILITY = "SCHILY.xattr.security.capability"


class Forward(io.RawIOBase):
    """A stream that is read once, forward, and not in pieces that fill the memory. is_read: to its end."""

    def __init__(self, source: IO[bytes]) -> None:
        super().__init__()
        self._source = source
        self._at = 0
        self.is_read = False

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes, fewer at the end. Raises ValueError for more than a header has."""
        if not 0 <= size <= _MAX_AT_ONCE:
            raise ValueError("a header is too long")
        chunk = self._source.read(size)
        self._at += len(chunk)
        return chunk

    def seek(self, at: int, whence: int = 0) -> int:
        """Read on to a place. Raises ValueError for one before, and beyond the end."""
        if (at, whence) == (0, io.SEEK_CUR):
            return self._at
        if whence or at < self._at:
            raise ValueError("a member is not where it should be")
        while self._at < at:
            if not self.read(min(_CHUNK_BYTES, at - self._at)):
                raise ValueError("its end is missing")
        return self._at

    def check_end(self) -> None:
        """Raise ValueError when more follows than the padding of an archive."""
        rest = self.read(_MAX_AT_ONCE)
        if rest.strip(b"\0") or len(rest) == _MAX_AT_ONCE:
            raise ValueError("something follows its end")
        self.is_read = True


@dataclass
class Unpacking:
    """Unpacks an archive of an image into a directory that is empty and root's alone."""

    top: Path
    stream: Forward
    archive: tarfile.TarFile = field(init=False)
    _kinds: dict[str, str] = field(default_factory=dict)
    """Name of a member -> file, directory or other."""
    _times: list[tuple[Path, int, int]] = field(default_factory=list)
    """Path, mode and time of directories, which their members change."""
    _bytes: int = 0

    def __post_init__(self) -> None:
        self.archive = tarfile.TarFile(
            fileobj=self.stream, encoding="utf-8", errors="surrogateescape"
        )

    def first_two(self) -> None:
        """Unpack the list of contents and the manifest, which come first."""
        for name in FILES[:2]:
            member = self._next()
            if member is None or member.name != name or member.size > _MAX_BYTES_OF[name]:
                raise ValueError(f"{name} is not where it should be")
            self._add(member)

    def rest(self) -> None:
        """Unpack everything else, and set modes and times of directories."""
        while member := self._next():
            self._add(member)
        self.stream.check_end()
        missing = sorted({*FILES, *DIRECTORIES} - {*self._kinds, *_OPTIONAL})
        if missing:
            raise ValueError(f"{missing[0]} is missing")
        for path, mode, time_ns in reversed(self._times):
            path.chmod(mode)
            os.utime(path, ns=(time_ns, time_ns))

    def _next(self) -> tarfile.TarInfo | None:
        member = self.archive.next()
        self.archive.members = []  # type: ignore[attr-defined]  # kept otherwise
        return member

    def _add(self, member: tarfile.TarInfo) -> None:
        path = self._target(member)
        kind = "other"
        if member.isdir():
            kind = "directory"
            path.mkdir(mode=0o700)
        elif member.islnk():
            self._link(member, path)
        elif member.issym():
            if not 0 < len(os.fsencode(member.linkname)) < _MAX_NAME or "\0" in member.linkname:
                raise ValueError("a link leads nowhere")
            path.symlink_to(member.linkname)
        elif member.ischr():
            self._device(member, path)
        elif member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse():
            kind = "file"
            self._copy(member, path)
        else:
            raise ValueError(f"{_quote(member.name)} is neither file, directory nor link")
        self._kinds[member.name] = kind
        if not member.islnk():
            self._describe(member, path, kind)

    def _target(self, member: tarfile.TarInfo) -> Path:
        """Return the path that a member is unpacked to. Raises ValueError for a name that is not allowed."""
        name, parts = member.name, member.name.split("/")
        first = DIRECTORIES if len(parts) > 1 or member.isdir() else FILES
        if (
            parts[0] not in first
            or any(part in ("", ".", "..") or len(os.fsencode(part)) > 255 for part in parts)
            or len(os.fsencode(name)) >= _MAX_NAME
            or "\0" in name
            or name in self._kinds
            or (len(parts) > 1 and self._kinds.get("/".join(parts[:-1])) != "directory")
            or (len(parts) == 1 and name in FILES and not member.isreg())
        ):
            raise ValueError(f"{_quote(name)} may not be there")
        if len(parts) > CARRIED_IMAGE.depth:
            raise ValueError(f"it has directories nested more than {CARRIED_IMAGE.depth} deep")
        self._bytes += member.size if member.isreg() else 0
        if len(self._kinds) >= MAX_MEMBERS or self._bytes > MAX_BYTES or member.size < 0:
            raise ValueError(f"it holds more than {MAX_MEMBERS} files or {about_size(MAX_BYTES)}")
        return self.top / name

    def _link(self, member: tarfile.TarInfo, path: Path) -> None:
        if self._kinds.get(member.linkname) != "file":
            raise ValueError(f"{_quote(member.name)} is a link to no file of it")
        os.link(self.top / member.linkname, path, follow_symlinks=False)

    def _device(self, member: tarfile.TarInfo, path: Path) -> None:
        if not member.name.startswith(f"{TREE}/dev/") or _DEVICES.get(path.name) != (
            member.devmajor,
            member.devminor,
        ):
            raise ValueError(f"{_quote(member.name)} is a device that no guest needs")
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(member.devmajor, member.devminor))

    def _copy(self, member: tarfile.TarInfo, path: Path) -> None:
        remaining_bytes = member.size
        with path.open("xb") as target:
            while remaining_bytes:
                chunk = self.stream.read(min(_CHUNK_BYTES, remaining_bytes))
                if not chunk:
                    raise ValueError("its end is missing")
                target.write(chunk)
                remaining_bytes -= len(chunk)

    def _describe(self, member: tarfile.TarInfo, path: Path, kind: str) -> None:
        """Set owner, mode, time and capabilities."""
        if not (0 <= member.uid < _MAX_ID and 0 <= member.gid < _MAX_ID):
            raise ValueError(f"{_quote(member.name)} belongs to nobody")
        os.chown(path, member.uid, member.gid, follow_symlinks=False)
        time_ns, mode = _time_ns(member), stat.S_IMODE(member.mode)
        if kind == "directory":
            self._times.append((path, mode, time_ns))
            return
        if not member.issym():
            path.chmod(mode)
        if capability := _capability(member.pax_headers):
            if kind != "file":
                raise ValueError(f"{_quote(member.name)} has capabilities and is no file")
            os.setxattr(path, "security.capability", capability, follow_symlinks=False)
        os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)


def _capability(headers: Mapping[str, Any]) -> bytes:
    capability = str(headers.get(_CAPABILITY, "")).encode("utf-8", "surrogateescape")
    if len(capability) > _MAX_CAPABILITY:
        raise ValueError("a capability is too long")
    return capability


def _time_ns(member: tarfile.TarInfo) -> int:
    """Return the time of a member's last change, nanoseconds: exact, where a float is not."""
    seconds, _, fraction = str(member.pax_headers.get("mtime", int(member.mtime))).partition(".")
    time_ns = int(seconds) * 10**9 + int(f"{fraction[:9]:0<9}" or 0)
    if not 0 <= time_ns < 1 << 62:
        raise ValueError("a time is none")
    return time_ns


def _quote(name: str) -> str:
    """Return a name as errors quote it."""
    return json.dumps(name)[:80]
