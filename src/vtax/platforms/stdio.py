"""Guests whose agent answers on the standard streams of a program: a cgroup, a program in it, a channel.

What remains of such a guest on the host is a cgroup, the processes in it, and the guest's directory: the journal
knows all three, and a Claim knows the order in which they are released. Programs may run in a mount namespace of
their own, so that their mounts end with their processes.
"""

from __future__ import annotations

import errno
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

from vtax.counters import table
from vtax.counters.layer import Part
from vtax.errors import CommandFailed, PlatformError, RunInterrupted, VtaxError
from vtax.guest import bootstrap
from vtax.guest.audit import Fact
from vtax.guest.channel import Channel
from vtax.host import cgroups, namespaces
from vtax.host.cgroups import Cgroup, CpuTime, Limits
from vtax.host.guest_memory import GuestMemory, pss_bytes
from vtax.host.journal import Registration
from vtax.host.kernel_log import OUT_OF_MEMORY
from vtax.host.namespaces import MountStep
from vtax.host.process import spawn
from vtax.host.resources import TaggedProcesses
from vtax.host.user_namespace import IdRange, user_namespace
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms.base import GuestSpec, RunningGuest

_END_TIMEOUT_S = 10.0
_ENDING_S = 1.0  # how long a program that closed its stream may take until its status is known
_STDERR_LINES = 6
_LOG_END_BYTES = 1 << 16
_KEPT_BYTES = 1 << 20  # of what a guest's program complains of
_PIECE_BYTES = 1 << 16
_KILLED_BY_FILTER = (-signal.SIGSYS, 128 + signal.SIGSYS)
"""The status of an agent that a filter of system calls ended, and a runtime's of it (seccomp(2))."""
_THROTTLING = (table.QUOTA_PERIODS.name, table.THROTTLED_PERIODS.name, table.THROTTLED.name)
REACHABLE_ROOT = Path("/run/vtax-root")
"""Where a root is mounted that an unprivileged user of the host must reach, unlike the directory of its guest."""
_USERNS_HINT = Note("hint-userns")


Count = TypeVar("Count", int, float)
_drains: WeakValueDictionary[Path, Thread] = WeakValueDictionary()


def limits(spec: GuestSpec) -> Limits:
    """Return the limits a guest must run under."""
    return Limits(spec.resources.cpus, spec.resources.memory_bytes, spec.resources.time)


@dataclass
class Claim:
    """A guest in the journal.

    Released in this order: `before`, last made first; the cgroup, which kills everything in it; the tagged processes,
    all of which were in the cgroup; `after`, last made first.

    tag: of its processes.
    group: its cgroup.
    beside: programs that serve the guest, in its cgroup.
    """

    tag: str
    group: Cgroup
    cgroup: Registration
    processes: Registration
    before: list[Registration] = field(default_factory=list)
    after: list[Registration] = field(default_factory=list)
    beside: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def steps(
        self, process: subprocess.Popen[bytes]
    ) -> Iterator[tuple[Registration, Callable[[], object]]]:
        """Yield each entry with what releases it. process: the guest's own, whose end is waited for."""

        def forget_processes() -> None:
            for program in (process, *self.beside):
                program.wait(_END_TIMEOUT_S)
            self.processes.forget()

        for registered in (*reversed(self.before), self.cgroup):
            yield registered, registered.release
        yield self.processes, forget_processes
        for registered in reversed(self.after):
            yield registered, registered.release


