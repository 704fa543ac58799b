"""What the platforms that share the host's kernel have in common: a cgroup, an overlay root, an agent on stdio.

Every such guest is one spawned program whose standard streams lead to the agent. It runs in a mount namespace of its
own where the overlay over the image is mounted and where the runtime finds an empty /run and /dev/shm, so a runtime's
mounts, sockets and records live in memory that ends with its processes. What remains on the host is a cgroup, the
processes in it, and the guest's directory: the journal knows all three.
"""

from __future__ import annotations

import errno
import os
import secrets
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import Field

from vtax.errors import PlatformError, RunInterrupted, VtaxError
from vtax.guest.audit import Fact
from vtax.guest.channel import Channel
from vtax.host import cgroups, namespaces
from vtax.host.cgroups import Group, Limits
from vtax.host.journal import Held
from vtax.host.namespaces import MountStep
from vtax.host.process import spawn
from vtax.host.resources import Marked
from vtax.host.user_namespace import IdRange, unused_range, user_namespace
from vtax.host.waiting import wait_until
from vtax.platforms.base import GuestSpec, RunningGuest

START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 10.0
SCRATCH = "scratch"
_STDERR_LINES = 6
_REACHABLE = Path("/run/vtax-root")
"""Where a root is mounted that an unprivileged user of the host must reach, unlike the directory of its guest."""
_USERNS_HINT = (
    "userns needs Linux 5.19 and VTAX_HOME on a file system with id-mapped mounts, such as ext4, xfs or btrfs"
)
USERNS: bool = Field(False, description="a user namespace: the guest's root is an unprivileged user of the host")
NO_NEW_PRIVILEGES: bool = Field(
    False, description="set no_new_privs: no program gains privileges, set-user-ID or not"
)


@dataclass(frozen=True)
class Root:
    """An overlay over the image's tree. path: where it is mounted, in the guest's own mount namespace only.

    ids: the host's ids of its files' owners, when they are not the same. lower: what to mount before it then.
    """

    path: Path
    upper: Path
    mount: MountStep
    ids: IdRange | None = None
    lower: MountStep | None = None


def overlay_root(spec: GuestSpec, *, userns: bool = False) -> Root:
    """Make the directories of a fresh overlay with an empty /scratch; nothing is mounted or copied yet.

    userns: its files belong to the ids of a user namespace of the guest's; only runtime_mounts mounts such a root.
    """
    path, upper, work = (spec.directory / name for name in ("root", "upper", "work"))
    for directory in (path, upper, work):
        directory.mkdir()
    (upper / SCRATCH).mkdir(mode=0o1777)
    (upper / SCRATCH).chmod(0o1777)
    if not userns:
        return Root(path, upper, namespaces.overlay(spec.image.tree, upper, work, path))
    ids = unused_range()
    for directory in (upper, upper / SCRATCH):
        os.chown(directory, ids.first, ids.first)
    mount = replace(namespaces.overlay(path, upper, work, _REACHABLE), make=True)
    return Root(_REACHABLE, upper, mount, ids, namespaces.id_mapped(spec.image.tree, path))


def runtime_mounts(root: Root | None = None) -> list[MountStep]:
    """What a container runtime sees in its mount namespace: the guest's root, and nothing else in /run."""
    shared = [namespaces.tmpfs(Path("/run")), namespaces.tmpfs(Path("/dev/shm"), 0o1777)]
    if root is not None and root.lower is not None:
        return [root.lower, *shared, root.mount]
    return [root.mount, *shared] if root else shared


def limits(spec: GuestSpec) -> Limits:
    """The limits a guest must run under."""
    return Limits(spec.resources.cpus, spec.resources.memory_bytes, spec.resources.cpu_count)


