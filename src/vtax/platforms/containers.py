"""Shared by containers: an overlay over the image's tree as root, and a first process to wait for.

A runtime finds an empty /run and /dev/shm in a mount namespace of its own, where the overlay is mounted too, so its
mounts, sockets and records live in memory that ends with its processes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field

from vtax.errors import PlatformError
from vtax.host import cgroups, namespaces
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.namespaces import MountStep
from vtax.host.user_namespace import IdRange, unused_range
from vtax.host.waiting import wait_until
from vtax.messages import Note
from vtax.platforms import alike, confinement, scratch, user_network
from vtax.platforms.base import GuestSpec
from vtax.platforms.confinement import Confinement
from vtax.platforms.options import Choice, CpuLimited, Scratched
from vtax.platforms.stdio import REACHABLE_ROOT, StdioGuest, describe, limits
from vtax.platforms.user_network import Network

_START_TIMEOUT_S = 60.0
CLIENTS = "runtime"
"""Below a guest's cgroup: what starts the container, outside of its limits (stdio.Program, subgroup)."""
DROPPED_CAPABILITIES = ("MKNOD", "SYS_ADMIN")
"""Dropped without confinement, too: with these a root makes device nodes, or mounts the host's, and opens them to other
users of the host."""


class ProcessOptions(CpuLimited, Scratched):
    """Options of drivers whose guest is processes of this host."""


class ContainerOptions(ProcessOptions):
    """Options of privileges that the guest may gain."""

    userns: bool = Field(
        False, description="a user namespace: the guest's root is an unprivileged user of the host"
    )
    no_new_privileges: bool = Field(
        False,
        description="set no_new_privs without confinement, too: no program gains privileges, set-user-ID or not",
    )
    confinement: Confinement = Field(
        "default",
        description="'none': no filter of system calls, no AppArmor, the runtime's capabilities; 'default': the "
        "runtime's filter and vtax's, eleven capabilities; 'strict': the same without capabilities",
    )

    @classmethod
    def choice_behind(cls, fact: str, value: str, baseline: str) -> Choice | None:
        if fact == "seccomp_filters":
            return "confinement", "default", "none"
        return super().choice_behind(fact, value, baseline)


def oci_confinement(options: ContainerOptions, spec: GuestSpec) -> list[str]:
    """Return the options of `podman run` and `docker run` for what a container may do."""
    gains_nothing = options.no_new_privileges or options.confinement == "strict"
    security = ["--security-opt=no-new-privileges"] if gains_nothing else []
    if options.confinement == "none":
        security += ["--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"]
        return [*security, *(f"--cap-drop={name}" for name in DROPPED_CAPABILITIES)]
    if "asynchronous-io" in spec.privileges:  # which the runtime's own filter may refuse
        security.append("--security-opt=seccomp=unconfined")
    capabilities = confinement.capabilities(spec.privileges, options.confinement)
    return [*security, "--cap-drop=ALL", *(f"--cap-add={name}" for name in capabilities)]


@dataclass(frozen=True)
class Root:
    """An overlay over the image's tree.

    path: where it is mounted, in the guest's own mount namespace only.
    ids: the host's ids of its files' owners, when they are not the same.
    lower: what to mount before it then.
    """

    path: Path
    mount: MountStep
    ids: IdRange | None = None
    lower: MountStep | None = None


def overlay_root(spec: GuestSpec, *, userns: bool = False) -> Root:
    """Make the directories of a fresh overlay with an empty /scratch, and its volume; nothing is mounted or copied yet.

    userns: its files belong to the ids of a user namespace of the guest's; only runtime_mounts mounts such a root.
    """
    path, upper, work = (spec.directory / name for name in ("root", "upper", "work"))
    for directory in (path, upper, work):
        directory.mkdir()
    ids = unused_range() if userns else None
    scratch.prepare(spec, ids)
    namespaces.made_directory(upper / scratch.NAME, scratch.MODE, ids.first if ids else 0)
    if ids is None:
        return Root(path, namespaces.overlay(spec.image.tree, upper, work, path))
    os.chown(upper, ids.first, ids.first)
    mount = replace(namespaces.overlay(path, upper, work, REACHABLE_ROOT), make=True)
    return Root(REACHABLE_ROOT, mount, ids, namespaces.id_mapped(spec.image.tree, path))


