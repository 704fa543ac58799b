"""The baseline: the image's files under the same limits, on the host's kernel with nothing else isolated.

The guest is a process in a mount namespace of its own with the host's /dev, /proc and /sys. Its root is what a plain
installation would be: programs and libraries of the image are read where they lie, without a layer of a file system
between, and cannot be written; of what programs write, directories that the image leaves empty are plain ones of the
host, and over the others (/etc, /var) lies an overlay. Only when it must join a topology does it get a network
namespace, since nothing may touch the host's network.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from vtax.host import namespaces
from vtax.host.namespaces import MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MountStep, bind
from vtax.platforms import containers, scratch, stdio
from vtax.platforms.base import GuestSpec, register_platform
from vtax.platforms.confinement import Isolation
from vtax.platforms.containers import ProcessOptions
from vtax.platforms.probing import LaunchedDriver
from vtax.platforms.stdio import Program, StdioGuest

_PROGRAMS = frozenset(
    {".vtax", "bin", "boot", "lib", "lib32", "lib64", "libx32", "sbin", "usr"},
)
"""Directories of programs, which are read where they lie."""
_WRITTEN_BELOW_USR = ("local", "src")
"""Where images of others keep programs that write beside themselves: caches of bytecode, logs, working directories."""
_OF_HOST = frozenset({"dev", "proc", "sys"})
_SYS = MS_NOSUID | MS_NODEV | MS_NOEXEC
"""Flags of a sysfs of a guest's own network namespace."""
ROOT = "root"
"""Where a guest's root is mounted, below its directory."""
Root = Literal["plain", "overlay"]


@register_platform
class Native(LaunchedDriver):
    name = "native"
    summary = "the image's files on the host's kernel, same limits, nothing else isolated"
    Options = ProcessOptions
    variants: Mapping[str, Mapping[str, Any]] = {"native": {}}
    tunings = ("default", "pinned", "hugepages")
    writes_below_directory = True

    def isolation(self, options: ProcessOptions) -> Isolation:
        return "nothing"

    def launch_program(
        self, options: ProcessOptions, spec: GuestSpec, argv: Sequence[str]
    ) -> StdioGuest:
        return launch(spec, argv)


def launch(
    spec: GuestSpec,
    argv: Sequence[str],
    *,
    isolating: Sequence[str] = (),
    limited: bool = True,
    root: Root = "plain",
    network: bool = False,
    closed: bool = False,
    enters_root: bool = True,
) -> StdioGuest:
    """Start a guest whose first program is argv. The launcher of native, sandbox and bubblewrap.

    spec: of the guest.
    isolating: a command that isolates itself and becomes argv, which follows it.
    limited: within the spec's limits; else with all that the host has.
    root: read the image where it lies, or through an overlay as containers do.
    network: a network namespace where no topology needs one, too.
    closed: a /dev of its own, and of /proc and /sys what containers have; needs namespaces of PIDs and the network.
    enters_root: vtax makes the guest's root the root directory; else `isolating` is a program of the host that does.

    Raises PlatformError.
    """
    place = spec.directory / ROOT
    network = network or spec.plugboard is not None
    try:
        mounts = plain_root(spec, place) if root == "plain" else _overlaid_root(spec)
        mounts += _own_views(place) if closed else _host_views(place, network)
    except OSError as error:
        raise stdio.start_error(spec, error) from error
    mounts.append(namespaces.tmpfs(place / "dev/shm", 0o1777, size=spec.resources.memory_bytes))
    program = Program(
        [*isolating, *argv],
        mounts,
        network=network,
        new_root=place if enters_root else None,
        limited=limited,
    )
    guest = stdio.start(spec, lambda group: program)
    if closed:
        return containers.finish_start(guest, spec, argv, closed=True)
    guest.executing_at = time.monotonic()  # spawning a program ends with its first instruction
    if spec.plugboard is not None:
        try:
            spec.plugboard.plug_namespace(Path(f"/proc/{guest.process.pid}/ns/net"))
        except BaseException:
            guest.stop()
            raise
    return guest