@dataclass
class StdioGuest(RunningGuest):
    """A guest whose agent answers on the standard streams of a program (see platforms.base.RunningGuest).

    claim: everything of it on the host.
    elsewhere: the group that a daemon which is not ours put the container into.
    limited: the group whose limits hold, when it is another one.
    machine: what a virtual machine has, which no group limits.
    daemon: processes that serve the guest from outside of its cgroup.
    console: what its own kernel writes.
    """

    process: subprocess.Popen[bytes]
    channel: Channel
    claim: Claim
    stderr: Path
    notes: tuple[str, ...] = ()
    elsewhere: Cgroup | None = None
    limited: Cgroup | None = None
    machine: Limits | None = None
    executing_at: float | None = None
    parts: tuple[Part, ...] = ()
    daemon: Callable[[], Sequence[int]] = list
    console: Path | None = None
    _stopped: bool = False
    _cpu_s: float | None = None
    _has_quota: bool | None = None

    @property
    def group(self) -> Cgroup:
        """The cgroup of everything that belongs to it."""
        return self.claim.group

    @property
    def _groups(self) -> list[Cgroup]:
        """The cgroups of everything that belongs to it, wherever a daemon put the container."""
        return [self.group] if self.elsewhere is None else [self.group, self.elsewhere]

    def limits_in_force(self) -> Mapping[str, Fact]:
        """Return CPUs, their time and bytes of memory, as far as known."""
        if self.machine:
            return _limit_facts(self.machine.cpus, self.machine.memory_bytes, self.machine.time)
        group = self.limited or self.group
        facts = _limit_facts(*group.in_force(), group.time())
        tasks = group.tasks()
        if tasks is not None:
            facts["limit.tasks"] = tasks
        return facts

    def layer_pids(self) -> Sequence[int]:
        """Everything in the guest's cgroup, and its daemon."""
        return [*self.group.pids("memory"), *self.daemon()]

    def host_cpu_s(self) -> float | None:
        """Return the CPU seconds of everything in the guest's cgroup; after stop, the last value."""
        return self._cpu_s if self._stopped else _sum_known(group.cpu_s() for group in self._groups)

    def throttling(self) -> Mapping[str, float]:
        """Return the throttling; a guest keeps its quota, or has none, as long as it lives."""
        group = self.limited or self.group
        if self._has_quota is None:
            self._has_quota = group.time().count is not None
        if not self._has_quota or self._stopped:
            return {}
        counts = group.throttling()
        return dict(zip(_THROTTLING, counts, strict=True)) if counts else {}

    @property
    def is_machine(self) -> bool:  # type: ignore[override]
        """Whether it is a virtual machine."""
        return self.machine is not None

    def oom_kills(self, *, has_ended: bool = False) -> int | None:
        """Count in its cgroup, wherever that is, and by its console."""
        kills = text_of(self.console).count(OUT_OF_MEMORY) if self.console else 0
        for group in self._groups:
            kills += group.oom_kills(in_log=has_ended) or 0
        return kills

    def page_faults(self) -> int | None:
        """Count those of everything in the guest's cgroup, wherever that is."""
        return _sum_known(group.page_faults() for group in self._groups)

    def host_memory(self) -> GuestMemory:
        """Read the memory of everything in the guest's cgroup, wherever that is."""
        pids: set[int] = set()
        for group in self._groups:
            pids.update(group.pids())
        charged = _sum_known(group.memory_bytes() for group in self._groups)
        return GuestMemory(pss_bytes(sorted(pids)), charged)

    def stop(self) -> None:
        """Kill everything in the cgroup and remove it."""
        if self._stopped:
            return
        self._cpu_s = self.host_cpu_s()
        self._stopped = True
        self.channel.close()
        problems = []
        interrupted = None
        for registered, release in self.claim.steps(self.process):
            try:
                release()
            except RunInterrupted as request:
                # what is not gone yet stays in the journal, which is closed next
                interrupted = request
            except (VtaxError, OSError, subprocess.TimeoutExpired) as error:
                problems.append(f"{registered.resource}: {error}")
        if interrupted:
            raise interrupted
        if problems:
            raise PlatformError(
                Note("guest-not-stopped"), where="; ".join(problems), hint=Note("hint-clean")
            )


