"""Namespaces of its own for a program that compares a whole host before and after, so that nobody else is in it.

The program runs again in a PID, mount, network, IPC and cgroup namespace: what it sees of processes, mounts, links,
firewall and cgroups, all of it, is what it and its children made. /run (with the lock of what measures, and the
named network namespaces), /tmp and /dev/shm are empty file systems, but for this checkout and its Python; /etc and
/var/lib are overlays, whose upper directories hold what was written. Several can run side by side, and beside any
other vtax. The kernel's settings that belong to no namespace (huge pages, vm.*, kernel.*) remain the whole host's:
a program that changes them takes a turn (`Isolated.turn`).

When the program that waits outside is stopped or killed, everything inside is killed by the kernel. What then
remains, a cgroup and a directory, is in the journal of VTAX_HOME: it goes at once, after a SIGKILL by `vtax clean`.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import cleanup

from vtax.host import cgroup_mounts, cgroups, namespaces
from vtax.host.mounts import mounts_below
from vtax.host.namespaces import MountStep
from vtax.host.process import run, spawn
from vtax.host.resources import TaggedProcesses, Tree

_MS_REMOUNT, _MS_PRIVATE = 0x20, 0x40000
_VARIABLE = "VTAX_BENCH_ISOLATED"
_TURNS = Path("/run/vtax-bench-settings.lock")
_EMPTY = {"/run": 0o755, "/tmp": 0o1777, "/dev/shm": 0o1777}
_OF_LIBMOUNT = Path("/run/mount")  # every host has it from booting on: mount(8) makes it
_OVERLAID = ("/etc", "/var/lib")
_CHECKOUT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Isolated:
    """The inside. root: a directory on disk that is seen at the same place outside. outer_network: an open file of
    the host's network namespace. turns: of the file that is locked. log: of the file to append to, if any."""

    root: Path
    outer_network: int
    turns: int
    log: int | None = None

    @property
    def written(self) -> dict[str, Path]:
        """Where what is written into directories of the host goes."""
        return {name: self.root / "written" / _one_word(name) / "upper" for name in _OVERLAID}

    def use_outer_network(self) -> None:
        """Enter the network namespace of the host, for this process and its children."""
        if ctypes.CDLL(None, use_errno=True).setns(self.outer_network, namespaces.CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "entering the host's network namespace")

    @contextmanager
    def turn(self, *, wait: bool) -> Iterator[bool]:
        """Be the only program of this kind that changes or compares settings of the whole host; whether it is."""
        try:
            fcntl.flock(self.turns, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(self.turns, fcntl.LOCK_UN)


def run_again(shared: Mapping[str, Path], log: Path | None = None) -> int:
    """Run this program once more, isolated, to its end; returns its exit status.

    shared: directories of the host by the place below the inner root at which they are seen, read-only.
    log: a file of the host to append to.
    """
    name = f"vtax-{secrets.token_hex(3)}"
    root = Path("/var/tmp", name)
    network = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    turns = os.open(_TURNS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    log_file = (
        os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644) if log else None
    )
    with cleanup.journal() as journal:
        journal.register(Tree(str(root)))
        for place in shared:
            (root / place).mkdir(parents=True)
        (root / "written").mkdir()
        group, _ = cgroups.create(name, journal)
        journal.register(TaggedProcesses(name, "an isolated program"))
        printed = {
            "root": str(root),
            "network": network,
            "turns": turns,
            "log": log_file,
            "shared": {place: str(path) for place, path in shared.items()},
        }
        with group.procs_file() as join:
            process = spawn(
                [
                    "unshare",
                    "--pid",
                    "--cgroup",
                    "--ipc",
                    "--fork",
                    "--kill-child=KILL",
                    sys.executable,
                    *sys.argv,
                ],
                tag=name,
                stdin=0,
                stdout=1,
                stderr=2,
                pass_fds=[fd for fd in (network, turns, log_file) if fd is not None],
                environment={**os.environ, _VARIABLE: json.dumps(printed)},
                before_exec=namespaces.private(join=join),
            )
        try:
            return process.wait()
        finally:
            _end(process)


def enter() -> Isolated | None:
    """Inside: make the namespaces whole and return what is there, in a child of their first process. None outside."""
    printed = json.loads(os.environ.pop(_VARIABLE, "null"))
    if printed is None:
        return None
    root = Path(printed["root"])
    hierarchies = _cgroup_steps()
    shared = [(Path(path), root / place) for place, path in printed["shared"].items()]
    hidden = _program_files_below(_EMPTY, root / "program")
    namespaces.private([MountStep(Path("/"), flags=namespaces.MS_REC | _MS_PRIVATE)])()
    for mounted in [path for name in _EMPTY for path in mounts_below(Path(name))]:
        run(["umount", "--lazy", mounted])  # those of others come and go
    namespaces.private(
        [
            MountStep(Path("/proc"), "proc"),
            MountStep(Path("/sys"), "sysfs"),
            *(step for source, target in shared for step in _read_only(source, target)),
            *(namespaces.bind(path, kept) for path, kept in hidden),
            namespaces.tmpfs(root / "written"),
            *(namespaces.tmpfs(Path(path), mode) for path, mode in _EMPTY.items()),
        ],
        network=True,
    )()
    _OF_LIBMOUNT.mkdir()
    for path, kept in hidden:
        path.mkdir(parents=True)
        namespaces.private([namespaces.bind(kept, path)])()
        with suppress(FileNotFoundError):
            os.chdir(Path.cwd())  # into what is there now
    for name in _OVERLAID:
        for part in ("upper", "work"):
            (root / "written" / _one_word(name) / part).mkdir(parents=True)
    inside = Isolated(root, printed["network"], printed["turns"], printed["log"])
    overlays = [
        namespaces.overlay(Path(name), upper, upper.parent / "work", Path(name))
        for name, upper in inside.written.items()
    ]
    if len(hierarchies) > 1:
        namespaces.private([namespaces.tmpfs(Path("/sys/fs/cgroup"))])()
    for step in hierarchies:
        step.target.mkdir(exist_ok=True)
    namespaces.private([*overlays, *hierarchies])()
    _into_a_leaf()
    _leave_the_first_process()
    return inside


def _program_files_below(emptied: Iterable[str], kept: Path) -> list[tuple[Path, Path]]:
    """The checkout and its Python environment, where they lie in what is emptied, each with a place to keep it at."""
    hidden: list[tuple[Path, Path]] = []
    for path in (_CHECKOUT, Path(sys.prefix)):
        if any(path.is_relative_to(name) for name in emptied) and not any(
            path.is_relative_to(p) for p, _ in hidden
        ):
            place = kept / str(len(hidden))
            place.mkdir(parents=True)
            hidden.append((path, place))
    return hidden


def _cgroup_steps() -> list[MountStep]:
    """Mounts of the hierarchies there are, of which a cgroup namespace shows its own part."""
    steps = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split()
        if kind in ("cgroup", "cgroup2"):
            names = (
                [name for name in options.split(",") if name not in ("rw", "ro")]
                if kind == "cgroup"
                else []
            )
            data = ",".join(
                ["none", *names] if any(name.startswith("name=") for name in names) else names
            )
            steps.append(MountStep(Path(before.split()[4]), kind, kind, data=data))
    return list({step.target: step for step in steps}.values())


def _read_only(source: Path, target: Path) -> Iterator[MountStep]:
    yield namespaces.bind(source, target)
    yield MountStep(target, flags=_MS_REMOUNT | namespaces.MS_BIND | namespaces.MS_RDONLY)


def _into_a_leaf() -> None:
    """Below the top of the cgroup namespace, since a group of cgroup v2 holds processes or groups with limits."""
    top = cgroups.Cgroup(
        tuple((hierarchy, hierarchy.mount) for hierarchy in cgroup_mounts.hierarchies())
    )
    with top.child("program").procs_file() as fds:
        for fd in fds:
            os.write(fd, b"0")


def _leave_the_first_process() -> None:
    """Go on in a child. The first process of a PID namespace inherits orphans: it only waits for them."""
    child = os.fork()
    if child == 0:
        return
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _one_word(path: str) -> str:
    return path.strip("/").replace("/", "-")