@dataclass
class StdioGuest(RunningGuest):
    """A guest whose agent answers on the standard streams of a program (see platforms.base.RunningGuest).

    group: everything of it on the host. held: what to release, in the order it was made. elsewhere: the group that a
    daemon which is not ours put the container into. limited: the group whose limits hold, when it is another one.
    machine: what a virtual machine has, which no group limits.
    """

    process: subprocess.Popen[bytes]
    channel: Channel
    group: Group
    held: list[Held]
    stderr: Path
    notes: tuple[str, ...] = ()
    elsewhere: Group | None = None
    limited: Group | None = None
    machine: Limits | None = None
    _stopped: bool = False
    _cpu_s: float | None = None

    def limits_in_force(self) -> Mapping[str, Fact]:
        """See RunningGuest: CPUs, their time, bytes of memory, as far as known."""
        group, has = self.limited or self.group, self.machine
        cpus, memory = (has.cpus, has.memory_bytes) if has else group.in_force()
        time = has.cpu_count if has else group.cpu_count()
        found: dict[str, Fact] = {}
        if cpus is not None:
            found |= {"limit.cpus": ",".join(map(str, cpus)), "limit.cpu_time": float(time or len(cpus))}
        if memory is not None:
            found["limit.memory"] = "none" if memory >= cgroups.NO_LIMIT else memory
        return found

    def host_cpu_s(self) -> float | None:
        """CPU seconds of everything in the guest's cgroup; after stop, the last value."""
        if self._stopped:
            return self._cpu_s
        used = [group.cpu_s() for group in (self.group, self.elsewhere) if group]
        return None if None in used else sum(value for value in used if value is not None)

    def stop(self) -> None:
        """Kill everything in the cgroup and remove it."""
        if self._stopped:
            return
        self._cpu_s = self.host_cpu_s()
        self._stopped = True
        self.channel.close()
        problems = []
        interrupted = None
        for held in reversed(self.held):
            try:
                if isinstance(held.resource, Marked):
                    self.process.wait(_END_TIMEOUT_S)  # all that carries the mark was in the cgroup
                    held.forget()
                else:
                    held.release()
            except RunInterrupted as request:
                interrupted = request  # what is not gone yet stays in the journal, which is closed next
            except (VtaxError, OSError, subprocess.TimeoutExpired) as error:
                problems.append(f"{held.resource}: {error}")
        if interrupted:
            raise interrupted
        if problems:
            raise PlatformError("a guest did not stop cleanly", where="; ".join(problems), cure="run vtax clean")


@dataclass(frozen=True)
class Program:
    """The program to spawn. mounts, network, new_root: see host.namespaces.private.

    limited: put the limits on the cgroup itself, for a program that does not set them (a runtime that does gets a
    group without limits of its own, and sets them on the one it makes below). leaf: the sub-group to join, so that
    a runtime's own processes stay outside the guest's limits. ids: of the user namespace for id-mapped mounts.
    """

    argv: Sequence[str | Path]
    mounts: Sequence[MountStep] = ()
    network: bool = False
    new_root: Path | None = None
    limited: bool = False
    leaf: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    ids: IdRange | None = None


def claim(spec: GuestSpec, undo: ExitStack) -> tuple[str, Held, Group, Held]:
    """A mark for the guest's processes and a cgroup for them, each with what holds it; undo releases both."""
    mark = f"{spec.name}-{secrets.token_hex(4)}"
    held_mark = spec.journal.hold(Marked(mark, f"guest {spec.name}"))
    undo.callback(held_mark.release)
    group, held_group = cgroups.create(spec.name, spec.journal)
    undo.callback(held_group.release)
    return mark, held_mark, group, held_group


def start(
    spec: GuestSpec, program: Callable[[Group], Program], held_before: Callable[[], list[Held]] = list
) -> StdioGuest:
    """Make the cgroup, spawn the program in it, and connect the channel.

    program: from the guest's cgroup to what to spawn. held_before: holds further resources, released before the
    program is killed. Raises PlatformError with the program's last words; nothing is left running then.
    """
    stderr = spec.directory / "stderr.log"
    with ExitStack() as undo:
        try:
            mark, held_mark, group, held_group = claim(spec, undo)
            what = program(group)
            notes = group.limit(limits(spec)) if what.limited else []
            more = held_before()
            for held in more:
                undo.callback(held.release)
            process, read_fd, write_fd = _spawn(what, group, mark, stderr)
        except RunInterrupted:
            raise
        except (VtaxError, OSError, subprocess.SubprocessError) as error:
            raise start_error(spec, error, last_lines(stderr)) from error
        undo.pop_all()
    channel = Channel(read_fd, write_fd, lambda: describe(process, stderr))
    return StdioGuest(process, channel, group, [held_mark, held_group, *more], stderr, tuple(notes))