def _limit_facts(
    cpus: Sequence[int] | None, memory_bytes: int | None, time: CpuTime
) -> dict[str, Fact]:
    """Return limits as the audit states them. cpus, memory_bytes: None where they are not known."""
    facts: dict[str, Fact] = {}
    if cpus is not None:
        facts["limit.cpus"] = ",".join(map(str, cpus))
        facts["limit.cpu_time"] = float(time.count or len(cpus))
    for name in ("period_us", "burst_us", "weight"):
        value = getattr(time, name)
        if value != getattr(CpuTime(), name):
            facts[f"limit.cpu_{name}"] = value
    if memory_bytes is not None:
        facts["limit.memory"] = "none" if memory_bytes >= cgroups.NO_LIMIT else memory_bytes
    return facts


def _sum_known(counts: Iterable[Count | None]) -> Count | None:
    """Return the sum of what several groups count; None where one of them does not tell."""
    total: Any = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return cast(Count, total)


def compile_agent(channel: Channel, image: Image) -> None:
    """Send the agent compiled for the image's Python, which spares the guest the work; its source otherwise."""
    with suppress(CommandFailed):  # then the guest compiles it
        # of peers: nothing of the user's files runs on the host
        channel.agent = bootstrap.compiled(image.of_peers.tree)


@dataclass(frozen=True)
class Program:
    """The program to spawn.

    mounts, network, new_root: see host.namespaces.private.
    limited: put the limits on the cgroup itself, for a program that does not set them (a runtime that does gets a
    group without limits of its own, and sets them on the one it makes below).
    subgroup: joined instead of the cgroup: a runtime's own processes stay outside the guest's limits.
    ids: of id-mapped mounts.
    inside: the mount namespace of a process, to enter in place of a new one.
    """

    argv: Sequence[str | Path]
    mounts: Sequence[MountStep] = ()
    network: bool = False
    new_root: Path | None = None
    limited: bool = False
    subgroup: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    ids: IdRange | None = None
    inside: int | None = None


def claim(spec: GuestSpec, undo: ExitStack) -> Claim:
    """Return a tag for the guest's processes and a cgroup for them, both in the journal; undo releases them."""
    tag = f"{spec.name}-{secrets.token_hex(4)}"
    processes = spec.journal.register(TaggedProcesses(tag, f"guest {spec.name}"))
    undo.callback(processes.release)
    group, cgroup = cgroups.create(spec.name, spec.journal)
    undo.callback(cgroup.release)
    group.limit_processes()
    return Claim(tag, group, cgroup, processes)


def start(
    spec: GuestSpec,
    program: Callable[[Cgroup], Program],
    register: Callable[[], list[Registration]] = list,
) -> StdioGuest:
    """Make the cgroup, spawn the program in it, and connect the channel.

    program: from the guest's cgroup to what to spawn.
    register: enters further resources in the journal, which are released before the program is killed.
    Raises PlatformError with the program's last lines; nothing runs then.
    """
    stderr = spec.directory / "stderr.log"
    with ExitStack() as undo:
        try:
            guest_claim = claim(spec, undo)
            definition = program(guest_claim.group)
            notes = guest_claim.group.limit(limits(spec)) if definition.limited else []
            guest_claim.before += register()
            for registered in guest_claim.before:
                undo.callback(registered.release)
            process, read_fd, write_fd = _spawn(definition, guest_claim, stderr)
        except RunInterrupted:
            raise
        except (VtaxError, OSError, subprocess.SubprocessError) as error:
            raise start_error(spec, error, last_lines(stderr)) from error
        undo.pop_all()
    channel = Channel(read_fd, write_fd, lambda: describe(process, stderr))
    return StdioGuest(process, channel, guest_claim, stderr, tuple(notes))


def describe(process: subprocess.Popen[bytes], stderr: Path) -> str:
    """Describe a program: whether it runs or how it ended, and the last lines it wrote to stderr."""
    status = process.poll()
    if status is None:
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(_ENDING_S)
    state = "still running"
    if status is not None:
        state = f"ended with status {status}"
        drain = _drains.get(stderr)
        if drain is not None:
            drain.join(_ENDING_S)
    if status in _KILLED_BY_FILTER:
        state += " (SIGSYS): a filter of system calls ended the agent"
    program = process.args[0] if isinstance(process.args, list) else str(process.args)
    text = f"{Path(str(program)).name} {state}"
    output = last_lines(stderr)
    return f"{text}; stderr: {output}" if output else text


