"""Shared by virtual machines, whatever hypervisor runs it: disk, kernel, initrd, command line, agent, console.

A driver of a hypervisor adds what differs: how the machine is described to it, which devices carry disk, interfaces
and the agent's stream, and how it is started, pinned and stopped.
"""

from __future__ import annotations

import os
import re
import subprocess
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from vtax.errors import CommandFailed, PlatformError, VtaxError
from vtax.host.cgroups import Cgroup, Limits
from vtax.host.home import Home
from vtax.host.process import run, spawn
from vtax.image import host_kernel
from vtax.image.image import Image
from vtax.messages import Note, at
from vtax.platforms import probing
from vtax.platforms.base import Driver, GuestSpec, Probe, Resources
from vtax.platforms.confinement import Isolation
from vtax.platforms.stdio import StdioGuest, start_error, text_of

_SKIPPED_AT_BOOT = (
    "cryptomgr.notests",
    "initcall_blacklist=load_system_certificate_list,jent_mod_init,trace_eval_init,i8042_init,init_encrypted,"
    "ftrace_check_for_weak_functions,bpf_tcp_ca_kfunc_init,bpf_dummy_struct_ops_init,blake2s_mod_init",
    "rodata=off",
)
"""Computations at boot that no guest of ours uses: self-tests of ciphers and hashes, keys that sign modules, a second
source of random numbers, names in the formats of traces, a keyboard, encrypted keys, which of 45000 functions tracing
could not name, congestion control written in BPF, a walk over all page tables. A third of an emulated boot; nothing
to a real CPU, which is left alone."""
NOT_BOOTED = Note("hint-kernel")
CONSOLE = "console.log"
"""The file of a guest's console, of hypervisors that have one, in the directory of the guest."""
_FATAL_MESSAGES = re.compile("Kernel panic|Out of memory|vtax-init:")
_SHOWN_LINES, _MAX_LINE_BYTES = 3, 90


@dataclass(frozen=True)
class Boot:
    """Files loaded into the machine. tsc_khz: rate of the counter that emulated CPUs show, None when not known."""

    kernel: Path
    initrd: Path
    tsc_khz: int | None = None


def boot_files(
    kernel: Literal["image", "host"], modules: Sequence[str], image: Image
) -> tuple[Path, Path]:
    """Return kernel and initrd: the image's, unpacked where that works, or the host's with modules.

    Raises ImageError.
    """
    if kernel == "host":
        host_boot = host_kernel.prepare(Home.from_environment(), image, modules)
        return host_boot.kernel, host_boot.initrd
    return image.elf_kernel if image.elf_kernel.exists() else image.kernel, image.initrd


def overlay(spec: GuestSpec) -> Path:
    """Return a qcow2 disk over the image's own, so that starting copies nothing. Raises CommandFailed."""
    path = spec.directory / "disk.qcow2"
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", spec.image.disk, path])
    return path


def kernel_command_line(
    console: str,
    modules: Sequence[str],
    root_device: str,
    stream: str,
    further_words: Sequence[str] = (),
) -> str:
    """Return the command line of a quiet kernel that turns off after a panic, so that a dead guest closes its channel.

    console: empty for none.
    modules, root_device, stream: words of the image's init (image/data/init).
    further_words: before those.
    """
    words = [f"console={console}"] if console else []
    words += ["quiet", "panic=-1", "net.ifnames=0", *further_words]
    words.append(f"vtax.modules={','.join(modules)}")
    words.append(f"vtax.root={root_device}")
    words.append(f"vtax.stream={stream}")
    return " ".join(words)


def emulation_words(tsc_khz: int | None, further_words: Collection[str]) -> list[str]:
    """Return words for a kernel whose CPU is emulated: what to skip, and the rate of the time stamp counter.

    Such a CPU shows the host's own counter: its rate is passed rather than measured by the guest.

    tsc_khz: the rate; None where it is not known.
    further_words: before those of the counter.
    """
    rate = (f"tsc_early_khz={tsc_khz}", "tsc=reliable") if tsc_khz else ()
    return [*_SKIPPED_AT_BOOT, "no_timer_check", *further_words, *rate]


def helper_cpus(resources: Resources) -> tuple[list[int], bool]:
    """Return CPUs for all but pinned virtual CPUs, and whether these share them for lack of others."""
    cpus = resources.cpus
    if not resources.pinned:
        return list(cpus), False
    rest = sorted(os.sched_getaffinity(0) - set(cpus))
    return rest or list(cpus), not rest


def vcpu_threads(pid: int, name: re.Pattern[str], proc: Path = Path("/proc")) -> list[int]:
    """Return the threads of a machine's process that are its virtual CPUs, by the numbers at the end of their names.

    name: of such a thread.
    """
    threads: dict[int, int] = {}
    with suppress(OSError):
        for task in (proc / str(pid) / "task").iterdir():
            with suppress(OSError):
                comm = (task / "comm").read_text().strip()
                if name.fullmatch(comm):
                    threads[int(re.findall(r"\d*$", comm)[0] or 0)] = int(task.name)
    return [threads[number] for number in sorted(threads)]


