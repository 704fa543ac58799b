"""Ids of a user namespace: a guest whose root is an unprivileged user of the host (user_namespaces(7)).

All such guests share one range of 65536 ids. It lies above what useradd hands out as subordinate ids, systemd-nspawn
picks and SSSD assigns to the users of a domain (up to 2000200000), and below systemd's foreign range; a range that a
local file gives to somebody is passed over.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import VtaxError
from vtax.host import namespaces
from vtax.host.process import spawn, start_time_of, tag_of_run

COUNT = 1 << 16
_FIRST, _END = 0x78000000, 0x7FFE0000
"""2013265920; 2147352576, where systemd's foreign range begins."""
_ETC = Path("/etc")


@dataclass(frozen=True)
class IdRange:
    """User and group ids 0 to count - 1 of a namespace are those from first on of the host."""

    first: int
    count: int = COUNT

    @property
    def mapping(self) -> str:
        """The line of /proc/PID/uid_map and gid_map."""
        return f"0 {self.first} {self.count}"

    @property
    def colons(self) -> str:
        """The mapping in the form of container runtimes, `0:FIRST:COUNT`."""
        return self.mapping.replace(" ", ":")


def unused_range(etc: Path = _ETC) -> IdRange:
    """Return the first range that no user, group or owner of subordinate ids has.

    Raises VtaxError when all are taken.
    """
    taken_ranges = [
        *_read_ids(etc / "subuid", 1),
        *_read_ids(etc / "subgid", 1),
        *_read_ids(etc / "passwd", 2),
        *_read_ids(etc / "group", 2),
    ]
    for first in range(_FIRST, _END, COUNT):
        if not any(
            begin < first + COUNT and first < begin + count for begin, count in taken_ranges
        ):
            return IdRange(first)
    raise VtaxError(
        "every range of user ids for guests is taken", where=f"{etc}/subuid, {_FIRST} to {_END - 1}"
    )


@contextmanager
def user_namespace(ids: IdRange) -> Iterator[int]:
    """Yield an open user namespace that maps these ids. It is made by a process that ends before this returns.

    Raises VtaxError where the kernel makes none.
    """
    try:
        maker = spawn(
            ["cat"],
            tag=tag_of_run(os.getpid(), start_time_of(os.getpid())),
            stdin=subprocess.PIPE,
            before_exec=namespaces.enter_user_namespace,
        )
    except subprocess.SubprocessError as error:
        raise VtaxError(
            "this kernel makes no user namespace",
            hint="sysctl user.max_user_namespaces=65536, or a kernel with them",
        ) from error
    with maker:
        process = Path(f"/proc/{maker.pid}")
        for name in ("uid_map", "gid_map"):
            (process / name).write_text(ids.mapping)
        namespace = os.open(process / "ns/user", os.O_RDONLY | os.O_CLOEXEC)
        maker.communicate()
    try:
        yield namespace
    finally:
        os.close(namespace)


def _read_ids(path: Path, column: int) -> list[tuple[int, int]]:
    """Return the first id and the number of ids of each line of a file; of a missing file none.

    column: of the first id. Lines of subuid and subgid, with column 1, have the number of ids after it.
    """
    ids = []
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        numbers = line.split(":")[column : column + (2 if column == 1 else 1)]
        if numbers and all(number.isdecimal() for number in numbers):
            count = int(numbers[1]) if len(numbers) > 1 else 1
            ids.append((int(numbers[0]), count))
    return ids
