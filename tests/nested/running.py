"""Boots an emulated machine and talks to it by vtax's own agent, a service of the machine, over a virtio serial port.

Everything is bounded in time, and all of it on this host (a QEMU process, a directory) is in the journal. The disks
are opened with `snapshot=on`: what a machine writes is gone with it. It has no network interface unless
its recipe names one.
"""

from __future__ import annotations

import io
import secrets
import socket
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nested import disks
from nested.disks import INSIDE, PORT
from nested.machines import CONSOLE, MachineRecipe

import vtax
from vtax.errors import VtaxError
from vtax.guest.channel import Channel
from vtax.guest.guest import Guest
from vtax.guest.results import CommandResult
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import spawn
from vtax.host.resources import TaggedProcesses, Tree
from vtax.image.image import Image
from vtax.platforms.qemu.driver import describe

BOOT_S = 600.0
PYTHON = "/usr/bin/python3"
HOME = "/var/lib/vtax"
_SOURCE = "src/vtax"
_PACKAGES = "/opt/vtax"
_PATHS = "/usr/lib/python3/dist-packages/vtax.pth"
_APPEND = f"root=/dev/vda rw quiet console={CONSOLE} net.ifnames=0 panic=-1 no_timer_check systemd.show_status=false"
_RENEW_STAMPS = """
from vtax.host.home import Home
from vtax.image import build, contents
for image in build.list_images(Home.from_environment()):
    (image.directory / contents.STAMP).write_text(contents._stamp(image.directory))
"""
"""The images were checked on the host; to read them whole again, as a copy is, takes minutes on an emulated CPU."""


class MachineFailed(VtaxError):
    """A program in an emulated machine failed; `where` is the end of its outputs."""


@dataclass
class BootedMachine:
    """A booted machine. guest: the calls into it. boot_s: from QEMU's start to the agent's first answer. directory:
    of this boot on the host, removed at its end. channel: that of the calls; it stays when the machine reboots."""

    machine: MachineRecipe
    guest: Guest
    boot_s: float
    directory: Path
    channel: Channel

    def run(self, *argv: str, timeout_s: float = 120.0, status: int | None = 0) -> CommandResult:
        """Run a program in it. status: the wanted one, None for any; another is an error with both outputs."""
        result = self.guest.run(
            argv, timeout_s=timeout_s, cwd="/root", environment={"COLUMNS": "200"}
        )
        if result.timed_out or (status is not None and result.status != status):
            ended = (
                "did not end in time" if result.timed_out else f"ended with status {result.status}"
            )
            raise MachineFailed(
                f"in the emulated machine {self.machine.name} `{' '.join(argv)}` {ended}",
                where=f"{result.stdout[-6000:]}\n{result.stderr[-3000:]}".strip(),
            )
        return result

    def vtax(
        self, *arguments: str, timeout_s: float = 600.0, status: int | None = 0
    ) -> CommandResult:
        """Run vtax in it."""
        return self.run(PYTHON, "-m", "vtax", *arguments, timeout_s=timeout_s, status=status)


@contextmanager
def booted(
    machine: MachineRecipe,
    home: Home,
    images: Sequence[Image],
    lock: Path,
    more: Mapping[str, Path] | None = None,
) -> Iterator[BootedMachine]:
    """Boot a machine with these guest images in its home and vtax in /root/vtax/src; gone at the end.

    lock: a file of Python packages with hashes, for pip. more: files and directories to copy into /root/vtax too, by
    their names there. Raises GuestError with the console's last lines when it does not come up within BOOT_S.
    """
    files = {_SOURCE: Path(vtax.__file__).parent, **(more or {})}
    with Journal(home.journal) as journal:
        made = disks.ensure(home, machine, images[0], journal)
        data_disks = (
            disks.ensure_image_disk(home, images, journal),
            disks.ensure_packages_disk(home, lock, made.python_version, journal),
        )
        with _answering(machine, home, made, data_disks, journal) as nested:
            _send(nested, files)
            _mount_disks(nested)
            yield nested


