"""Namespaces and mounts made in a child between fork and exec, so that they end with it and never touch the host.

A guest's or a private daemon's mounts are made in a mount namespace of its own: when its last process ends, killed
or not, the kernel takes every one of them away, and the host's mount table never showed them. What the host unmounts
meanwhile is unmounted there too (MS_SLAVE), so nothing of the host's is kept busy. Python 3.11 has no `unshare` or
`mount`, so the C library is called directly; everything is encoded before the fork.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import BadInput

# <linux/sched.h> and <sys/mount.h>
CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 0x20, 0x1000, 0x4000, 0x80000
UNTRUSTED = MS_NOSUID | MS_NODEV
"""Flags of every file system that a guest writes: its setuid bits and device nodes have no effect on this host."""
_MNT_DETACH = 2
_OVERLAY_SPECIAL = frozenset(":,\\")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class MountStep:
    """One mount(2) call. flags: MS_* values. data: of the file system, such as overlay's directories."""

    target: Path
    kind: str = ""
    source: Path | str = "none"
    flags: int = 0
    data: str = ""


def bind(source: Path, target: Path) -> MountStep:
    """A directory and everything mounted below it, visible at a second place."""
    return MountStep(target, source=source, flags=MS_BIND | MS_REC)


def untrusted(target: Path) -> MountStep:
    """The flags of what a guest writes, for a bind mount that is already at target: a bind mount ignores flags."""
    return MountStep(target, flags=MS_REMOUNT | MS_BIND | UNTRUSTED)


def tmpfs(target: Path, mode: int = 0o755) -> MountStep:
    """An empty tmpfs."""
    return MountStep(target, "tmpfs", "tmpfs", UNTRUSTED, f"mode={mode:o}")


def overlay(lower: Path, upper: Path, work: Path, target: Path) -> MountStep:
    """lower at target, nosuid and nodev, with every change kept in upper.

    Raises BadInput for a path that overlayfs cannot use.
    """
    for path in (lower, upper, work):
        if _OVERLAY_SPECIAL & set(str(path)):
            raise BadInput(
                f"overlayfs cannot use {path}: it contains ':', ',' or a backslash", cure="move VTAX_HOME elsewhere"
            )
    return MountStep(target, "overlay", "overlay", UNTRUSTED, f"lowerdir={lower},upperdir={upper},workdir={work}")


def private(
    mounts: Sequence[MountStep] = (),
    *,
    network: bool = False,
    new_root: Path | None = None,
    join: Sequence[int] = (),
    network_of: int | None = None,
) -> Callable[[], None]:
    """What to run between fork and exec (host.process.spawn, before_exec).

    Joins the cgroups whose open cgroup.procs files are given, enters a new mount namespace (and, with network, a new
    and empty network namespace; with network_of, the one of this open file), makes the mounts in order, and makes
    new_root the root directory, leaving nothing of the old one reachable. A step that fails is named on stderr and
    raises OSError, which spawn reports.
    """
    steps = [_encode(step) for step in mounts]
    flags = CLONE_NEWNS | (CLONE_NEWNET if network else 0)
    root = os.fsencode(new_root) if new_root else None

    def enter() -> None:
        for fd in join:
            _write_self(fd)
        if network_of is not None:
            _check(_libc.setns(network_of, CLONE_NEWNET), "entering the network namespace")
        _check(_libc.unshare(flags), "unshare")
        _check(_libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None), "making mounts private")
        for source, target, kind, step_flags, data in steps:
            _check(_libc.mount(source, target, kind, step_flags, data), f"mounting {os.fsdecode(target)}")
        if network:
            _loopback_up()
        if root:
            os.chdir(root)
            _check(_libc.pivot_root(b".", b"."), "pivot_root")
            _check(_libc.umount2(b".", _MNT_DETACH), "detaching the old root")
            os.chdir("/")

    return enter


def _encode(step: MountStep) -> tuple[bytes, bytes, bytes | None, int, bytes | None]:
    return (
        os.fsencode(step.source),
        os.fsencode(step.target),
        step.kind.encode() or None,
        step.flags,
        os.fsencode(step.data) or None,
    )


def _write_self(fd: int) -> None:
    try:
        os.write(fd, b"0")
    except OSError as error:
        _complain("joining the cgroup", error)
        raise


def _check(status: int, what: str) -> None:
    if status != 0:
        number = ctypes.get_errno()
        error = OSError(number, f"{what}: {os.strerror(number)}")
        _complain(what, error)
        raise error


def _complain(what: str, error: OSError) -> None:
    os.write(2, f"vtax: {what}: {error.strerror}\n".encode())


def _loopback_up() -> None:
    """SIOCSIFFLAGS with IFF_UP on `lo` (netdevice(7)): a guest's own loopback works on every platform."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 1))
