"""What every virtual machine shares, whatever hypervisor runs it: disk, kernel, initrd, command line, agent, console.

A driver of a hypervisor adds what differs: how the machine is described to it, which devices carry disk, interfaces
and the agent's stream, and how it is started, pinned and stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vtax.host.home import Home
from vtax.host.process import run
from vtax.image import host_kernel
from vtax.image.image import Image
from vtax.platforms.base import GuestSpec

_FATAL_MESSAGES = ("Kernel panic", "Out of memory", "vtax-init:")
_SHOWN_LINES, _MAX_LINE_BYTES = 3, 90


@dataclass(frozen=True)
class Boot:
    """What is loaded into the machine. tsc_khz: rate of the counter that emulated CPUs show, None when not known."""

    kernel: Path
    initrd: Path
    tsc_khz: int | None = None


def boot_files(kernel: Literal["image", "host"], modules: Sequence[str], image: Image) -> tuple[Path, Path]:
    """Kernel and initrd: the image's, unpacked where that works, or the host's with modules. Raises ImageError."""
    if kernel == "host":
        own = host_kernel.prepare(Home.from_environment(), image, modules)
        return own.kernel, own.initrd
    return image.elf_kernel if image.elf_kernel.exists() else image.kernel, image.initrd


def overlay(spec: GuestSpec) -> Path:
    """A qcow2 disk over the image's own, so that starting copies nothing. Raises CommandFailed."""
    path = spec.directory / "disk.qcow2"
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", spec.image.disk, path])
    return path


def kernel_command_line(
    console: str, modules: Sequence[str], root_device: str, stream: str, more: Sequence[str] = ()
) -> str:
    """Quiet, and turned off after a panic, so that a dead guest closes its channel.

    modules, root_device, stream: words of the image's init (image/data/init). more: words before those.
    """
    words = [f"console={console}", "quiet", "panic=-1", "net.ifnames=0", *more]
    words += [f"vtax.modules={','.join(modules)}", f"vtax.root={root_device}", f"vtax.stream={stream}"]
    return " ".join(words)


def console_errors(console: Path) -> str:
    """Fatal messages of a console, else its last lines; on one line of bounded length."""
    try:
        lines = console.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    found = [line for line in lines if any(word in line for word in _FATAL_MESSAGES)] or lines
    return " | ".join(line.strip()[:_MAX_LINE_BYTES] for line in found[-_SHOWN_LINES:])