def runtime_mounts(root: Root) -> list[MountStep]:
    """Return the mounts of a container runtime's mount namespace: the guest's root, and nothing else in /run."""
    tmpfs_mounts = [namespaces.tmpfs(Path("/run")), namespaces.tmpfs(Path("/dev/shm"), 0o1777)]
    return [root.lower, *tmpfs_mounts, root.mount] if root.lower else [root.mount, *tmpfs_mounts]


def wait_for_init(
    guest: StdioGuest,
    argv: Sequence[str],
    find: Callable[[], Iterable[int]] | None = None,
    *,
    sandboxed: bool = False,
) -> int:
    """Return the host's PID of the guest's first process, once it runs argv.

    Limits, namespaces and confinement are in force then.

    find: candidates; everything in the guest's cgroup when absent.
    sandboxed: the host does not see the guest's processes; the first in the container's own cgroup, then.
    Raises PlatformError when it does not appear.
    """
    words = [os.fsencode(word) for word in confinement.becomes(argv)]
    command_line = b"\0".join(words) + b"\0"

    def is_first(pid: int) -> bool:
        if sandboxed:
            return _is_limited(pid)
        return _is_init(pid) and _command_line(pid) == command_line

    def init() -> int:
        for pid in find() if find else guest.group.pids("memory"):
            if is_first(pid):
                return pid
        if guest.process.poll() is not None:
            raise failed("the guest ended while it was starting")
        return 0

    def failed(what: str) -> PlatformError:
        return PlatformError(what, where=describe(guest.process, guest.stderr))

    timeout_s = _START_TIMEOUT_S * timeout_factor()
    late_reason = f"the guest was not running {timeout_s:g} s after its start"
    return wait_until(
        init, timeout_s, 0.001, max_interval_s=0.01, otherwise=lambda: failed(late_reason)
    )


def finish_start(
    guest: StdioGuest,
    spec: GuestSpec,
    argv: Sequence[str],
    find: Callable[[], Iterable[int]] | None = None,
    *,
    network: Network = "kernel",
    sandboxed: bool = False,
    closed: bool = False,
) -> StdioGuest:
    """Wait for the guest's first process, read its limits back, and plug its network namespace.

    network: what carries its packets.
    sandboxed: see wait_for_init; its network is plugged already.
    closed: take from /proc and /sys what confinement leaves out, although argv does not confine itself.
    The guest is stopped when any of it fails. Raises PlatformError.
    """
    try:
        pid = wait_for_init(guest, argv, find, sandboxed=sandboxed)
        guest.executing_at = None if sandboxed else time.monotonic()
        if not sandboxed:
            alike.give(pid, spec.image, spec.resources.memory_bytes)
        if closed or confinement.is_confined(argv):
            confinement.close(pid)
        group = cgroups.group_of(pid)
        group.limit_time(spec.resources.time)
        guest.notes += tuple(group.check(limits(spec)))
        guest.limited = group
        guest.elsewhere = None if group.is_below(guest.group) else group
        if user_network.is_wanted(network, spec):
            user_network.connect(network, spec, guest, pid, CLIENTS)
        elif spec.plugboard is not None and not sandboxed:
            spec.plugboard.plug_namespace(Path(f"/proc/{pid}/ns/net"))
    except BaseException as error:
        guest.stop()
        if isinstance(error, OSError):
            raise PlatformError(Note("not-started", name=spec.name, error=error)) from error
        raise
    return guest


def _is_limited(pid: int) -> bool:
    """Whether it is in the cgroup of a container, not in that of what starts it (Podman's conmon has one too).

    runsc itself is there while it starts the sandbox.
    """
    with suppress(OSError):
        directory = cgroups.group_of(pid).directory("memory")
        starts = Path(f"/proc/{pid}/comm").read_text() == "runsc\n"
        if directory is None or starts:
            return False
        return directory.name != CLIENTS and "conmon" not in directory.name
    return False


def _is_init(pid: int) -> bool:
    """Whether it is the first process of a PID namespace below ours (proc(5), NSpid)."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                numbers = line.split()[1:]
                return len(numbers) > 1 and numbers[-1] == "1"
    return False


def _command_line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
