"""Control groups of guests: the same CPUs and the same memory limit on cgroup v1, v2 and both at once.

A guest's cgroup is one directory in every hierarchy that the host mounts (one on v2, one per controller on v1),
registered in the journal and removed with everything below it. Runtimes with own limits are configured to work below
it. Where systemd owns a v2 tree, vtax requests a delegated unit and works inside it, since systemd may remove
controllers from directories that it does not manage.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISDIR
from weakref import WeakKeyDictionary

from vtax.errors import VtaxError
from vtax.host.cgroup_mounts import Hierarchy, hierarchies
from vtax.host.journal import Journal, Registration
from vtax.host.kernel_log import kills_below
from vtax.host.process import run
from vtax.host.resources import ControlGroup, RestoreCommand, members
from vtax.host.walking import below
from vtax.messages import Note

_WANTED = ("cpuset", "cpu", "memory", "io", "pids")
NO_LIMIT = (
    1 << 62
)  # an untouched memory.limit_in_bytes of v1 is the largest number of whole pages in 63 bits
_NO_SUCH_UNIT = (1, 4, 5)
_SHARES, _WEIGHT = (
    1024,
    100,
)  # of a group that nobody gave another: cpu.shares of v1, cpu.weight of v2


def most_processes(proc: Path = Path("/proc/sys/kernel")) -> int:
    """Return how many processes and threads a guest may have: a quarter of the host's ids, so that others can start."""
    return min(int((proc / name).read_text()) for name in ("pid_max", "threads-max")) // 4


@dataclass(frozen=True)
class CpuTime:
    """A limit of CPU time (Linux, Documentation/scheduler/sched-bwc.rst); the defaults are the kernel's own.

    count: quota of every period, in CPUs; None: no quota. burst_us: of unused quota that a later period may have
    more. weight: share of CPUs that other groups want too, 1.0 as of a group that nobody gave another.
    """

    count: float | None = None
    period_us: int = 100_000
    burst_us: int = 0
    weight: float = 1.0


@dataclass(frozen=True)
class Limits:
    """Limits of a group: host CPUs, bytes of memory including swap, and CPU time."""

    cpus: tuple[int, ...]
    memory_bytes: int
    time: CpuTime = CpuTime()


