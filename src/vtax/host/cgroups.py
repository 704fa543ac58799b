"""Control groups of guests: the same CPUs and the same memory limit on cgroup v1, v2 and both at once.

A guest's cgroup is one directory in every hierarchy that the host mounts (one on v2, one per controller on v1),
registered in the journal and removed with everything below it. Runtimes with own limits are configured to work below
it. Where systemd owns a v2 tree, vtax requests a delegated unit and works inside it, since systemd may remove
controllers from directories that it does not manage.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from stat import S_ISDIR
from weakref import WeakKeyDictionary

from vtax.errors import VtaxError
from vtax.host.cgroup_mounts import Hierarchy, hierarchies
from vtax.host.journal import Journal, Registration
from vtax.host.kernel_log import kills_below
from vtax.host.process import run
from vtax.host.resources import ControlGroup, RestoreCommand, pids_below
from vtax.host.walking import walk
from vtax.messages import Note

_CONTROLLERS = ("cpuset", "cpu", "memory", "io", "pids")
# an untouched memory.limit_in_bytes of v1 is the largest number of whole pages in 63 bits
NO_LIMIT = 1 << 62
_NO_SUCH_UNIT = (1, 4, 5)
# the kernel's defaults: cpu.shares of v1, cpu.weight of v2
_SHARES, _WEIGHT = 1024, 100


def most_processes() -> int:
    """Return how many processes and threads a guest may have: a quarter of the host's ids, so that others can start."""
    kernel = Path("/proc/sys/kernel")
    return min(int((kernel / name).read_text()) for name in ("pid_max", "threads-max")) // 4


