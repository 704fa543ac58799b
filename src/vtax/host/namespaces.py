"""Creates namespaces and mounts in a child between fork and exec, so that they end with it and are not on the host.

A guest's or a private daemon's mounts are made in a mount namespace of its own: when its last process ends, killed
or not, the kernel removes them; the host's mount table never contains them. Unmounts on the host propagate to it
(MS_SLAVE), so that it keeps no file system of the host busy. Python 3.11 has no `unshare` or
`mount`, so the C library is called directly; everything is encoded before the fork.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

from vtax.errors import BadInput

# <linux/sched.h> and <sys/mount.h>
_CLONE_FS = 0x00000200
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 0x20, 0x1000, 0x4000, 0x80000
UNTRUSTED = MS_NOSUID | MS_NODEV
"""Flags of every file system that a guest writes: its setuid bits and device nodes have no effect on this host."""
_MNT_DETACH = 2
# <linux/mount.h>, <linux/fcntl.h> and <asm/unistd.h>; these calls have one number on all architectures
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH, _AT_EMPTY_PATH, _AT_FDCWD = 1, 4, 0x1000, -100
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_IDMAP = 0x1, 0x100000
MAPPING_IDS = "mapping the ids of"  # in the error of a failed step
OVERLAY_SPECIAL = frozenset(":,\\")
"""Characters that a path in the options of an overlay cannot have."""

_DEVICES = {
    "full": (1, 7),
    "null": (1, 3),
    "random": (1, 8),
    "tty": (5, 0),
    "urandom": (1, 9),
    "zero": (1, 5),
}
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "ptmx": "pts/ptmx",
    "stderr": "/proc/self/fd/2",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
}

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class MountStep:
    """One mount(2) call. flags: MS_* values. data: of the file system, such as overlay's directories.

    make: create target and missing parents first. empty: source is an empty file to create first. id_mapped: not
    mount(2), but source read-only at a second place, where its files belong to the ids that a user namespace maps
    theirs to. devices: make the nodes and links of a /dev there afterwards.
    """

    target: Path
    kind: str = ""
    source: Path | str = "none"
    flags: int = 0
    data: str = ""
    make: bool = False
    empty: bool = False
    id_mapped: bool = False
    devices: bool = False


def bind(source: Path, target: Path) -> MountStep:
    """Return a directory and everything mounted below it, visible at a second place."""
    return MountStep(target, source=source, flags=MS_BIND | MS_REC)


def emptied(target: Path, place: Path) -> MountStep:
    """Return an empty file at the place of a file that is there. place: where to create it."""
    return MountStep(target, source=place, flags=MS_BIND, empty=True)


def made_directory(path: Path, mode: int, user: int = 0, group: int | None = None) -> Path:
    """Make a directory with a mode whatever the umask.

    user, group: its owners, by number; absent, the group has the number of the user.
    """
    path.mkdir()
    if group is None:
        group = user
    if user or group:
        os.chown(path, user, group)
    path.chmod(mode)
    return path


def read_only(source: Path, target: Path) -> list[MountStep]:
    """Return a file or a directory, and nothing mounted below it, that cannot be written at a second place."""
    flags = MS_REMOUNT | MS_BIND | MS_RDONLY | UNTRUSTED
    return [MountStep(target, source=source, flags=MS_BIND), MountStep(target, flags=flags)]


def untrusted(target: Path) -> MountStep:
    """Return the flags of what a guest writes, for a bind mount that is already at target.

    The call that makes a bind mount ignores flags.
    """
    return MountStep(target, flags=MS_REMOUNT | MS_BIND | UNTRUSTED)


def id_mapped(source: Path, target: Path) -> MountStep:
    """Return a directory read-only at a second place, where its files belong to a user namespace's ids.

    That namespace is `ids_of` of `private`.
    """
    return MountStep(target, source=source, id_mapped=True)


def tmpfs(target: Path, mode: int = 0o755, *, size: int | None = None, owner: int = 0) -> MountStep:
    """Return an empty tmpfs.

    size: bytes that it holds at most; absent: half of this host's memory. owner: user and group of its root.
    """
    options = [f"mode={mode:o}"]
    if owner:
        options += [f"uid={owner}", f"gid={owner}"]
    if size is not None:
        options.append(f"size={size}")
    return MountStep(target, "tmpfs", "tmpfs", UNTRUSTED, ",".join(options))


def own_devices(target: Path) -> list[MountStep]:
    """Return a /dev whose nodes are the guest's own files: those of the host, bound there, its root could change."""
    return [
        MountStep(
            target, "tmpfs", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k", devices=True
        ),
        MountStep(
            target / "pts",
            "devpts",
            "devpts",
            MS_NOSUID | MS_NOEXEC,
            "newinstance,mode=620,ptmxmode=666",
            make=True,
        ),
        replace(tmpfs(target / "shm", 0o1777), make=True),
    ]


