"""MicroVMs: machine monitors of one program each, which needs nothing of the host but KVM, at a path a study names.

A driver of one says how its program is called (`command`), what disk it takes and what it connects the agent's stream
to; all else is here. A guest is one process, which runs inside the lab's network namespace, opens its taps there by
name, and boots the image's kernel and initrd. No such program boots a machine stopped: it runs on the host CPUs of
the virtual CPUs from its first moment on; once these exist, each is pinned and everything else moved away.

In place of a boot a guest can be restored from a snapshot of one whose bootstrap has greeted and waits for the agent.
A restored machine is stopped until its virtual CPUs are pinned. Snapshots are kept by all that decides them, and a
monitor is asked by HTTP over a unix socket.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import os
import re
import secrets
import socket
import subprocess
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from vtax.counters.layer import Part
from vtax.errors import PlatformError, VtaxError
from vtax.guest.bootstrap import GREETING
from vtax.guest.channel import Channel
from vtax.host.emulated_cpu import is_virtual, timeout_factor
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import find_program, run, spawn
from vtax.host.removal import remove_tree
from vtax.host.resources import Tree
from vtax.host.waiting import wait_until
from vtax.messages import Note
from vtax.network.plugboard import Interface
from vtax.platforms import probing, stdio, virtual_machine
from vtax.platforms.base import GuestDisk, GuestSpec, NetworkLimits
from vtax.platforms.options import CpuLimited
from vtax.platforms.stdio import Claim, StdioGuest, claim, start_error
from vtax.platforms.virtual_machine import Boot, Hypervisor

SOCKET = "api.sock"
_KEPT = 8
_CONNECT_S, _ANSWER_S = 10.0, 60.0
_CHANGING = ("cpu MHz", "bogomips")
_SHOWN = 200


@dataclass(frozen=True)
class Api:
    """Requests to a monitor that serves SOCKET in its directory."""

    directory: Path
    product: str

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        """Send a request. Raises PlatformError when it is refused or not answered."""
        connection = _Connection(self.directory, _ANSWER_S * timeout_factor())
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body_text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise PlatformError(
                Note("vmm-silent", product=self.product, path=path, error=error)
            ) from error
        finally:
            connection.close()
        if answer.status >= http.client.MULTIPLE_CHOICES:
            raise PlatformError(
                Note("vmm-refused", product=self.product, path=path), where=body_text[:_SHOWN]
            )


class _Connection(http.client.HTTPConnection):
    """Connects to SOCKET by a descriptor of its directory, whose path may be longer than an address."""

    def __init__(self, directory: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._directory = directory

    def connect(self) -> None:
        directory = os.open(self._directory, os.O_PATH | os.O_DIRECTORY)
        try:
            self.sock = wait_until(
                lambda: _try_connect(directory), _CONNECT_S * timeout_factor(), 0.001
            )
        finally:
            os.close(directory)
        if self.sock is None:
            raise FileNotFoundError(f"{SOCKET} does not answer")
        self.sock.settimeout(self.timeout)


def _try_connect(directory: int) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{SOCKET}")
    except OSError:
        connection.close()
        return None
    return connection


def snapshot_key(*decides: object) -> str:
    """Return a name of what decides a snapshot: this, the host's kernel and its processor."""
    cpu = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    host = [os.uname().release, *(line for line in cpu if not line.startswith(_CHANGING))]
    return hashlib.sha256(repr((*decides, *host)).encode()).hexdigest()[:16]


def ensure_snapshot(name: str, make: Callable[[Path], None], journal: Journal) -> tuple[Path, bool]:
    """Return the directory of a snapshot, and whether it was made now, by `make`. The oldest of many go."""
    snapshots = Home.from_environment().root / "cache" / "snapshots"
    snapshots.mkdir(parents=True, exist_ok=True)
    final, partial = snapshots / name, snapshots / f"{name}.partial"
    with _lock_directory(snapshots):
        if final.is_dir():
            os.utime(final)
            return final, False
        registered = journal.register(Tree(str(partial)))
        try:
            partial.mkdir()
            make(partial)
            partial.rename(final)
        finally:
            registered.release()
        others = sorted(
            snapshots.glob("[0-9a-f]" * 16), key=lambda path: path.stat().st_mtime, reverse=True
        )
        for path in others[_KEPT:]:
            remove_tree(path)
    return final, True