@contextmanager
def started(
    machine: MachineRecipe, home: Home, made: disks.Disks, *data_disks: Path
) -> Iterator[BootedMachine]:
    """Boot a machine with more disks (/dev/vdb, ...) and nothing of vtax but its agent; gone at the end.

    Raises GuestError with the console's last lines when it does not come up within BOOT_S.
    """
    with (
        Journal(home.journal) as journal,
        _answering(machine, home, made, data_disks, journal) as nested,
    ):
        yield nested


@contextmanager
def _answering(
    machine: MachineRecipe,
    home: Home,
    made: disks.Disks,
    data_disks: Sequence[Path],
    journal: Journal,
) -> Iterator[BootedMachine]:
    """Yield a machine with its disks, once it answers."""
    directory = home.root / "nested" / f"run-{secrets.token_hex(4)}"
    journal.register(Tree(str(directory)))
    directory.mkdir()
    tag = f"nested-{secrets.token_hex(4)}"
    journal.register(TaggedProcesses(tag, f"the nested machine {machine.name}"))
    console, errors = directory / "console.log", directory / "stderr.log"
    started_at = time.monotonic()
    ours, stranger = socket.socketpair()
    with stranger, errors.open("wb") as stderr:
        argv: list[str | Path] = [
            *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"),
            *(*machine.accel, "-machine", "pc,usb=off", "-cpu", machine.cpu),
            *("-smp", str(machine.vcpus), "-m", f"{machine.memory_mib}M", "-nic", machine.nic),
            *machine.boot(made.kernel, made.initrd, f"{_APPEND} {machine.words}"),
            *(word for path in (made.root, *data_disks) for word in _disk(path)),
            *("-device", "virtio-rng-pci", "-device", "virtio-serial-pci"),
            *("-chardev", f"file,id=console,path={console}"),
            *(
                ("-serial", "chardev:console")
                if machine.serial
                else ("-device", "virtconsole,chardev=console")
            ),
            *("-chardev", f"socket,id=agent,fd={stranger.fileno()}"),
            *("-device", f"virtserialport,chardev=agent,name={PORT}"),
        ]
        temporary = {"TMPDIR": str(directory)}
        process = spawn(
            argv,
            tag=tag,
            stderr=stderr.fileno(),
            pass_fds=(stranger.fileno(),),
            environment=temporary,
        )
    fd = ours.detach()
    channel = Channel(fd, fd, lambda: describe(process, errors, console))
    guest = Guest(channel)
    try:
        guest.hello(BOOT_S)
        yield BootedMachine(machine, guest, time.monotonic() - started_at, directory, channel)
    finally:
        guest.close()
        process.kill()
        process.wait(30)


def _disk(path: Path) -> tuple[str, str]:
    """Return a disk whose changes are discarded."""
    return "-drive", f"file={path},format=raw,if=virtio,snapshot=on,cache=unsafe"


def _send(nested: BootedMachine, files: Mapping[str, Path]) -> None:
    """Copy files and directories, with what this process's Python compiled: to compile it there takes minutes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name, path in files.items():
            archive.add(path, name)
    nested.guest.put("/root/sent.tar.gz", packed.getvalue())
    nested.run("mkdir", "--parents", f"/{INSIDE}")
    unpack = (
        "tar",
        "--extract",
        "--no-same-owner",
        "--file=/root/sent.tar.gz",
        f"--directory=/{INSIDE}",
    )
    nested.run(*unpack, timeout_s=BOOT_S)


def _mount_disks(nested: BootedMachine) -> None:
    """Mount the guest images, and the Python packages beside vtax where Python finds both."""
    nested.run("mkdir", "--parents", f"{HOME}/images", _PACKAGES)
    nested.run("mount", "/dev/vdb", f"{HOME}/images")
    nested.run("mount", "/dev/vdc", _PACKAGES)
    nested.guest.put(_PATHS, f"{_PACKAGES}\n/{INSIDE}/src\n".encode())
    nested.run(PYTHON, "-c", _RENEW_STAMPS, timeout_s=BOOT_S)
