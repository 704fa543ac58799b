"""Makes a machine's disk, kernel and initrd: once per recipe, without loop mounts, kept below VTAX_HOME/nested.

The disk carries the Debian system. The guest images go onto a second disk, the Python packages of a lock file onto a
third, and vtax itself goes in at every start: changing code builds nothing. What is built is made under another name,
in the journal, and renamed when it is whole.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nested.machines import HYPERVISOR, MachineRecipe

from vtax.guest import bootstrap
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import run
from vtax.host.resources import TaggedProcesses, Tree
from vtax.image.image import Image
from vtax.image.initrd import APPLETS, DIRECTORIES, CpioEntry, collect_modules, cpio
from vtax.image.kernel import elf_of
from vtax.image.tree import bootstrap as debootstrap
from vtax.image.trimming import trimmed

PORT = "vtax.nested"
AGENT = "usr/local/lib/vtax-bootstrap.py"
INSIDE = "root/vtax"
_MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "ext4")
SERVICE = "vtax-nested.service"
_SERVICE = f"""[Unit]
Description=Agent of vtax's nested tests
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/python3 -I -S -B /{AGENT} /dev/virtio-ports/{PORT}
Restart=always
RestartSec=100ms
TasksMax=infinity

[Install]
WantedBy=multi-user.target
"""
_NO_INITRD = {
    "INITRD": "No"
}  # for initramfs-tools: what it would make in half a minute is not used
_ACCEPT_EXPIRED = '--aptopt=Acquire::Check-Valid-Until "false"'
_BUILD_S = 1800.0
_KEY = "[0-9a-f]" * 12
"""A pattern for Machine.key. Names of unfinished builds do not end in it."""


@dataclass(frozen=True)
class Disks:
    """Files that a machine boots from."""

    directory: Path

    @property
    def root(self) -> Path:
        """Its ext4 disk."""
        return self.directory / "disk.raw"

    @property
    def kernel(self) -> Path:
        """Its kernel."""
        return self.directory / "kernel"

    @property
    def initrd(self) -> Path:
        """The initrd, which mounts the disk."""
        return self.directory / "initrd.cpio"

    @property
    def python_version(self) -> str:
        """The version of its Python, as in 3.11."""
        return (self.directory / "python").read_text()


def ensure(home: Home, machine: MachineRecipe, image: Image, journal: Journal) -> Disks:
    """Return the machine's disk, built now if it is not there (minutes). image: the guest image, for busybox.

    Disks of earlier recipes of this machine go.
    """
    name = directory_of(home, machine).name
    earlier = f"{machine.name}-{_KEY}"
    return Disks(
        ensure_directory(
            home, name, earlier, lambda path: _build(machine, image, journal, path), journal
        )
    )


def directory_of(home: Home, machine: MachineRecipe) -> Path:
    """Return where the disk of the machine's present recipe is, or will be."""
    init = Path(__file__).with_name("init").read_bytes()
    agent = bootstrap.argv()[-2]
    loader = [Path(machine.loader.__file__)] if machine.loader else []
    key = machine.key(
        init, _SERVICE.encode(), agent.encode(), *(path.read_bytes() for path in loader)
    )
    return home.root / "nested" / f"{machine.name}-{key}"


def ensure_image_disk(home: Home, images: Sequence[Image], journal: Journal) -> Path:
    """Return an ext4 disk with the directories of guest images, as they lie in a home's `images`."""

    def fill(tree: Path) -> None:
        directories = [
            image.directory.resolve() for image in images
        ]  # another home may share them by links
        run(["cp", "--archive", "--reflink=auto", *directories, tree], timeout_s=_BUILD_S)

    return ensure_data_disk(home, "image", "-".join(image.key for image in images), fill, journal)


def ensure_packages_disk(home: Home, lock: Path, python_version: str, journal: Journal) -> Path:
    """Return an ext4 disk with the Python packages that a lock file names with hashes, for a version of Python.

    They are compiled by this process's Python; another version compiles them again when it imports them.
    """

    def fill(tree: Path) -> None:
        run(
            [
                *(
                    sys.executable,
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--no-input",
                    "--disable-pip-version-check",
                ),
                *(
                    "--no-deps",
                    "--only-binary",
                    ":all:",
                    "--require-hashes",
                    "--root-user-action=ignore",
                ),
                *("--python-version", python_version, "--target", tree, "-r", lock),
            ],
            timeout_s=_BUILD_S,
        )

    key = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    return ensure_data_disk(home, f"{lock.stem}-{python_version}", key, fill, journal)


