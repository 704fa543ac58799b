"""The steps of `vtax demo`: a small study in an emulated machine that has the hypervisor, and its run as a bundle."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import vtax
from vtax.demo.disks import INSIDE, directory_of
from vtax.demo.machines import MACHINES, MachineRecipe
from vtax.demo.running import PYTHON, BootedMachine, MachineFailed, booted
from vtax.errors import BadInput
from vtax.foreign_text import one_line
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.platforms import probing
from vtax.study.units import about_size, format_duration

Progress = Callable[[str], None]

_PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "qemu-system-x86_64": "qemu-system-x86",
}
_DISK_BYTES = 5 * 1024**3
_HOST_BYTES = 512 * 1024**2  # what QEMU itself and the host need beside the machine's memory
_OUT, _ERR, _STATUS, _BUNDLE = (
    f"/root/demo.{name}" for name in ("out", "err", "status", "vtax.gz")
)
_RUN = f"{PYTHON} -m vtax run $1 >{_OUT} 2>{_ERR}; echo $? >{_STATUS}"
_MACHINES_OWN = (
    "report: "  # the machine's store goes with it; the run in this host's store has a report
)
_POLL_S = 5.0
_LIMIT_S = 4 * 3600.0
_IMAGE_S = 180.0


@dataclass(frozen=True)
class Demo:
    """One demonstration.

    machine: where its study runs. study: a file beside this module. build_s, run_s: about how long the build of the
    machine lasted, and all that follows, on a host with two CPUs and other load.
    """

    name: str
    machine: MachineRecipe
    build_s: float
    run_s: float

    @property
    def study(self) -> Path:
        """Its study."""
        return Path(__file__).with_name(f"{self.name}.toml")

    def is_built(self, home: Home) -> bool:
        """Return whether the machine of the present recipe was built in this home."""
        return directory_of(home, self.machine).is_dir()

    def needs(self, home: Home) -> str:
        """Return its study, and the memory and disk that the machine uses, in words."""
        memory = about_size(self.machine.memory_mib * 1024**2 + _HOST_BYTES)
        disk = (
            ""
            if self.is_built(home)
            else f", and about {about_size(_DISK_BYTES)} of disk in {home.root}"
        )
        return f"study: {self.study}\nthe machine needs about {memory} of memory{disk}"

    def expected(self, home: Home, *, has_image: bool) -> str:
        """Return the estimated time in words. has_image: whether the guest image is built."""
        parts = [f"about {format_duration(self.run_s)} for the machine's boot and the study"]
        if not self.is_built(home):
            parts.insert(0, f"about {format_duration(self.build_s)} to build the machine, once")
        if not has_image:
            parts.insert(0, f"about {format_duration(_IMAGE_S)} to build the guest image, once")
        return "; ".join(parts)


DEMOS = {
    demo.name: demo
    for demo in (
        Demo("kvm", MACHINES["debian-12"], 480, 600),
        Demo("xen", MACHINES["xen"], 480, 600),
    )
}


def check_host(home: Home, demo: Demo) -> None:
    """Raise BadInput when this host cannot run it: programs, memory, disk, the list of Python packages."""
    if lacking := probing.missing(_PROGRAMS):
        raise BadInput(lacking[0], hint=lacking[1])
    lock_file()
    needed = demo.machine.memory_mib * 1024**2 + _HOST_BYTES
    free = _available_bytes()
    if free < needed:
        raise BadInput(
            f"the emulated machine needs about {about_size(needed)} of memory, and {about_size(free)} are available",
            hint="stop other programs, or use a host with more memory",
        )
    disk = shutil.disk_usage(home.root).free
    if not demo.is_built(home) and disk < _DISK_BYTES:
        raise BadInput(
            f"building the machine needs about {about_size(_DISK_BYTES)} of disk, and {about_size(disk)} are free",
            where=str(home.root),
            hint="make room there, or set VTAX_HOME to a directory on a larger disk",
        )


def lock_file() -> Path:
    """Return the Python packages of vtax with hashes, in its checkout. Raises BadInput for an installation without
    one."""
    path = Path(vtax.__file__).parents[2] / "requirements.lock"
    if not path.is_file():
        raise BadInput(
            "this installation of vtax is no checkout, and has no requirements.lock",
            where=str(path),
            hint="install it by quickstart, as README says",
        )
    return path


@contextmanager
def measured(demo: Demo, home: Home, images: Sequence[Image], progress: Progress) -> Iterator[Path]:
    """Run the study in the machine; the block gets the bundle of its run, a file that is removed afterwards.

    progress: called with one line as each stage begins, and with each line of the study's own progress. Raises
    MachineFailed with the study's last lines, GuestError, ImageError.
    """
    if not demo.is_built(home):
        progress(
            f"building the machine {demo.machine.name} (about {format_duration(demo.build_s)})"
        )
    progress(f"booting the machine {demo.machine.name}, emulated by QEMU")
    with booted(demo.machine, home, images, lock_file()) as nested:
        progress(
            f"the machine answers after {format_duration(nested.boot_s)}; the study runs in it"
        )
        _run(nested, f"/{INSIDE}/src/vtax/demo/{demo.study.name}", progress)
        nested.vtax("export", "last", "--output", _BUNDLE, timeout_s=1800)
        bundle = nested.directory / "demo.vtax.gz"
        bundle.write_bytes(nested.guest.get(_BUNDLE))
        yield bundle


def _run(nested: BootedMachine, study: str, progress: Progress) -> None:
    """Run a study in the machine and pass on what it prints meanwhile."""
    began, shown = time.monotonic(), 0
    nested.guest.start(["sh", "-c", _RUN, "sh", study], cwd="/root")
    while True:
        found = nested.guest.sample([_ERR, _STATUS]).files
        lines = (found[_ERR] or b"").decode(errors="replace").splitlines()
        status = (found[_STATUS] or b"").strip()
        complete = lines if status else lines[:-1]
        for line in complete[shown:]:
            if not line.startswith(_MACHINES_OWN):
                progress(f"  {one_line(line)}")
        shown = max(shown, len(complete))
        if status == b"0":
            return
        if status or time.monotonic() - began > _LIMIT_S:
            ended = (
                f"ended with status {status.decode()}"
                if status
                else f"lasted {format_duration(_LIMIT_S)}"
            )
            raise MachineFailed(
                f"the study in the emulated machine {ended}",
                where="; ".join(one_line(line) for line in lines[-3:]),
                hint="run it again; a busy host may make timeouts expire",
            )
        time.sleep(_POLL_S)


def _available_bytes() -> int:
    """Memory of this host that is available (proc(5), meminfo)."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024
