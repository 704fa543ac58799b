"""Snapshots of the host's resources, to detect leaks of a guest or a lab, also of a killed one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vtax.conformance.check import Failed, require
from vtax.conformance.target import Target
from vtax.host import journal as journals
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.home import Home
from vtax.host.waiting import wait_until
from vtax.host.walking import walk

TAG = "VTAX_CONFORMANCE"
"""Environment variable that every process started by a check inherits."""
_SETTLE_S = 5.0  # for the kernel to remove resources of ended processes
_START_S = 180.0
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class HostResources:
    """Resources of the host that a guest or a lab may create: kind -> names."""

    found: Mapping[str, frozenset[str]]

    @classmethod
    def now(cls, home: Home, token: str) -> HostResources:
        """Return the current resources. token: value of TAG in the processes of this check."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        files = [*_entries(home.guests), *_entries(home.journal)]
        return cls(
            {
                "process": frozenset(_processes(token)),
                "mount": frozenset(mount.split()[4] for mount in mounts),
                "interface": frozenset(_names(Path("/sys/class/net"))),
                "network namespace": frozenset(_names(Path("/run/netns"))),
                "control group": frozenset(_control_groups()),
                "file": frozenset(map(str, files)),
            }
        )

    def more_than(self, before: HostResources) -> list[str]:
        """Return resources that did not exist before: `mount /tmp/x`."""
        new_names = []
        for kind, names in self.found.items():
            new_names += [f"{kind} {name}" for name in sorted(names - before.found[kind])]
        return new_names


def check_no_leaks(before: HostResources, home: Home, token: str) -> None:
    """Require that no resource was leaked, after a settling time of the kernel."""
    wait_until(
        lambda: not HostResources.now(home, token).more_than(before),
        _SETTLE_S * timeout_factor(),
        0.2,
    )
    leaks = HostResources.now(home, token).more_than(before)
    require(not leaks, f"leaked resources: {', '.join(leaks[:5])}")


def check_killed(target: Target, home: Home, token: str) -> None:
    """Kill a process that started the plug-in's guest or lab; require that `vtax clean` removes all resources."""
    before = HostResources.now(home, token)
    argv = [sys.executable, "-m", "vtax.conformance.killed", target.kind, target.argument]
    environment = {
        **os.environ,
        TAG: token,
        "VTAX_HOME": str(home.root),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    with subprocess.Popen(
        argv,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            message = _first_line(child)
        finally:
            child.kill()
        _, errors = child.communicate()
    tail = errors.strip().splitlines()[-1:]
    if message != "started":
        _clean(home)
        raise Failed(f"it did not start in a child process: {''.join(tail) or message}")
    _clean(home)
    check_no_leaks(before, home, token)


@contextmanager
def tagged(token: str) -> Iterator[None]:
    """Within the block, new processes inherit TAG."""
    os.environ[TAG] = token
    try:
        yield
    finally:
        del os.environ[TAG]


def _first_line(child: subprocess.Popen[str]) -> str:
    import select

    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], _START_S * timeout_factor())
    return child.stdout.readline().strip() if ready else "it did not start in time"


def _clean(home: Home) -> None:
    problems = journals.clean(home.journal, lambda _: None).stays
    require(not problems, f"vtax clean could not remove: {'; '.join(problems[:3])}")


def _processes(token: str) -> list[str]:
    tag, own_pid = f"{TAG}={token}".encode(), str(os.getpid())
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or entry.name == own_pid:
            continue
        try:
            environment, words = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if tag in environment.split(b"\0") or token.encode() in words:
            name = words.split(b"\0")[0].decode(errors="replace")
            processes.append(f"{entry.name} ({name})")
    return processes


def _names(directory: Path) -> list[str]:
    return [path.name for path in _entries(directory)]


def _entries(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.is_dir() else []


def _control_groups() -> Iterator[str]:
    """Yield paths of control groups named after vtax; groups that are removed meanwhile are left out."""
    for name, status in walk(_CGROUPS, is_strict=False):
        if stat.S_ISDIR(status.st_mode) and "vtax" in name.rpartition("/")[2]:
            yield f"{_CGROUPS}/{name}"