def ensure_data_disk(
    home: Home, kind: str, key: str, fill: Callable[[Path], None], journal: Journal
) -> Path:
    """Return an ext4 disk with what `fill` writes into a directory, made once. Those of this kind with other keys
    go."""

    def make(path: Path) -> None:
        tree = path / "tree"
        tree.mkdir()
        fill(tree)
        used_mib = int(run(["du", "--summarize", "--block-size=1M", tree]).stdout.split()[0])
        _write_disk(tree, path / "disk.raw", used_mib + used_mib // 4 + 256)
        run(["rm", "-rf", "--one-file-system", tree], timeout_s=_BUILD_S)

    return ensure_directory(home, f"{kind}-{key}", f"{kind}-*", make, journal) / "disk.raw"


def ensure_directory(
    home: Home, name: str, pattern: str, make: Callable[[Path], None], journal: Journal
) -> Path:
    """Return a directory of that name with what `make` writes into it, made once. Others of the pattern (of fnmatch)
    go."""
    with _one_at_a_time(home):
        made = _made(home, name, journal, make)
        _forget_others(made, pattern)
        return made


def _made(home: Home, name: str, journal: Journal, make: Callable[[Path], None]) -> Path:
    final = home.root / "nested" / name
    if not final.is_dir():
        partial = final.with_name(f"{name}.{journal.token}.partial")
        registered = journal.register(Tree(str(partial)))
        try:
            partial.mkdir()
            make(partial)
            partial.rename(final)
        except BaseException:
            registered.release()
            raise
        registered.forget()
    return final


def _forget_others(made: Path, pattern: str) -> None:
    """Remove what earlier recipes made; a machine that still runs from it keeps its open files."""
    for other in made.parent.glob(pattern):
        if other != made and not other.name.endswith(".partial"):
            run(["rm", "-rf", "--one-file-system", other], timeout_s=_BUILD_S)


def _build(machine: MachineRecipe, image: Image, journal: Journal, directory: Path) -> None:
    tree = directory / "tree"
    tag = f"nested-{journal.token}"
    registered = journal.register(TaggedProcesses(tag, f"the build of {machine.name}"))
    try:
        options = [_ACCEPT_EXPIRED] if os.environ.get("VTAX_NESTED_ACCEPT_EXPIRED") else []
        debootstrap(
            machine.suite,
            machine.packages,
            tree,
            tag,
            components=machine.components,
            options=options,
            environment=_NO_INITRD,
        )
        _settle(machine, tree)
        modules = next((tree / "usr/lib/modules").iterdir())
        packed = (tree / "boot" / f"vmlinuz-{modules.name}").read_bytes()
        disks = Disks(directory)
        disks.kernel.write_bytes(elf_of(packed) or packed)
        python = next((tree / "usr/bin").glob("python3.[0-9]*"))
        (directory / "python").write_text(python.name.removeprefix("python"))
        for hypervisor in (tree / "boot").glob("xen-*.gz"):
            (directory / HYPERVISOR).write_bytes(gzip.decompress(hypervisor.read_bytes()))
        loader = machine.loader
        disks.initrd.write_bytes(
            _initrd(image.tree / "usr/bin/busybox", modules, is_partition=loader is not None)
        )
        if loader is not None:
            loader.install(tree, modules.name, disks.initrd)
        _write_disk(
            tree, disks.root, machine.disk_mib, loader.PARTITION if loader is not None else 0
        )
        if loader is not None:
            loader.make_bootable(disks.root, tree)
        run(["rm", "-rf", "--one-file-system", tree], timeout_s=_BUILD_S)
    finally:
        registered.release()


def _settle(machine: MachineRecipe, tree: Path) -> None:
    """Names, the agent's service, and no unit that starts by itself and disturbs."""
    (tree / "etc/hostname").write_text("nested\n")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost nested\n::1 localhost\n")
    (tree / "etc/fstab").write_text("")
    (tree / "etc/machine-id").write_text("")
    (tree / AGENT).write_text(bootstrap.argv()[-2])
    (tree / "etc/systemd/system" / SERVICE).write_text(_SERVICE)
    there = [
        unit
        for unit in machine.disabled
        if list(tree.glob(f"*/systemd/system/{unit}"))
        or list(tree.glob(f"usr/lib/systemd/system/{unit}"))
    ]
    if there:
        run(["chroot", tree, "systemctl", "--quiet", "disable", *there])
    run(["chroot", tree, "systemctl", "--quiet", "enable", SERVICE])
    run(
        [
            "chroot",
            tree,
            "systemctl",
            "--quiet",
            "mask",
            "getty@tty1.service",
            "systemd-networkd-wait-online.service",
        ]
    )


def _initrd(busybox: Path, modules: Path, *, is_partition: bool) -> bytes:
    """Return a small initrd; the distribution's own takes half a minute on an emulated CPU."""
    init = Path(__file__).with_name("init").read_bytes()
    found = collect_modules(modules, _MODULES)
    order = dict.fromkeys(name for chain in found.chains.values() for name in chain)
    return cpio(
        [
            *(CpioEntry(name, 0o040755) for name in DIRECTORIES),
            CpioEntry("dev/console", 0o020600, device=(5, 1)),
            CpioEntry("bin/busybox", 0o100755, busybox.read_bytes()),
            *(CpioEntry(f"bin/{name}", 0o120777, b"busybox") for name in APPLETS),
            *(
                CpioEntry(f"modules/{name}.ko", 0o100644, trimmed(content))
                for name, content in found.files.items()
            ),
            CpioEntry("modules/order", 0o100644, "".join(f"{name}\n" for name in order).encode()),
            CpioEntry(
                "init", 0o100755, init.replace(b"/dev/vda", b"/dev/vda1") if is_partition else init
            ),
        ]
    )


def _write_disk(tree: Path, target: Path, size_mib: int, offset: int = 0) -> None:
    """offset: bytes of the disk before the file system."""
    options = "lazy_itable_init=0,lazy_journal_init=0" + (f",offset={offset}" if offset else "")
    with target.open("xb") as file:
        file.truncate(offset + (size_mib << 20))
    run(
        [
            "mke2fs",
            "-q",
            "-t",
            "ext4",
            "-d",
            tree,
            "-m",
            "0",
            "-E",
            options,
            target,
            f"{size_mib}m",
        ],
        timeout_s=_BUILD_S,
    )


@contextmanager
def _one_at_a_time(home: Home) -> Iterator[None]:
    """Let one process build at a time. The kernel frees the lock when a build dies."""
    (home.root / "nested").mkdir(parents=True, exist_ok=True)
    descriptor = os.open(
        home.root / "nested" / "build.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