def overlay(lower: Path, upper: Path, work: Path, target: Path) -> MountStep:
    """lower at target, nosuid and nodev, with every change kept in upper.

    Raises BadInput for a path that overlayfs cannot use.
    """
    for path in (lower, upper, work):
        if OVERLAY_SPECIAL & set(str(path)):
            raise BadInput(
                f"overlayfs cannot use {path}: it contains ':', ',' or a backslash",
                hint="move VTAX_HOME elsewhere",
            )
    return MountStep(
        target, "overlay", "overlay", UNTRUSTED, f"lowerdir={lower},upperdir={upper},workdir={work}"
    )


def private(
    mounts: Sequence[MountStep] = (),
    *,
    network: bool = False,
    new_root: Path | None = None,
    join: Sequence[int] = (),
    ids_of: int | None = None,
    mount_namespace: int | None = None,
) -> Callable[[], None]:
    """Return what to run between fork and exec (host.process.spawn, before_exec).

    Joins the cgroups whose open cgroup.procs files are given, enters a new mount namespace (and, with network, a new
    and empty network namespace), makes the mounts in order, and makes
    new_root the root directory, leaving nothing of the old one reachable. ids_of: an open user namespace, for
    id-mapped mounts. mount_namespace: an open one to enter instead of a new one, where the mounts stay. A failed
    step is printed on stderr and raises OSError, which spawn reports.
    """
    flags = CLONE_NEWNS | (CLONE_NEWNET if network else 0)
    root = os.fsencode(new_root) if new_root else None

    def enter() -> None:
        for fd in join:
            _write_self(fd)
        if mount_namespace is not None:
            _check(_libc.setns(mount_namespace, CLONE_NEWNS), "entering a mount namespace")
        else:
            _check(_libc.unshare(flags), "unshare")
            _check(
                _libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None), "making mounts private"
            )
        for step in mounts:
            _mount(step, ids_of)
        if network:
            _loopback_up()
        if root:
            os.chdir(root)
            _check(_libc.pivot_root(b".", b"."), "pivot_root")
            _check(_libc.umount2(b".", _MNT_DETACH), "detaching the old root")
            os.chdir("/")

    return enter


def within(pid: int, act: Callable[[], None]) -> None:
    """Call act in the mount namespace of a process, with its root directory, in a thread that ends with it.

    No program is executed there: its files may be a guest's. Raises what act raises, and OSError.
    """
    errors: list[BaseException] = []

    def enter() -> None:
        try:
            _check(_libc.unshare(_CLONE_FS), "leaving the root of other threads")
            _check(_libc.setns(namespace.fileno(), CLONE_NEWNS), "entering a mount namespace")
            os.fchdir(root)
            os.chroot(".")
            act()
        except BaseException as error:
            errors.append(error)

    with Path(f"/proc/{pid}/ns/mnt").open("rb") as namespace:
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            thread = Thread(target=enter)
            thread.start()
            thread.join()
        finally:
            os.close(root)
    if errors:
        raise errors[0]


def unmount(place: str) -> None:
    """Unmount what is at a place, now or when nothing uses it any more. Raises OSError."""
    _check(_libc.umount2(os.fsencode(place), _MNT_DETACH), f"unmounting {place}")


def mount(step: MountStep) -> None:
    """Make one mount in the namespace of this thread. Raises OSError."""
    _mount(step, None)


def enter_user_namespace() -> None:
    """Enter a new user namespace without id mappings (between fork and exec). Raises OSError."""
    _check(_libc.unshare(CLONE_NEWUSER), "making a user namespace")


def _mount(step: MountStep, ids_of: int | None) -> None:
    if step.make:
        step.target.mkdir(0o755, parents=True, exist_ok=True)
    if step.empty:
        Path(step.source).touch()
    if step.id_mapped:
        _mount_id_mapped(step, ids_of)
    else:
        source, target, data = map(os.fsencode, (step.source, step.target, step.data))
        status = _libc.mount(source, target, step.kind.encode() or None, step.flags, data or None)
        _check(status, f"mounting {step.target}")
    if step.devices:
        _make_devices(step.target)


def _make_devices(directory: Path) -> None:
    """Make the nodes that everybody may open, and the usual links."""
    for name, (major, minor) in _DEVICES.items():
        os.mknod(directory / name, stat.S_IFCHR, os.makedev(major, minor))
        (directory / name).chmod(0o666)
    for name, leads_to in _DEVICE_LINKS.items():
        (directory / name).symlink_to(leads_to)


def _mount_id_mapped(step: MountStep, ids_of: int | None) -> None:
    """open_tree(2), mount_setattr(2), move_mount(2); Python and older C libraries have none of them."""
    call, what = _libc.syscall, f"{MAPPING_IDS} {step.source}"
    tree = call(_OPEN_TREE, _AT_FDCWD, os.fsencode(step.source), _OPEN_TREE_CLONE | os.O_CLOEXEC)
    _check(min(tree, 0), what)
    attributes = struct.pack("=QQQQ", _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_IDMAP, 0, 0, ids_of or 0)
    _check(
        call(
            _MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, attributes, ctypes.c_size_t(len(attributes))
        ),
        what,
    )
    _check(
        call(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(step.target), _MOVE_MOUNT_F_EMPTY_PATH),
        what,
    )
    os.close(tree)


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