@contextmanager
def _lock_directory(directory: Path) -> Iterator[None]:
    """Let one process at a time make snapshots. The kernel frees the lock when it dies."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


PROGRAM_PATTERN = r"^[^\s-].*$"
_VERSION_S = 15.0
_START_S = 20.0
_TEMPLATE_S = 60.0
_CONSOLE_LIMIT = 1 << 16
_COPY_S = 300.0
_CHEAP_BYTES = 64 << 20
_LOOK_S = 0.001
_MAX_MTU = 1500
_MIB = 20
_LOG, _STDERR = "monitor.log", "stderr.log"
_SHOWN = 100


class MicroVmOptions(CpuLimited):
    """Options of a driver of microVMs. binary: its program."""

    binary: str
    start: Literal["boot", "restore"] = Field(
        "boot",
        description="boot the kernel, or restore a guest that waits for the agent from a snapshot, made once",
    )


@dataclass(frozen=True)
class Machine:
    """A guest's machine, for the command line of its program.

    directory: where it is started and may write.
    disk: of the kind that the driver made.
    nics: interfaces, each with its tap.
    """

    name: str
    directory: Path
    boot: Boot
    disk: Path
    vcpus: int
    memory_mib: int
    nics: Sequence[tuple[Interface, str]] = ()

    @property
    def log(self) -> Path:
        """Where the program says what fails."""
        return self.directory / _LOG


@dataclass(frozen=True)
class Stream:
    """Ends of the agent's byte stream: descriptors of the program's, which close when it runs, and of ours."""

    stdin: int
    stdout: int
    read: int
    write: int


class MicroVm(Hypervisor):
    """A driver of microVMs.

    product: as its makers call it.
    version: matches what `--version` prints, the version its first group.
    vcpu: matches the name of a thread that is a virtual CPU.
    packages: programs that it needs beside its own, with their packages.
    disk_name: of the guest's disk in its directory, by which snapshots know it.
    serve, alone: arguments for a program with an Api and without.
    """

    product: str
    version: re.Pattern[str]
    vcpu: re.Pattern[str]
    parts: tuple[Part, ...]
    packages: Mapping[str, str] = {}
    disk_name: str
    serve: tuple[str, ...]
    alone: tuple[str, ...] = ()

    @abstractmethod
    def command(self, machine: Machine) -> list[str]:
        """Return the program's arguments; writes its configuration into the machine's directory, if it has one."""

    @abstractmethod
    def restore_command(self, machine: Machine, snapshot: Path) -> list[str]:
        """Return the arguments of a program that serves an Api and restores a machine, then or by `load`."""

    def load(self, api: Api, machine: Machine, snapshot: Path) -> None:
        """Restore a machine in a program that runs; it stays stopped. Raises PlatformError."""

    @abstractmethod
    def save(self, api: Api, snapshot: Path) -> None:
        """Stop a machine and write its snapshot into a directory. Raises PlatformError."""

    @abstractmethod
    def resume(self, api: Api) -> None:
        """Let a restored machine run. Raises PlatformError."""

    @abstractmethod
    def make_disk(self, spec: GuestSpec) -> list[str]:
        """Make the disk of a guest that boots, and return notes on it. Raises CommandFailed."""

    @abstractmethod
    def make_stream(self, fds: ExitStack) -> Stream:
        """Make what the program's standard input and output are. fds: closes the program's own descriptors."""

    def disk(self, options: MicroVmOptions) -> GuestDisk:
        return GuestDisk(cached=True)

    def network_limits(self, options: MicroVmOptions) -> NetworkLimits:
        return NetworkLimits(mtu=_MAX_MTU, queues=1, not_attached=("macvtap",))

    def check_host(self, options: MicroVmOptions) -> tuple[str, tuple[str, ...]]:
        """Return version and marks. Raises PlatformError where KVM or a program is not there, or is another one."""
        program_hints = {options.binary: Note("hint-binary", product=self.product)}
        missing = probing.missing(program_hints) or probing.missing(self.packages)
        if missing:
            what, hint = missing
            raise PlatformError(what, hint=hint)
        version = self._version_of(_program(options))
        reason = probing.no_device("kvm")
        if reason:
            raise PlatformError(reason, hint=Note("hint-virtualization"))
        return f"{self.product} {version}", ("nested",) if is_virtual() else ()

    def start_machine(self, options: MicroVmOptions, spec: GuestSpec) -> StdioGuest:
        program = _program(options)
        nics: tuple[tuple[Interface, str], ...] = ()
        if spec.plugboard:
            taps = spec.plugboard.taps()
            nics = tuple(zip(spec.plugboard.interfaces, taps, strict=True))
        machine = Machine(
            name=spec.name,
            directory=spec.directory,
            boot=Boot(*virtual_machine.boot_files("image", (), spec.image)),
            disk=spec.directory / self.disk_name,
            vcpus=spec.resources.vcpus,
            memory_mib=spec.resources.memory_bytes >> _MIB,
            nics=nics,
        )
        if options.start == "restore":
            return self._restore(program, spec, machine)
        argv = [program, *self.alone, *self.command(machine)]
        return self._run(argv, spec, machine, self.make_disk(spec))

    def _version_of(self, program: str) -> str:
        """Return what the program says of itself. Raises PlatformError for one that is another."""
        try:
            output = run([program, "--version"], timeout_s=_VERSION_S * timeout_factor()).stdout
        except (VtaxError, ValueError) as error:
            raise self._is_another(program, str(error)) from error
        match = self.version.search(output)
        if match is None:
            raise self._is_another(program, f"{output.strip()[:_SHOWN]!r}")
        return match[1]

    def _is_another(self, program: str, output: str) -> PlatformError:
        what = Note("another-program", program=program, product=self.product)
        return PlatformError(what, where=output, hint=Note("hint-binary", product=self.product))

    def _restore(self, program: str, spec: GuestSpec, machine: Machine) -> StdioGuest:
        """Restore the guest from the snapshot of its kind, which is made before when there is none."""
        disk, binary = spec.image.disk.stat(), Path(program).stat()
        key = snapshot_key(
            self.name,
            program,
            spec.image.key,
            (disk.st_size, disk.st_mtime_ns),
            (binary.st_size, binary.st_mtime_ns),
            machine.vcpus,
            machine.memory_mib,
            [(nic.mac, nic.offloads) for nic, _ in machine.nics],
        )
        make = partial(self._make_snapshot, program, spec, machine)
        snapshot, is_new = ensure_snapshot(key, make, spec.journal)
        notes = copy(snapshot / self.disk_name, machine.disk)
        if is_new:
            notes.append(Note("snapshot-made"))
        argv = [program, *self.restore_command(machine, snapshot)]
        guest = self._run(argv, spec, machine, notes, snapshot)
        guest.channel.unread(GREETING)
        return guest

    def _make_snapshot(
        self, program: str, spec: GuestSpec, machine: Machine, directory: Path
    ) -> None:
        """Boot a guest with the same interfaces, wait for its greeting, write the snapshot, end it."""
        template_spec = replace(
            spec, name=f"vtax-s{secrets.token_hex(2)}", directory=spec.directory / "template"
        )
        template_spec.directory.mkdir()
        template = replace(
            machine,
            name=template_spec.name,
            directory=template_spec.directory,
            disk=template_spec.directory / self.disk_name,
        )
        self.make_disk(template_spec)
        guest = self._run(
            [program, *self.serve, *self.command(template)], template_spec, template, []
        )
        try:
            guest.channel.skip_to(
                GREETING, _CONSOLE_LIMIT, time.monotonic() + _TEMPLATE_S * timeout_factor()
            )
            self.save(Api(template_spec.directory, self.product), directory)
        finally:
            guest.stop()
        template.disk.rename(directory / self.disk_name)

    def _run(
        self,
        argv: Sequence[str],
        spec: GuestSpec,
        machine: Machine,
        notes: list[str],
        snapshot: Path | None = None,
    ) -> StdioGuest:
        """Spawn the program and pin its virtual CPUs as soon as they exist. snapshot: to restore."""
        machine.log.touch()
        api = Api(spec.directory, self.product)
        process: subprocess.Popen[bytes] | None = None
        helpers, are_shared = virtual_machine.helper_cpus(spec.resources)
        notes = list(notes)
        if are_shared:
            notes.append(Note("vmm-shares-host-cpus", product=self.product))
        with ExitStack() as undo, ExitStack() as fds:
            try:
                guest_claim = claim(spec, undo)
                notes += virtual_machine.limit_time(guest_claim.group, spec.resources)
                stream = self.make_stream(fds)
                channel = Channel(stream.read, stream.write)
                undo.callback(channel.close)
                process = _spawn(argv, spec, guest_claim, stream)
                channel.diagnose = partial(self.describe, spec.directory, process)
                if snapshot is not None:
                    self.load(api, machine, snapshot)
                threads = self._vcpu_threads(process, spec.resources.vcpus)
                executing_at = time.monotonic()
                limits = virtual_machine.pin(threads, spec.resources, guest_claim.group)
                _move_others(process.pid, threads, helpers)
                if snapshot is not None:
                    self.resume(api)
                    executing_at = time.monotonic()
            except (VtaxError, OSError, subprocess.SubprocessError) as error:
                raise start_error(spec, error, self.describe(spec.directory, process)) from error
            undo.pop_all()
        stdio.compile_agent(channel, spec.image)
        limits = replace(limits, memory_bytes=machine.memory_mib << _MIB)
        guest = StdioGuest(
            process, channel, guest_claim, spec.directory / _STDERR, tuple(notes), machine=limits
        )
        guest.executing_at, guest.parts = executing_at, self.parts
        guest.console = spec.directory / virtual_machine.CONSOLE
        return guest

    def _vcpu_threads(self, process: subprocess.Popen[bytes], vcpus: int) -> list[int]:
        """Wait for the virtual CPUs. Raises PlatformError."""

        def threads() -> list[int]:
            if process.poll() is not None:
                raise PlatformError(
                    Note("vmm-ended", product=self.product, status=process.returncode)
                )
            pids = virtual_machine.vcpu_threads(process.pid, self.vcpu)
            return pids if len(pids) == vcpus else []

        no_vcpus = PlatformError(Note("vmm-no-vcpus", product=self.product, vcpus=vcpus))
        return wait_until(threads, _START_S * timeout_factor(), _LOOK_S, otherwise=lambda: no_vcpus)

    def last_console_lines(self, directory: Path) -> str:
        """Return what a machine's kernel said at last, where that is kept."""
        return ""

    def describe(self, directory: Path, process: subprocess.Popen[bytes] | None) -> str:
        """Tell what is known of a machine: what kernel and program said at last, whether it runs or how it ended."""
        parts = [self.last_console_lines(directory)]
        for name in (_LOG, _STDERR):
            parts.append(stdio.last_lines(directory / name, 2))
        if process is not None:
            try:
                parts.append(Note("vmm-ended", product=self.product, status=process.wait(0.05)))
            except subprocess.TimeoutExpired:
                parts.append(Note("vmm-runs", product=self.product))
        return "; ".join(filter(None, parts))


