"""The state of a booted machine on disk, with vtax in it: another start goes on from it and boots nothing.

It is used again only where QEMU, its command line, the disks, and all files sent into the machine are the same. What
the machine wrote to its disk lies beside it as an overlay. The clock is set, and the random numbers are seeded
anew; the machine's boot id is that of the boot that was saved.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import VtaxError
from vtax.host.process import run
from vtax.host.waiting import wait_until
from vtax.platforms.qmp import Monitor

SAVE_S = 300.0
OVERLAY = "root.qcow2"
_COMPILED = "__pycache__"
RENEW = """
import fcntl, sys, time
time.clock_settime(time.CLOCK_REALTIME, float(sys.argv[1]))
with open("/dev/urandom", "wb") as random:
    random.write(bytes.fromhex(sys.argv[2]))
    random.flush()
    fcntl.ioctl(random, 0x5207)  # RNDRESEEDCRNG of linux/random.h
"""
"""Run in a machine after its state was loaded: two machines of one state would draw the same random numbers."""


@dataclass(frozen=True)
class SavedState:
    """directory: of its files; it is there once they are whole."""

    directory: Path

    @property
    def memory(self) -> Path:
        """What QEMU's migration wrote: memory and devices."""
        return self.directory / "memory"

    @property
    def overlay(self) -> Path:
        """What the machine had written to its first disk."""
        return self.directory / OVERLAY

    @property
    def exists(self) -> bool:
        """Whether a machine can go on from it."""
        return self.directory.is_dir()

    @property
    def incoming(self) -> tuple[str, str]:
        """QEMU's option that loads it."""
        return "-incoming", f"exec:cat {shlex.quote(str(self.memory))}"

    def forget(self) -> None:
        """Remove it."""
        shutil.rmtree(self.directory, ignore_errors=True)


def key(command: Sequence[str | Path], disks: Iterable[Path], files: Mapping[str, Path]) -> str:
    """Return names a state: a hash of QEMU's version and of what decides the state.

    command: of QEMU, without what differs between two starts. disks: files that it reads, known by size and time.
    files: those sent into the machine, by their content.
    """
    found = [run(["qemu-system-x86_64", "--version"]).stdout, *map(str, command)]
    for disk in disks:
        status = disk.stat()
        found.append(f"{disk} {status.st_ino} {status.st_size} {status.st_mtime_ns}")
    digest = hashlib.sha256(json.dumps(found).encode())
    for name, path in sorted(files.items()):
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if each.is_file() and _COMPILED not in each.parts:
                digest.update(f"\0{name} {each.relative_to(path)}\0".encode() + each.read_bytes())
    return digest.hexdigest()[:12]


def make_overlay(disk: Path, overlay: Path) -> None:
    """Make an empty overlay over a machine's disk. Raises CommandFailed."""
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", disk, overlay])


def save(monitor: Monitor, overlay: Path, state: SavedState) -> None:
    """Write the state of a machine, which QEMU stops meanwhile, and which then goes on. overlay: that of its disk.

    It is not stopped before: a machine that was would load as one that is. Raises PlatformError when QEMU refuses,
    VtaxError when it does not end.
    """
    try:
        monitor.execute("migrate-set-parameters", max_bandwidth=1 << 40)
        monitor.execute("migrate", uri=f"exec:cat >{shlex.quote(str(state.memory))}")
        ended = wait_until(lambda: _ended(monitor), SAVE_S, 0.05, otherwise=lambda: VtaxError("QEMU saves too long"))
        if ended != "completed":
            raise VtaxError(f"QEMU did not save the machine's state: {ended}")
        shutil.copy(overlay, state.overlay)
    finally:
        monitor.execute("cont")


def renewal() -> list[str]:
    """Return a program for a machine whose state was loaded."""
    return ["/usr/bin/python3", "-c", RENEW, f"{time.time():.3f}", os.urandom(64).hex()]


def _ended(monitor: Monitor) -> str | None:
    status = str(monitor.execute("query-migrate").get("status"))
    return status if status in ("completed", "failed", "cancelled") else None
