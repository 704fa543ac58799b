"""Directories of this host that a guest mounts: by 9p, which QEMU serves, or by virtiofsd.

Its root is the overlay that containers have, in a mount namespace of whoever serves it; its data are in an empty
directory. What the guest's root does in them is done on this host by a process of root without CAP_MKNOD: no device
node comes into being.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from vtax.errors import PlatformError
from vtax.host import namespaces
from vtax.host.namespaces import MountStep
from vtax.host.packages import packages_hint
from vtax.host.process import find_program, spawn
from vtax.messages import Note
from vtax.platforms import containers
from vtax.platforms.base import GuestSpec
from vtax.platforms.qemu.command import QemuOptions, SharedDirectory
from vtax.platforms.stdio import Claim

PLACES = ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")  # of Debian 13 and 12
_PR_CAPBSET_DROP, _CAP_MKNOD = 24, 27  # <linux/prctl.h>, <linux/capability.h>
_libc = ctypes.CDLL(None, use_errno=True)


def daemon() -> str | None:
    """Return the path of virtiofsd; None where it is not installed."""
    return next((place for place in PLACES if Path(place).exists()), find_program("virtiofsd"))


def entering(mounts: Sequence[MountStep], join: Sequence[int]) -> Callable[[], None]:
    """Between fork and exec: into the cgroup and a mount namespace with these mounts, without CAP_MKNOD."""
    into = namespaces.private(mounts, join=join)

    def enter() -> None:
        into()
        if _libc.prctl(_PR_CAPBSET_DROP, _CAP_MKNOD, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "dropping CAP_MKNOD")

    return enter


def of_guest(options: QemuOptions, spec: GuestSpec) -> tuple[SharedDirectory, ...]:
    """Make the directories that a guest is to mount. Raises OSError, PlatformError."""
    shares = []
    if options.root != "disk":
        root = containers.overlay_root(spec)
        shares.append(SharedDirectory("root", options.root, root.path, root.mount))
    if options.data != "root":
        path = spec.directory / "data"
        path.mkdir()
        path.chmod(0o1777)
        shares.append(SharedDirectory("data", options.data, path))
    return tuple(shares)


def serve(
    directory: Path,
    share: SharedDirectory,
    guest_claim: Claim,
    errors: int,
    enter: Callable[[], None],
) -> socket.socket:
    """Start virtiofsd for a directory, and return the socket that QEMU is to have.

    directory: of the guest. enter: between fork and exec, see `entering`. Raises CommandFailed, OSError, and
    PlatformError without virtiofsd.
    """
    program = daemon()
    if program is None:
        raise PlatformError(
            Note("not-installed", names=("virtiofsd",), count=1), hint=packages_hint("virtiofsd")
        )
    fd = os.open(directory, os.O_PATH | os.O_CLOEXEC)
    try:
        name = f"/proc/self/fd/{fd}/virtiofs-{share.tag}"  # short, wherever the directory is
        client = socket.socket(socket.AF_UNIX)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)
            listener.listen(1)
            client.connect(name)
            service = f"source={share.path},cache=auto,modcaps=-mknod"
            options = ["-f", f"--fd={listener.fileno()}", "--rlimit-nofile=0", "-o", service]
            guest_claim.beside.append(
                spawn(
                    [program, *options],
                    tag=guest_claim.tag,
                    stderr=errors,
                    pass_fds=(listener.fileno(),),
                    before_exec=enter,
                )
            )
        return client
    finally:
        os.close(fd)