def _program(options: MicroVmOptions) -> str:
    """Return its absolute path, since it runs in the guest's directory; its name where it is not installed."""
    path = find_program(options.binary)
    return options.binary if path is None else str(Path(path).absolute())


def copy(source: Path, target: Path) -> list[str]:
    """Copy a disk, which takes no time where the file system has reflinks, and return a note where it counts.

    Raises CommandFailed.
    """
    if run(["cp", "--reflink=always", source, target], check=False).status == 0:
        return []
    sparse = ("cp", "--sparse=always", "--reflink=never")
    run([*sparse, source, target], timeout_s=_COPY_S * timeout_factor())
    return [Note("disk-copied")] if target.stat().st_blocks * 512 > _CHEAP_BYTES else []


def _spawn(
    argv: Sequence[str], spec: GuestSpec, guest_claim: Claim, stream: Stream
) -> subprocess.Popen[bytes]:
    """Start a monitor in the guest's cgroup and directory, with interfaces in the lab's network namespace."""
    if spec.plugboard is not None:
        argv = ["nsenter", f"--net=/run/netns/{spec.plugboard.lab_namespace}", "--", *argv]
    with (spec.directory / _STDERR).open("wb") as errors, guest_claim.group.procs_file() as join:
        return spawn(
            argv,
            tag=guest_claim.tag,
            stdin=stream.stdin,
            stdout=stream.stdout,
            stderr=errors.fileno(),
            cwd=spec.directory,
            before_exec=_enter(join, spec.resources.cpus),
        )


def _enter(join: Sequence[int], cpus: Sequence[int]) -> Callable[[], None]:
    """Return what moves a process, between fork and exec, into the cgroup and onto the virtual CPUs' host CPUs."""
    into_cgroup = virtual_machine.joining(join)

    def enter() -> None:
        into_cgroup()
        os.sched_setaffinity(0, cpus)

    return enter


def _move_others(pid: int, vcpus: Sequence[int], cpus: Sequence[int]) -> None:
    """Move all threads of a process but its virtual CPUs to host CPUs; later ones inherit these."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if int(task.name) not in vcpus:
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cpus)