@dataclass(frozen=True)
class Cgroup:
    """A cgroup in every hierarchy at once. directories: pairs of a hierarchy and the group's directory in it."""

    directories: tuple[tuple[Hierarchy, Path], ...]

    def directory(self, controller: str) -> Path | None:
        """Return where a controller's files are: its v1 directory, else the v2 one when the controller is on
        there."""
        for hierarchy, path in self.directories:
            if controller in hierarchy.controllers:
                return path
        for hierarchy, path in self.directories:
            if hierarchy.unified and controller in _words(path / "cgroup.controllers"):
                return path
        return None

    def child(self, name: str) -> Cgroup:
        """Create a child group; it is removed with this one."""
        made = Cgroup(tuple((hierarchy, path / name) for hierarchy, path in self.directories))
        made.make()
        return made

    def limit_processes(self) -> None:
        """Let it and the groups below have `most_processes`, where the kernel counts them."""
        directory = self.directory("pids")
        if directory is not None and (directory / "pids.max").exists():
            (directory / "pids.max").write_text(str(most_processes()))

    def is_below(self, other: Cgroup) -> bool:
        """Return whether it is in or below the other group, in one hierarchy at least: a runtime may use no other."""
        tops = [top for _, top in other.directories]
        return any(path.is_relative_to(top) for _, path in self.directories for top in tops)

    def make(self) -> None:
        """Create the directories; on v1 they inherit CPUs and memory nodes of their parents."""
        for hierarchy, path in self.directories:
            path.mkdir(exist_ok=True)
            if "cpuset" in hierarchy.controllers:
                for name in ("cpuset.cpus", "cpuset.mems"):
                    if not (path / name).read_text().strip():
                        (path / name).write_text((path.parent / name).read_text())

    @property
    def runtime_path(self) -> str:
        """The path that runtimes take as a parent (the same in every hierarchy), e.g. `/vtax1`."""
        hierarchy, path = self.directories[0]
        return f"/{path.relative_to(hierarchy.mount)}"

    def pids(self, controller: str | None = None) -> list[int]:
        """Return every process in it and below it, as this PID namespace numbers them.

        controller: read only its hierarchy, which is faster; runtimes may not place processes in the others.
        """
        only = self.directory(controller) if controller else None
        found: set[int] = set()
        for path in [only] if only else [path for _, path in self.directories]:
            found.update(members(path))
        return sorted(found)

    @contextmanager
    def procs_file(self) -> Iterator[tuple[int, ...]]:
        """Open cgroup.procs files; a child that writes `0` to each is in the group (namespaces.private, join)."""
        fds = [
            os.open(path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
            for _, path in self.directories
        ]
        try:
            yield tuple(fds)
        finally:
            for fd in fds:
                os.close(fd)

    def cpu_s(self) -> float | None:
        """CPU seconds used by the group and its descendants, including ended processes; None when unknown."""
        with suppress(OSError, ValueError):
            if (path := self._v1("cpuacct")) is not None:
                return int((path / "cpuacct.usage").read_text()) / 1e9
            for hierarchy, path in self.directories:
                if hierarchy.unified:
                    return int(_fields(path / "cpu.stat")["usage_usec"]) / 1e6
        return None

    def throttling(self) -> tuple[int, int, float] | None:
        """Return periods of its quota in which it ran, those in which it was stopped, and the seconds of that; None
        when unknown (cpu.stat in cgroup-v2.rst and sched-bwc.rst of Linux: us and ns)."""
        with suppress(OSError, ValueError, KeyError):
            found = _fields((self.directory("cpu") or Path()) / "cpu.stat")
            is_unified = "throttled_usec" in found
            stopped_s = (
                int(found["throttled_usec"]) / 1e6
                if is_unified
                else int(found["throttled_time"]) / 1e9
            )
            return int(found["nr_periods"]), int(found["nr_throttled"]), stopped_s
        return None

    def memory_bytes(self) -> int | None:
        """Return bytes charged to the group and its descendants now, page cache and kernel memory included; None
        unknown."""
        if (path := self.directory("memory")) is not None:
            for name in ("memory.current", "memory.usage_in_bytes"):
                with suppress(OSError, ValueError):
                    return int((path / name).read_text())
        return None

    def page_faults(self) -> int | None:
        """Return the page faults of the group's processes and its descendants', ended ones included; None unknown."""
        if (path := self.directory("memory")) is not None:
            with suppress(OSError, ValueError, KeyError):
                found = _fields(path / "memory.stat")
                return int(found.get("total_pgfault") or found["pgfault"])
        return None

    def oom_kills(self, *, in_log: bool = False) -> int | None:
        """Return how many processes of the group and its descendants were killed for lack of memory; None unknown.

        On v1 every group counts its own, and what a runtime removes takes its count along. in_log: take the kernel's
        log for that, too.
        """
        path = self.directory("memory")
        if path is None:
            return None
        with suppress(OSError, ValueError, KeyError):
            return int(_fields(path / "memory.events")["oom_kill"])
        counts = []
        groups = (name for name, found in below(path, is_strict=False) if S_ISDIR(found.st_mode))
        for name in ("", *groups):
            with suppress(OSError, ValueError, KeyError):
                counts.append(int(_fields(path / name / "memory.oom_control")["oom_kill"]))
        known = sum(counts) if counts else None
        return max(known or 0, kills_below(self.runtime_path)) if in_log else known

    def limit(self, limits: Limits) -> list[str]:
        """Apply limits and verify them; returns notes on limits that this host's kernel cannot enforce."""
        notes = []
        if (path := self.directory("cpuset")) is not None:
            (path / "cpuset.cpus").write_text(",".join(map(str, limits.cpus)))
        if (path := self.directory("memory")) is not None:
            if _write_if_there(path / "memory.max", str(limits.memory_bytes)):
                _write_if_there(path / "memory.swap.max", "0")
            else:
                (path / "memory.limit_in_bytes").write_text(str(limits.memory_bytes))
                if not _write_if_there(
                    path / "memory.memsw.limit_in_bytes", str(limits.memory_bytes)
                ):
                    notes.append(Note("swap-not-limited"))
        self.limit_time(limits.time)
        return notes + self.check(limits)

    def limit_time(self, time: CpuTime) -> None:
        """Apply a limit of CPU time alone, as far as it is none that the kernel has anyway; see check."""
        if (path := self.directory("cpu")) is None:
            return
        if time.count is not None:
            quota_us = round(time.count * time.period_us)
            if not _write_if_there(path / "cpu.max", f"{quota_us} {time.period_us}"):
                _write_if_there(path / "cpu.cfs_period_us", str(time.period_us))
                _write_if_there(path / "cpu.cfs_quota_us", str(quota_us))
        if time.burst_us and not _write_if_there(path / "cpu.max.burst", str(time.burst_us)):
            _write_if_there(path / "cpu.cfs_burst_us", str(time.burst_us))
        if time.weight != 1 and not _write_if_there(
            path / "cpu.weight", str(round(time.weight * _WEIGHT))
        ):
            _write_if_there(path / "cpu.shares", str(round(time.weight * _SHARES)))

    def check(self, limits: Limits) -> list[str]:
        """Return notes on limits whose effective value differs from the requested one; empty when none does."""
        notes = list[str]()
        cpus, memory = self.in_force()
        if cpus is None:
            notes.append(Note("no-cpuset"))
        elif cpus != limits.cpus:
            notes.append(Note("other-cpus", found=cpus, requested=limits.cpus))
        page = os.sysconf("SC_PAGE_SIZE")
        if memory is None:
            notes.append(Note("no-memory-controller"))
        elif memory >= NO_LIMIT:
            notes.append(Note("no-memory-limit", memory_bytes=limits.memory_bytes))
        elif memory // page != limits.memory_bytes // page:
            notes.append(
                Note("other-memory-limit", memory=memory, memory_bytes=limits.memory_bytes)
            )
        return notes + self.check_time(limits.time)

    def check_time(self, wanted: CpuTime) -> list[str]:
        """Return notes on what differs from a limit of CPU time; empty when nothing does, or none is wanted."""
        found, notes = self.time(), list[str]()
        if wanted.count is not None and found.count != wanted.count:
            effective = "no limit" if found.count is None else f"{found.count:g} CPUs' time"
            notes.append(Note("cpu-time-limit", effective=effective, cpu_count=f"{wanted.count:g}"))
        for name in ("period_us", "burst_us", "weight"):
            has, asked = getattr(found, name), getattr(wanted, name)
            if asked != getattr(CpuTime(), name) and has != asked:
                notes.append(
                    Note("cpu-time-setting", name=name, found=f"{has:g}", requested=f"{asked:g}")
                )
        return notes

    def time(self) -> CpuTime:
        """Return what the kernel holds the group to: the smallest quota of it and its ancestors, with its period and
        burst; the weight is the group's own."""
        paths = self._upwards("cpu")
        quotas = [time for path in paths if (time := _cpu_time(path)) is not None]
        smallest = min(quotas, key=lambda time: time.count or 0.0, default=CpuTime())
        return replace(smallest, weight=_weight(paths[0])) if paths else smallest

    def in_force(self) -> tuple[tuple[int, ...] | None, int | None]:
        """Return the effective CPUs and memory limit, of this group or an ancestor.

        None for an unknown value; NO_LIMIT without a limit.
        """
        cpus = next(filter(None, (_effective_cpus(path) for path in self._upwards("cpuset"))), None)
        limits = [
            limit for path in self._upwards("memory") if (limit := _memory_limit(path)) is not None
        ]
        return cpus, min(limits, default=None)

    def _upwards(self, controller: str) -> list[Path]:
        """Return the directories of this group and its ancestors for a controller, its own first."""
        for unified in (False, True):
            for hierarchy, path in self.directories:
                if hierarchy.unified == unified and (
                    unified or controller in hierarchy.controllers
                ):
                    return [
                        path,
                        *(above for above in path.parents if above.is_relative_to(hierarchy.mount)),
                    ]
        return []

    def _v1(self, controller: str) -> Path | None:
        return next(
            (path for hierarchy, path in self.directories if controller in hierarchy.controllers),
            None,
        )


def create(name: str, journal: Journal) -> tuple[Cgroup, Registration]:
    """Return a new empty group. Raises VtaxError when this host's cgroups cannot be used, OSError when creation
    fails."""
    group = _named(name, journal)
    registered = journal.register(_resource(group))
    group.make()
    return group, registered


def register_again(name: str, journal: Journal) -> Registration:
    """Register a group again before a process that may recreate it, so that it is also removed after that process."""
    return journal.register(_resource(_named(name, journal)))


def _named(name: str, journal: Journal) -> Cgroup:
    return Cgroup(tuple((hierarchy, base / name) for hierarchy, base in _bases(journal)))


def _resource(group: Cgroup) -> ControlGroup:
    return ControlGroup(tuple(str(path) for _, path in group.directories))


def group_of(pid: int) -> Cgroup:
    """Return the group a process is in, wherever that is (/proc/PID/cgroup, cgroups(7)). Raises OSError."""
    found = []
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for hierarchy in hierarchies():
        for _, names, path in lines:
            if (hierarchy.unified and not names) or (set(names.split(",")) & hierarchy.controllers):
                found.append((hierarchy, hierarchy.mount / path.lstrip("/")))
                break
    return Cgroup(tuple(found))


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """`0-2,5` -> (0, 1, 2, 5), the kernel's list format (cpuset(7)). Raises ValueError."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(cpus)


_delegated: WeakKeyDictionary[Journal, Path] = WeakKeyDictionary()


def _bases(journal: Journal) -> list[tuple[Hierarchy, Path]]:
    mounted = hierarchies()
    if not mounted:
        raise VtaxError("no cgroup file system is mounted", hint="mount cgroup2 at /sys/fs/cgroup")
    if any(hierarchy.controllers for hierarchy in mounted):
        return [(hierarchy, hierarchy.mount) for hierarchy in mounted]
    unified = mounted[0]
    if Path("/run/systemd/system").is_dir():
        if journal not in _delegated:
            _delegated[journal] = _delegate(unified, journal)
        return [(unified, _delegated[journal])]
    _turn_on_controllers(unified.mount)
    return [(unified, unified.mount)]


def _delegate(unified: Hierarchy, journal: Journal) -> Path:
    """Request a systemd unit with a delegated cgroup (Delegate=); a sleeping process in a child cgroup keeps it."""
    unit = f"vtax-{journal.token}.service"
    journal.register(RestoreCommand(f"unit {unit}", ("systemctl", "stop", unit), _NO_SUCH_UNIT))
    settings = ("Delegate=yes", "TasksMax=infinity", "OOMPolicy=continue")
    run(
        [
            "systemd-run",
            "--quiet",
            "--collect",
            f"--unit={unit}",
            *(f"--property={s}" for s in settings),
            "sleep",
            "infinity",
        ]
    )
    shown = run(["systemctl", "show", "--property=ControlGroup,MainPID", unit]).stdout
    values = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    base = unified.mount / values["ControlGroup"].lstrip("/")
    keeper = base / "keeper"
    keeper.mkdir()
    (keeper / "cgroup.procs").write_text(values["MainPID"])
    _turn_on_controllers(base)
    return base


def _turn_on_controllers(path: Path) -> None:
    for name in _WANTED:
        if name in _words(path / "cgroup.controllers") and name not in _words(
            path / "cgroup.subtree_control"
        ):
            with suppress(OSError):
                (path / "cgroup.subtree_control").write_text(f"+{name}")


def _effective_cpus(path: Path) -> tuple[int, ...]:
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
        with suppress(OSError, ValueError):
            return parse_cpu_list((path / name).read_text())
    return ()


def _memory_limit(path: Path) -> int | None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            text = (path / name).read_text().strip()
            return NO_LIMIT if text == "max" else int(text)
    return None


def _cpu_time(path: Path) -> CpuTime | None:
    """Return the quota of one directory; `max` and -1 are none."""
    with suppress(OSError, ValueError):
        quota, period = (path / "cpu.max").read_text().split()
        return CpuTime(int(quota) / int(period), int(period), _number(path / "cpu.max.burst"))
    if (quota_us := _number(path / "cpu.cfs_quota_us")) > 0:
        period_us = _number(path / "cpu.cfs_period_us")
        return CpuTime(quota_us / period_us, period_us, _number(path / "cpu.cfs_burst_us"))
    return None


def _weight(path: Path) -> float:
    weight, shares = _number(path / "cpu.weight"), _number(path / "cpu.shares")
    return weight / _WEIGHT if weight else shares / _SHARES if shares else 1.0


def _number(path: Path) -> int:
    """Return the number in a file; 0 where the kernel has no such file, or no number in it."""
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return 0


def _write_if_there(path: Path, value: str) -> bool:
    if not path.exists():
        return False
    path.write_text(value)
    return True


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _fields(path: Path) -> dict[str, str]:
    return dict(line.split(None, 1) for line in path.read_text().splitlines())