def pin(threads: Sequence[int], resources: Resources, group: Cgroup) -> Limits:
    """Pin virtual CPUs, one to each host CPU, and return what the machine has then, as read back."""
    cpus_allowed: set[int] = set()
    for number, thread in enumerate(threads):
        cpus = (resources.cpus[number],) if resources.pinned else resources.cpus
        os.sched_setaffinity(thread, cpus)
        cpus_allowed |= os.sched_getaffinity(thread)
    time = group.time()
    count = min(time.count or len(threads), len(threads))
    return Limits(tuple(sorted(cpus_allowed)), resources.memory_bytes, replace(time, count=count))


def limit_time(group: Cgroup, resources: Resources) -> list[str]:
    """Hold a machine's process, with what it emulates and its disk's threads, to the CPU time of its platform.

    Returns notes of what is not in force.
    """
    if resources.limited is None:
        return []
    group.limit_time(resources.limited)
    return group.check_time(resources.limited)


class VirtualMachines(Driver):
    """A driver of virtual machines: each guest has a kernel of its own."""

    tunings: tuple[str, ...] = ("default", "pinned")
    writes_below_directory = True

    @abstractmethod
    def start_machine(self, options: Any, spec: GuestSpec) -> StdioGuest:
        """Start a guest. Raises PlatformError, other VtaxError, OSError, ValueError."""

    def isolation(self, options: Any) -> Isolation:
        return "kernel"

    def start(self, options: Any, spec: GuestSpec) -> StdioGuest:
        try:
            return self.start_machine(options, spec)
        except PlatformError:
            raise
        except (VtaxError, OSError, ValueError) as error:
            raise start_error(spec, error) from error


class Hypervisor(VirtualMachines):
    """A driver of virtual machines that is there or not, whatever their options."""

    @abstractmethod
    def check_host(self, options: Any) -> tuple[str, tuple[str, ...]]:
        """Return version and marks of the hypervisor here. Raises VtaxError without it."""

    def lacking(self, options: Any) -> None:
        """Raise VtaxError without the hypervisor."""
        self.check_host(options)

    def probe(self, options: Any, image: Image | None) -> Probe:
        """Start it once, where the hypervisor is."""
        if os.geteuid() != 0:
            return Probe(False, Note("needs-root"), Note("hint-sudo"))
        try:
            version, marks = self.check_host(options)
        except VtaxError as error:
            return Probe(False, at(error.what, error.where), error.hint)
        if image is None:
            return Probe(False, Note("no-image"), "vtax image build", marks, version)

        def start(options: Any, spec: GuestSpec, argv: Sequence[str]) -> StdioGuest:
            return self.start(options, spec)

        outcome = probing.probe(start, options, image, programs={})
        return replace(outcome, version=version, marks=marks)


@dataclass(frozen=True)
class Programs:
    """Runs programs of a hypervisor in a guest's cgroup, with its tag. What they print is appended to stderr.

    join: descriptors of Group.procs_file.
    environment: added to theirs.
    """

    tag: str
    join: Sequence[int]
    stderr: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def spawn(
        self, argv: Sequence[str | Path], output: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start one. output: where its standard output goes instead. Raises CommandFailed."""
        with self.stderr.open("ab") as errors, (output or self.stderr).open("ab") as printed:
            return spawn(
                argv,
                tag=self.tag,
                stdout=printed.fileno(),
                stderr=errors.fileno(),
                environment=self.environment,
                cwd=self.stderr.parent,
                before_exec=joining(self.join),
            )

    def call(self, argv: Sequence[str | Path], what: str, timeout_s: float) -> None:
        """Run one to its end. what: its name in errors. Raises CommandFailed, PlatformError when it fails."""
        process = self.spawn(argv)
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.wait()
            raise CommandFailed(f"{what} did not end in time") from error
        if status != 0:
            raise PlatformError(Note("failed-with-status", what=what, status=status))


def joining(join: Iterable[int]) -> Callable[[], None]:
    """Return what moves a process, between fork and exec, into the guest's cgroup. join: of Group.procs_file."""
    fds = tuple(join)

    def enter() -> None:
        for fd in fds:
            os.write(fd, b"0")

    return enter


def console_errors(console: Path) -> str:
    """Return the fatal messages of a console, else its last lines; on one line of bounded length."""
    lines = text_of(console).splitlines()
    fatal = list(filter(_FATAL_MESSAGES.search, lines))
    last = (fatal or lines)[-_SHOWN_LINES:]
    return " | ".join(line.strip()[:_MAX_LINE_BYTES] for line in last)