def wait_for_init(guest: StdioGuest, argv: Sequence[str], find: Callable[[], Iterable[int]] | None = None) -> int:
    """The host's PID of the guest's first process, once it runs argv: limits and namespaces are in force then.

    find: candidates; everything in the guest's cgroup when absent. Raises PlatformError when it does not appear.
    """
    wanted = b"\0".join(os.fsencode(part) for part in argv) + b"\0"

    def init() -> int:
        for pid in find() if find else guest.group.pids("memory"):
            if _is_init(pid) and _command_line(pid) == wanted:
                return pid
        if guest.process.poll() is not None:
            raise failed("the guest ended while it was starting")
        return 0

    def failed(what: str) -> PlatformError:
        return PlatformError(what, where=describe(guest.process, guest.stderr))

    late = f"the guest was not running {START_TIMEOUT_S:g} s after its start"
    return wait_until(init, START_TIMEOUT_S, 0.001, max_interval_s=0.01, otherwise=lambda: failed(late))


def finish_start(
    guest: StdioGuest, spec: GuestSpec, argv: Sequence[str], find: Callable[[], Iterable[int]] | None = None
) -> StdioGuest:
    """Wait for the guest's first process, read its limits back, and plug its network namespace.

    The guest is stopped when any of it fails. Raises PlatformError.
    """
    try:
        pid = wait_for_init(guest, argv, find)
        group = cgroups.group_of(pid)
        guest.notes += tuple(group.check(limits(spec)))
        guest.limited = group
        guest.elsewhere = None if group.is_below(guest.group) else group
        if spec.plugboard is not None:
            spec.plugboard.plug_namespace(Path(f"/proc/{pid}/ns/net"))
    except BaseException as error:
        guest.stop()
        if isinstance(error, OSError):
            raise PlatformError(f"{spec.name} did not start: {error}") from error
        raise
    return guest


def describe(process: subprocess.Popen[bytes], stderr: Path) -> str:
    """What is known of a program: whether it runs or how it ended, and the last lines it wrote to stderr."""
    status = process.poll()
    if status is None:
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(0.05)
    state = "still running" if status is None else f"ended with status {status}"
    said = last_lines(stderr)
    return f"{Path(str(_args(process)[0])).name} {state}" + (f"; it said: {said}" if said else "")


def last_lines(path: Path, count: int = _STDERR_LINES) -> str:
    """The last lines of a text file on one line; empty when there are none."""
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return " | ".join(lines[-count:])


def _spawn(what: Program, group: Group, mark: str, stderr: Path) -> tuple[subprocess.Popen[bytes], int, int]:
    joined = group.child(what.leaf) if what.leaf else group
    with ExitStack() as files:
        errors = files.enter_context(stderr.open("wb"))
        join = files.enter_context(joined.entrance())
        ids_of = files.enter_context(user_namespace(what.ids)) if what.ids else None
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        files.callback(os.close, theirs_in)
        files.callback(os.close, theirs_out)
        try:
            process = spawn(
                what.argv,
                mark=mark,
                stdin=theirs_in,
                stdout=theirs_out,
                stderr=errors.fileno(),
                environment=what.environment,
                cwd=stderr.parent,
                before_exec=namespaces.private(
                    what.mounts, network=what.network, new_root=what.new_root, join=join, ids_of=ids_of
                ),
            )
        except BaseException:
            os.close(ours_out)
            os.close(ours_in)
            raise
    return process, ours_in, ours_out


def start_error(spec: GuestSpec, error: Exception, said: str = "") -> PlatformError:
    """What a driver raises for a guest that did not start. said: the last words of its program, if any."""
    if isinstance(error, VtaxError):
        return PlatformError(error.what, where=said or error.where, cure=error.cure)
    id_mapping = any(step in said for step in (namespaces.MAPPING_IDS, f"mounting {_REACHABLE}"))
    cure = _USERNS_HINT if id_mapping and os.strerror(errno.ENOENT) not in said else ""
    return PlatformError(f"{spec.name} did not start: {error}", where=said, cure=cure)


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


def _args(process: subprocess.Popen[bytes]) -> Sequence[str]:
    return process.args if isinstance(process.args, list) else [str(process.args)]