def last_lines(path: Path, count: int = _STDERR_LINES) -> str:
    """Return the last lines of a text file on one line; empty when there are none."""
    return " | ".join(text_of(path).strip().splitlines()[-count:])


def text_of(path: Path) -> str:
    """Read the end of an output or a log of a program, whatever bytes are in it; empty where there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_END_BYTES))
            return file.read(_LOG_END_BYTES).decode(errors="replace")
    except OSError:
        return ""


@contextmanager
def drained(path: Path) -> Iterator[int]:
    """Yield the end of a pipe for what a guest's program complains of, of which the first bytes come into a file.

    So nothing of a guest has a file of this host open. What is said within the context is in the file after it.
    """
    read_end, write_end = os.pipe()
    drain = Thread(target=_drain, args=(read_end, path), daemon=True)
    _drains[path] = drain
    drain.start()
    try:
        yield write_end
    except BaseException:
        os.close(write_end)
        drain.join(_ENDING_S)
        raise
    os.close(write_end)


def _drain(read_end: int, path: Path) -> None:
    """Copy a pipe until its end; what is beyond a bound is read and forgotten."""
    remaining_bytes = _KEPT_BYTES
    with os.fdopen(read_end, "rb", buffering=0) as pipe, path.open("wb", buffering=0) as file:
        while piece := pipe.read(_PIECE_BYTES):  # empty at the end
            with suppress(OSError):  # no room on the disk
                file.write(piece[:remaining_bytes])
            remaining_bytes = max(0, remaining_bytes - len(piece))


def _spawn(
    program: Program, guest_claim: Claim, stderr: Path
) -> tuple[subprocess.Popen[bytes], int, int]:
    """Return the process, a descriptor that reads what it prints, and one that writes what it reads."""
    group = guest_claim.group.child(program.subgroup) if program.subgroup else guest_claim.group
    with ExitStack() as files:
        errors = files.enter_context(drained(stderr))
        join = files.enter_context(group.procs_file())
        ids_of = files.enter_context(user_namespace(program.ids)) if program.ids else None
        mount_namespace_fd = None
        if program.inside:
            mounts_of = Path(f"/proc/{program.inside}/ns/mnt")
            mount_namespace_fd = files.enter_context(mounts_of.open("rb")).fileno()
        child_stdin, write_fd = os.pipe()
        read_fd, child_stdout = os.pipe()
        files.callback(os.close, child_stdin)
        files.callback(os.close, child_stdout)
        try:
            process = spawn(
                program.argv,
                tag=guest_claim.tag,
                stdin=child_stdin,
                stdout=child_stdout,
                stderr=errors,
                environment=program.environment,
                cwd=stderr.parent,
                before_exec=namespaces.private(
                    program.mounts,
                    network=program.network,
                    new_root=program.new_root,
                    join=join,
                    ids_of=ids_of,
                    mount_namespace=mount_namespace_fd,
                ),
            )
        except BaseException:
            os.close(write_fd)
            os.close(read_fd)
            raise
    return process, read_fd, write_fd


def start_error(
    spec: GuestSpec, error: Exception, output: str = "", hint: str = ""
) -> PlatformError:
    """Make the error of a guest that did not start.

    output: the last lines of its program, if any.
    hint: where the error has none.
    """
    if isinstance(error, VtaxError):
        return PlatformError(error.what, where=output or error.where, hint=error.hint or hint)
    maps_ids = namespaces.MAPPING_IDS in output or f"mounting {REACHABLE_ROOT}" in output
    if maps_ids and os.strerror(errno.ENOENT) not in output:
        hint = _USERNS_HINT
    return PlatformError(Note("not-started", name=spec.name, error=error), where=output, hint=hint)
