"""The policy of what the root of a guest on this host's kernel may do, the same for every driver.

The runtime's own ways stay, so that podman is the distribution's podman; what this policy asks beyond them is added:

- capabilities: those of `capabilities` and no others, in every set;
- system calls: the guest's first program, `vtax-confine` of the image, allows itself those of one list, in addition
  to the runtime's own filter, and joins a session keyring of its own;
- /proc and /sys: nothing can be written but what belongs to the guest's processes; a driver that mounts them itself
  takes `read_only` and `hidden`.

`confinement = "none"` and the platform native are held by nothing of this. The check `confinement` of `vtax
conformance` tries from within what docs/security.md tells of every driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Literal

from vtax.guest.bootstrap import CONFINE
from vtax.study.fields import Privilege

Confinement = Literal["none", "default", "strict"]
Isolation = Literal["confined", "kernel", "nothing"]

KEPT_CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
"""A guest's root has them: installing software and serving need these, all of it within the guest's own namespaces."""
_NUMBERS = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "NET_RAW": 13,
    "SYS_CHROOT": 18,
    "SYS_NICE": 23,
    "SETFCAP": 31,
}
"""As <linux/capability.h> has them."""
_LAST = Path("/proc/sys/kernel/cap_last_cap")
_CAPABILITY_OF = {"raw-sockets": "NET_RAW", "real-time": "SYS_NICE"}

_PROC = Path("/proc")
_OF_PROCESSES = frozenset({"self", "thread-self", "mounts", "net", "sysvipc"})
_HIDDEN_FILES = (
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/timer_list",
    "/proc/timer_stats",
)
_HIDDEN_DIRECTORIES = (
    "/proc/acpi",
    "/proc/scsi",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
)


def capabilities(
    privileges: Collection[Privilege] = (), confinement: Confinement = "default"
) -> tuple[str, ...]:
    """Return the capabilities of a guest's root, without the prefix CAP_, in the order of the alphabet."""
    if confinement == "strict":
        return ()
    granted = {name for privilege, name in _CAPABILITY_OF.items() if privilege in privileges}
    return tuple(sorted({*KEPT_CAPABILITIES, *granted}))


def other_capabilities(kept: Collection[str]) -> list[int]:
    """Return the numbers of all other capabilities of this kernel, for a runtime that takes what to drop."""
    known = numbers(kept)
    return [number for number in range(int(_LAST.read_text()) + 1) if number not in known]


def numbers(names: Collection[str]) -> frozenset[int]:
    """Return the kernel's numbers of capabilities."""
    return frozenset(_NUMBERS[name] for name in names)


def command(privileges: Collection[Privilege], argv: Sequence[str]) -> list[str]:
    """Return the command that confines itself in a guest and becomes argv there."""
    return [CONFINE, *sorted(privileges), "--", *argv]


def becomes(argv: Sequence[str]) -> Sequence[str]:
    """Return the command that a guest's first program runs in the end, confined or not."""
    return argv[argv.index("--") + 1 :] if argv[0] == CONFINE else argv


@cache
def read_only() -> tuple[str, ...]:
    """Return what of /proc is not of a process and has something that can be written: directories and files.

    It is asked of this host's kernel, which the guests share, and is no list of names: what a later kernel adds is
    among it.
    """
    of_kernel = [
        entry
        for entry in sorted(_PROC.iterdir())
        if not (entry.name.isdigit() or entry.name in _OF_PROCESSES or entry.is_symlink())
    ]
    return tuple(str(entry) for entry in of_kernel if any(_written(entry)))


def _written(top: Path) -> Iterator[Path]:
    """Yield files at and below a path that somebody may write."""
    waiting = [top]
    while waiting:
        path = waiting.pop()
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                waiting += path.iterdir()
            elif path.lstat().st_mode & 0o222 and not path.is_symlink():
                yield path


@cache
def hidden() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files and the directories of /proc and /sys that tell of the host's kernel and are there."""
    files = tuple(path for path in _HIDDEN_FILES if Path(path).exists())
    return files, tuple(path for path in _HIDDEN_DIRECTORIES if Path(path).is_dir())