def plain_root(spec: GuestSpec, root: Path) -> list[MountStep]:
    """Make a directory that becomes a root with the image's files, and return what is to be mounted there.

    Programs are not written, see `_PROGRAMS`; nothing that a guest writes reaches the image.
    """
    root.mkdir()
    mounts = [bind(root, root), namespaces.untrusted(root)]
    for entry in sorted(spec.image.tree.iterdir()):
        if entry.name != scratch.NAME:
            mounts += _entry_mounts(spec, entry, root / entry.name)
    for name in _WRITTEN_BELOW_USR:
        lower = spec.image.tree / "usr" / name
        if _is_filled(spec.image.tree / "usr") and _is_filled(lower):
            mounts += _overlay_mounts(spec, lower, root / "usr" / name)
    return [*mounts, *_scratch_mounts(spec, root / scratch.NAME)]


def _overlaid_root(spec: GuestSpec) -> list[MountStep]:
    root = containers.overlay_root(spec)
    return [root.mount, *scratch.mounts(spec, root.path)]


def _entry_mounts(spec: GuestSpec, entry: Path, place: Path) -> list[MountStep]:
    """Make an entry of the image's top directory in the guest's, and return its mounts."""
    status = entry.lstat()
    if stat.S_ISLNK(status.st_mode):
        place.symlink_to(entry.readlink())
        return []
    if not stat.S_ISDIR(status.st_mode):
        place.touch()
        return namespaces.read_only(entry, place)
    namespaces.made_directory(place, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    if entry.name in _OF_HOST or not _is_filled(entry):
        return []
    if entry.name in _PROGRAMS:
        return namespaces.read_only(entry, place)
    return _overlay_mounts(spec, entry, place)


def _is_filled(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and any(path.iterdir())


def _overlay_mounts(spec: GuestSpec, lower: Path, place: Path) -> list[MountStep]:
    """Return an overlay over a directory that the guest writes, with the same owner and mode.

    One whose name overlayfs cannot use is not written. Raises BadInput where no directory of VTAX_HOME can be used.
    """
    if namespaces.OVERLAY_SPECIAL & set(lower.name):
        return namespaces.read_only(lower, place)
    status, relative_path = lower.stat(), place.relative_to(spec.directory)
    upper, work = (spec.directory / kind / relative_path for kind in ("upper", "work"))
    for directory in (upper, work):
        directory.parent.mkdir(parents=True, exist_ok=True)
        namespaces.made_directory(
            directory, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid
        )
    return [namespaces.overlay(lower, upper, work, place)]


def _scratch_mounts(spec: GuestSpec, place: Path) -> list[MountStep]:
    """Make /scratch in the guest's root, and return its mount: a volume is the directory itself."""
    namespaces.made_directory(place, scratch.MODE)
    if spec.scratch == "layer":
        empty = namespaces.made_directory(spec.directory / "empty", scratch.MODE)
        return _overlay_mounts(spec, empty, place)
    return [] if spec.scratch == "volume" else scratch.mounts(spec, place.parent)


def _host_views(root: Path, network: bool) -> list[MountStep]:
    """Return the host's /dev, /proc and /sys.

    With a network of its own it has a sysfs of its own, too, which shows its interfaces.
    """
    views = [bind(Path("/dev"), root / "dev"), bind(Path("/proc"), root / "proc")]
    if not network:
        return [*views, bind(Path("/sys"), root / "sys")]
    cgroups = bind(Path("/sys/fs/cgroup"), root / "sys/fs/cgroup")
    return [*views, MountStep(root / "sys", "sysfs", "sysfs", _SYS), cgroups]


def _own_views(root: Path) -> list[MountStep]:
    """Return a /dev of the guest's own, and a /proc and a /sys before `confinement.close` has taken from them."""
    return [
        *namespaces.own_devices(root / "dev"),
        bind(Path("/proc"), root / "proc"),
        MountStep(root / "sys", "sysfs", "sysfs", _SYS | MS_RDONLY),
    ]
