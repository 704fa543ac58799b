"""The policy of what the root of a guest on this host's kernel may do, the same for every driver.

The runtime's own ways stay, so that podman is the distribution's podman; what this policy asks beyond them is added:

- capabilities: those of `capabilities` and no others, in every set;
- system calls: the guest's first program, `vtax-confine` of the image, allows itself those of one list, in addition
  to the runtime's own filter, and joins a session keyring of its own;
- /proc and /sys: `close` mounts over what the policy leaves out, once the guest's first process waits, and no guest runs
  where one of these mounts fails.

`confinement = "none"` and the platform native are held by nothing of this. The check `confinement` of `vtax
conformance` tries from within what docs/security.md tells of every driver.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Literal

from vtax.guest.bootstrap import CONFINE, HIDDEN
from vtax.host import namespaces
from vtax.host.namespaces import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REMOUNT,
    MountStep,
)
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

_PROC, _SYS = Path("/proc"), Path("/sys")
_OF_PROCESSES = frozenset({"self", "thread-self", "mounts", "net", "sysvipc"})
_NAMES_OF_KEYS = (
    "/proc/keys",
    "/proc/kcore",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/timer_stats",
)
_DIRECTORIES_OF_PROC = ("/proc/acpi", "/proc/scsi")
_KEPT_OF_SYS = frozenset({"block", "bus", "class", "dev", "devices", "fs", "kernel"})
_CGROUPS = "/sys/fs/cgroup"
_KMSG = "/proc/kmsg"
_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC


def capabilities(
    privileges: Collection[Privilege] = (), confinement: Confinement = "default"
) -> tuple[str, ...]:
    """Return the capabilities of a guest's root, without the prefix CAP_, in the order of the alphabet."""
    if confinement == "strict":
        return ()
    granted = set(KEPT_CAPABILITIES)
    for privilege, name in _CAPABILITY_OF.items():
        if privilege in privileges:
            granted.add(name)
    return tuple(sorted(granted))


def other_capabilities(names: Collection[str]) -> list[int]:
    """Return the numbers of all other capabilities of this kernel, for a runtime that takes what to drop."""
    kept_numbers = numbers(names)
    return [number for number in range(int(_LAST.read_text()) + 1) if number not in kept_numbers]


def numbers(names: Collection[str]) -> frozenset[int]:
    """Return the kernel's numbers of capabilities."""
    return frozenset(_NUMBERS[name] for name in names)


def command(privileges: Collection[Privilege], argv: Sequence[str]) -> list[str]:
    """Return the command that confines itself in a guest and becomes argv there."""
    return [CONFINE, *sorted(privileges), "--", *argv]


def is_confined(argv: Sequence[str]) -> bool:
    """Whether a guest's first program confines itself."""
    return argv[0] == CONFINE


def becomes(argv: Sequence[str]) -> Sequence[str]:
    """Return the command that a guest's first program runs in the end, confined or not."""
    return argv[argv.index("--") + 1 :] if is_confined(argv) else argv


def close(pid: int) -> None:
    """Take from a guest what the policy leaves out of /proc and /sys, whatever its runtime has mounted there.

    pid: of its first process, which waits. Raises OSError where one of these mounts cannot be made.
    """
    cgroups = []
    unlinked_files = []
    for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        root, place = line.split()[3:5]
        if f"{place}/".startswith(f"{_CGROUPS}/"):
            cgroups.append(Path(place))
        elif place == _KMSG and "//deleted" in root:
            unlinked_files.append(place)
    to_read = MS_BIND | MS_REMOUNT | MS_RDONLY | _FLAGS
    unwritten = read_only()  # as this host shows them, not the guest
    files, directories = hidden()

    def mount_over() -> None:
        for place in unlinked_files:  # by nspawn from its directory: nothing can be mounted over it
            namespaces.unmount(place)
        for path in cgroups:
            namespaces.mount(MountStep(path, source=path, flags=to_read))
        for path in unwritten:
            for flags in (MS_BIND, to_read):
                namespaces.mount(MountStep(path, source=path, flags=flags))
        for path in filter(Path.exists, files):
            namespaces.mount(MountStep(path, source=HIDDEN, flags=MS_BIND))
        for path in filter(Path.exists, directories):
            namespaces.mount(MountStep(path, "tmpfs", "tmpfs", _FLAGS | MS_RDONLY, "size=4k"))

    namespaces.within(pid, mount_over)


def prepare() -> None:
    """Ask the kernel what is to be closed, once for all guests of this process."""
    read_only()
    hidden()


@cache
def read_only() -> tuple[Path, ...]:
    """Return what of /proc is not of a process and has something that can be written: directories and files.

    It is asked of this host's kernel, which the guests share, and is no list of names: what a later kernel adds is
    among it.
    """
    return tuple(path for path in _kernel_paths() if any(_walk_files(path, 0o222)))


@cache
def hidden() -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the files and the directories of /proc and /sys that a guest does not see.

    Files that root alone may read, since some of them act when they are read; the directory of many of them; and
    what of /sys no benchmark needs. As `read_only`, it is asked of the kernel.
    """
    files: list[Path] = []
    for top in _kernel_paths():
        files += _root_files(top)
    files += [path for path in map(Path, _NAMES_OF_KEYS) if path.exists() and path not in files]
    directories = [path for path in map(Path, _DIRECTORIES_OF_PROC) if path.is_dir()]
    directories += [path for path in _SYS.iterdir() if path.name not in _KEPT_OF_SYS]
    directories += [path for path in (_SYS / "fs").iterdir() if str(path) != _CGROUPS]
    for parent in (_SYS / "kernel", _SYS / "kernel/mm", _SYS / "class"):
        for path in parent.iterdir():
            if path.is_dir() and path.name != "mm" and any(_root_files(path)):
                directories.append(path)
    files += _root_files(_SYS / "devices")
    return tuple(files), tuple(directories)


def _kernel_paths() -> list[Path]:
    """Return what of /proc is not of a process."""
    paths = []
    for entry in sorted(_PROC.iterdir()):
        is_of_process = entry.name.isdigit() or entry.name in _OF_PROCESSES
        if not is_of_process and not entry.is_symlink():
            paths.append(entry)
    return paths


def _root_files(top: Path) -> Iterator[Path]:
    """Yield the files that root alone may read, at and below a path. Settings of a network are the guest's own."""
    for path in _walk_files(top, 0o400):
        with suppress(OSError):
            if not path.lstat().st_mode & 0o004 and not path.is_relative_to("/proc/sys/net"):
                yield path


def _walk_files(top: Path, mode: int) -> Iterator[Path]:
    """Yield files with one of these bits, at and below a path, without following links."""
    top_mode = top.lstat().st_mode
    if stat.S_ISREG(top_mode) and top_mode & mode:
        yield top
    directories = [str(top)] if stat.S_ISDIR(top_mode) else []
    while directories:
        try:
            entries = list(os.scandir(directories.pop()))
        except OSError:  # gone, or closed to everybody
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mode & mode:
                        yield Path(entry.path)