@dataclass(frozen=True)
class CpuTime:
    """A limit of CPU time (Linux, Documentation/scheduler/sched-bwc.rst); the defaults are the kernel's own.

    count: quota of every period, in CPUs; None: no quota.
    period_us: length of a period.
    burst_us: how much unused quota a later period may have in addition.
    weight: share of CPUs that other groups want too; 1.0 is the kernel's default.
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
        """Return the directory of a controller's files: that of v1, or that of v2 where the controller is on; or None."""
        for hierarchy, path in self.directories:
            if controller in hierarchy.controllers:
                return path
        for hierarchy, path in self.directories:
            if hierarchy.unified and controller in _words(path / "cgroup.controllers"):
                return path
        return None

    def child(self, name: str) -> Cgroup:
        """Create a child group; it is removed with this one."""
        group = Cgroup(tuple((hierarchy, path / name) for hierarchy, path in self.directories))
        group.make()
        return group

    def limit_processes(self) -> None:
        """Let it and the groups below have `most_processes`, where the kernel counts them."""
        directory = self.directory("pids")
        if directory is not None and (directory / "pids.max").exists():
            (directory / "pids.max").write_text(str(most_processes()))

    def is_below(self, other: Cgroup) -> bool:
        """Return whether it is in or below the other group, in one hierarchy at least: a runtime may use no other."""
        pairs = product(self.directories, other.directories)
        return any(path.is_relative_to(top) for (_, path), (_, top) in pairs)

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
        directory = self.directory(controller) if controller else None
        pids: set[int] = set()
        for _, path in self.directories:
            if directory is None or path == directory:
                pids.update(pids_below(path))
        return sorted(pids)

    @contextmanager
    def procs_file(self) -> Iterator[tuple[int, ...]]:
        """Open cgroup.procs files; a child that writes `0` to each is in the group (namespaces.private, join)."""
        with ExitStack() as stack:
            descriptors = []
            for _, path in self.directories:
                descriptor = os.open(path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
                stack.callback(os.close, descriptor)
                descriptors.append(descriptor)
            yield tuple(descriptors)

    def cpu_s(self) -> float | None:
        """CPU seconds used by the group and its descendants, including ended processes; None when unknown."""
        with suppress(OSError, ValueError):
            for hierarchy, path in self.directories:
                if "cpuacct" in hierarchy.controllers:
                    return int((path / "cpuacct.usage").read_text()) / 1e9
            for hierarchy, path in self.directories:
                if hierarchy.unified:
                    return int(_fields(path / "cpu.stat")["usage_usec"]) / 1e6
        return None

    def throttling(self) -> tuple[int, int, float] | None:
        """Return how its quota throttled the group, by cpu.stat (cgroup-v2.rst and sched-bwc.rst of Linux).

        (periods of its quota in which it ran, those in which it was stopped, seconds for which it was stopped); None
        when unknown.
        """
        with suppress(OSError, ValueError, KeyError):
            fields = _fields((self.directory("cpu") or Path()) / "cpu.stat")
            if "throttled_usec" in fields:
                stopped_s = int(fields["throttled_usec"]) / 1e6
            else:
                stopped_s = int(fields["throttled_time"]) / 1e9
            return int(fields["nr_periods"]), int(fields["nr_throttled"]), stopped_s
        return None

    def memory_bytes(self) -> int | None:
        """Return bytes charged to the group and its descendants now, page cache and kernel memory included.

        None when unknown.
        """
        path = self.directory("memory")
        if path is not None:
            for name in ("memory.current", "memory.usage_in_bytes"):
                with suppress(OSError, ValueError):
                    return int((path / name).read_text())
        return None

    def page_faults(self) -> int | None:
        """Return the page faults of processes of the group and its descendants, ended ones included.

        None when unknown.
        """
        path = self.directory("memory")
        if path is not None:
            with suppress(OSError, ValueError, KeyError):
                fields = _fields(path / "memory.stat")
                return int(fields.get("total_pgfault") or fields["pgfault"])
        return None

    def oom_kills(self, *, in_log: bool = False) -> int | None:
        """Return how many processes of the group and its descendants were killed for lack of memory.

        None when unknown. On v1 every group counts its own, and a group that a runtime removes takes its count along.
        in_log: read the kernel's log too, which still has those.
        """
        path = self.directory("memory")
        if path is None:
            return None
        with suppress(OSError, ValueError, KeyError):
            return int(_fields(path / "memory.events")["oom_kill"])
        groups = [path]
        for name, status in walk(path, is_strict=False):
            if S_ISDIR(status.st_mode):
                groups.append(path / name)
        count = None
        for group in groups:
            with suppress(OSError, ValueError, KeyError):
                kills = int(_fields(group / "memory.oom_control")["oom_kill"])
                count = (count or 0) + kills
        return max(count or 0, kills_below(self.runtime_path)) if in_log else count

    def limit(self, limits: Limits) -> list[str]:
        """Apply limits and verify them; returns notes on limits that this host's kernel cannot enforce."""
        notes = []
        cpuset, memory = self.directory("cpuset"), self.directory("memory")
        if cpuset is not None:
            (cpuset / "cpuset.cpus").write_text(",".join(map(str, limits.cpus)))
        if memory is not None:
            limit = str(limits.memory_bytes)
            if _write_if_there(memory / "memory.max", limit):
                _write_if_there(memory / "memory.swap.max", "0")
            else:
                (memory / "memory.limit_in_bytes").write_text(limit)
                if not _write_if_there(memory / "memory.memsw.limit_in_bytes", limit):
                    notes.append(Note("swap-not-limited"))
        self.limit_time(limits.time)
        return notes + self.check(limits)

    def limit_time(self, time: CpuTime) -> None:
        """Apply a limit of CPU time alone. Values that are the kernel's defaults are not written."""
        path = self.directory("cpu")
        if path is None:
            return
        if time.count is not None:
            quota_us = round(time.count * time.period_us)
            if not _write_if_there(path / "cpu.max", f"{quota_us} {time.period_us}"):
                _write_if_there(path / "cpu.cfs_period_us", str(time.period_us))
                _write_if_there(path / "cpu.cfs_quota_us", str(quota_us))
        burst_us = str(time.burst_us)
        if time.burst_us and not _write_if_there(path / "cpu.max.burst", burst_us):
            _write_if_there(path / "cpu.cfs_burst_us", burst_us)
        weight, shares = round(time.weight * _WEIGHT), round(time.weight * _SHARES)
        if time.weight != 1 and not _write_if_there(path / "cpu.weight", str(weight)):
            _write_if_there(path / "cpu.shares", str(shares))

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

    def check_time(self, requested_time: CpuTime) -> list[str]:
        """Return notes on what differs from a limit of CPU time; empty when nothing does, or none is wanted."""
        effective, notes = self.time(), list[str]()
        if requested_time.count is not None and effective.count != requested_time.count:
            limit = "no limit" if effective.count is None else f"{effective.count:g} CPUs' time"
            notes.append(
                Note("cpu-time-limit", effective=limit, cpu_count=f"{requested_time.count:g}")
            )
        for name in ("period_us", "burst_us", "weight"):
            value, requested = getattr(effective, name), getattr(requested_time, name)
            if requested not in (getattr(CpuTime(), name), value):
                notes.append(
                    Note(
                        "cpu-time-setting",
                        name=name,
                        found=f"{value:g}",
                        requested=f"{requested:g}",
                    )
                )
        return notes

    def time(self) -> CpuTime:
        """Return the effective limit of CPU time.

        Of the group and its ancestors the smallest quota counts, with its period and burst; the weight is the group's.
        """
        paths = self._with_ancestors("cpu")
        times = [_cpu_time(path) for path in paths]
        quotas = [time for time in times if time is not None]
        smallest = min(quotas, key=lambda time: time.count or 0.0, default=CpuTime())
        return replace(smallest, weight=_weight(paths[0])) if paths else smallest

    def in_force(self) -> tuple[tuple[int, ...] | None, int | None]:
        """Return the effective CPUs and memory limit, of this group or an ancestor.

        None for an unknown value; NO_LIMIT without a limit.
        """
        cpus: tuple[int, ...] = ()
        for path in self._with_ancestors("cpuset"):
            cpus = cpus or _effective_cpus(path)
        limits = [_memory_limit(path) for path in self._with_ancestors("memory")]
        return cpus or None, min((limit for limit in limits if limit is not None), default=None)

    def tasks(self) -> int | None:
        """Return how many processes and threads it may have, by its own limit or an ancestor's; None unlimited."""
        words = [
            word for path in self._with_ancestors("pids") for word in _words(path / "pids.max")
        ]
        return min((int(word) for word in words if word.isdigit()), default=None)

    def _with_ancestors(self, controller: str) -> list[Path]:
        """Return the directories of this group and its ancestors for a controller, its own first."""
        for hierarchy, path in sorted(self.directories, key=lambda pair: pair[0].unified):
            if hierarchy.unified or controller in hierarchy.controllers:
                ancestors = path.parents
                return [path, *(top for top in ancestors if top.is_relative_to(hierarchy.mount))]
        return []


def create(name: str, journal: Journal) -> tuple[Cgroup, Registration]:
    """Return a new empty group.

    Raises VtaxError when this host's cgroups cannot be used, and OSError when creation fails.
    """
    group = _group_called(name, journal)
    registered = journal.register(_resource(group))
    group.make()
    return group, registered


def register_again(name: str, journal: Journal) -> Registration:
    """Register a group again before a process that may recreate it, so that it is also removed after that process."""
    return journal.register(_resource(_group_called(name, journal)))


def _group_called(name: str, journal: Journal) -> Cgroup:
    return Cgroup(tuple((hierarchy, base / name) for hierarchy, base in _bases(journal)))


def _resource(group: Cgroup) -> ControlGroup:
    return ControlGroup(tuple(str(path) for _, path in group.directories))


def group_of(pid: int) -> Cgroup:
    """Return the group a process is in, wherever that is (/proc/PID/cgroup, cgroups(7)). Raises OSError."""
    directories = []
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for hierarchy in hierarchies():
        for _, names, path in lines:
            if (hierarchy.unified and not names) or (set(names.split(",")) & hierarchy.controllers):
                directories.append((hierarchy, hierarchy.mount / path.lstrip("/")))
                break
    return Cgroup(tuple(directories))


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the CPUs of the kernel's list format (cpuset(7)): `0-2,5` is 0, 1, 2, 5. Raises ValueError."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(cpus)


_delegated: WeakKeyDictionary[Journal, Path] = WeakKeyDictionary()


def _bases(journal: Journal) -> list[tuple[Hierarchy, Path]]:
    mounted_hierarchies = hierarchies()
    if not mounted_hierarchies:
        raise VtaxError("no cgroup file system is mounted", hint="mount cgroup2 at /sys/fs/cgroup")
    if any(hierarchy.controllers for hierarchy in mounted_hierarchies):
        return [(hierarchy, hierarchy.mount) for hierarchy in mounted_hierarchies]
    unified = mounted_hierarchies[0]
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
    command = ["systemd-run", "--quiet", "--collect", f"--unit={unit}"]
    for setting in ("Delegate=yes", "TasksMax=infinity", "OOMPolicy=continue"):
        command.append(f"--property={setting}")
    run([*command, "sleep", "infinity"])
    properties = run(["systemctl", "show", "--property=ControlGroup,MainPID", unit]).stdout
    values = dict(line.split("=", 1) for line in properties.splitlines() if "=" in line)
    base = unified.mount / values["ControlGroup"].lstrip("/")
    keeper = base / "keeper"
    keeper.mkdir()
    (keeper / "cgroup.procs").write_text(values["MainPID"])
    _turn_on_controllers(base)
    return base


def _turn_on_controllers(path: Path) -> None:
    control = path / "cgroup.subtree_control"
    for name in _CONTROLLERS:
        if name in _words(path / "cgroup.controllers") and name not in _words(control):
            with suppress(OSError):
                control.write_text(f"+{name}")


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
    quota_us = _number(path / "cpu.cfs_quota_us")
    if quota_us > 0:
        period_us = _number(path / "cpu.cfs_period_us")
        return CpuTime(quota_us / period_us, period_us, _number(path / "cpu.cfs_burst_us"))
    return None


def _weight(path: Path) -> float:
    weight, shares = _number(path / "cpu.weight"), _number(path / "cpu.shares")
    if weight:
        return weight / _WEIGHT
    return shares / _SHARES if shares else 1.0


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
