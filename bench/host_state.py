"""What a host looks like, to compare before and after, and what on it belongs to one home of vtax.

Other people's vtax may run on the same host meanwhile. A thing is ours when it names our home's directory, or a token
that one of our processes drew (every name vtax gives carries one); what is neither there before nor ours is held
against us too, unless its name is one that another vtax would give, or it goes away by itself.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.network.unchanged import host_network

Parts = Mapping[str, Mapping[str, str]]

_SETTLE_S = 4.0
_OF_ANOTHER_VTAX = re.compile(r"(^|/)vtax[-.a-z0-9]*($|/)|/vtax-")
_FOREIGN = re.compile(r"^/sys/fs/cgroup/[^/]+/[^/]+/|^/tmp/|^/root/|^/home/|^/mnt/")
"""Where others work: in groups that were there before, in temporary and home directories."""
_CHANGING = re.compile(
    r"kernel/(random/|ns_last_pid|pty/nr|sched_domain)|fs/(dentry-state|file-nr|inode-nr|inode-state|aio-nr|quota)"
    r"|fs/binfmt_misc|dev/cdrom|conntrack_count|kernel/(perf_event_max_sample_rate|perf_cpu_time_max_percent|tainted)"
    r"|vm/(stat_refresh|drop_caches|compact_memory)|net/(ipv4|ipv6)/(neigh|route/flush|tcp_mem)|debug/exception-trace"
)
_SYSTEM_SETTINGS = (
    "/sys/kernel/mm/transparent_hugepage/*",
    "/sys/kernel/mm/hugepages/*/nr_hugepages",
    "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "/sys/devices/system/cpu/cpufreq/boost",
)
_WATCHED_DIRECTORIES = ("/run", "/run/netns", "/var/lib", "/etc")


@dataclass(frozen=True)
class Ours:
    """How to know what one home made. tokens: file of the tokens its processes drew."""

    home: Path
    tokens: Path

    def owns(self, text: str) -> bool:
        """Whether a name or a path is ours."""
        return str(self.home) in text or any(token in text for token in self._drawn())

    def _drawn(self) -> set[str]:
        return set(self.tokens.read_text().split()) if self.tokens.exists() else set()


def state() -> Parts:
    """Network, mounts, control groups, settings and well-known directories: part -> thing -> value."""
    network = host_network().splitlines()
    return {
        "network": dict.fromkeys(network, ""),
        "mount": {f"{words[4]} ({words[-3]})": "" for words in map(str.split, _mounts(Path("/proc/self")))},
        "cgroup": dict.fromkeys(_cgroups(), ""),
        "setting": _settings(),
        "file": {str(path): "" for each in _WATCHED_DIRECTORIES for path in _entries(Path(each))},
        "block device": {
            str(path): path.read_text().strip() for path in Path("/sys/block").glob("*/loop/backing_file")
        },
    }


def changes(before: Parts, ours: Ours) -> list[str]:
    """What is no longer as before, once everything had time to settle. Empty: nothing."""
    return _settled(lambda: _differences(before, state(), ours))


def leftovers(ours: Ours) -> list[str]:
    """Everything on this host that only this home's vtax can have left, files in the home included."""
    return _settled(lambda: [*_files(ours.home), *_processes(ours)])


def _settled(look: Callable[[], list[str]]) -> list[str]:
    """What stays wrong: the kernel takes away an ended process' namespaces and devices in its own time."""
    deadline = time.monotonic() + _SETTLE_S
    found = look()
    while found and time.monotonic() < deadline:
        time.sleep(0.25)
        found = [problem for problem in look() if problem in found]
    return found


def _differences(before: Parts, after: Parts, ours: Ours) -> list[str]:
    found = []
    for part, now in after.items():
        then = before[part]
        for name in sorted(now.keys() | then.keys()):
            if then.get(name) != now.get(name) and (ours.owns(name) or not _of_others(name)):
                what = "new" if name not in then else "gone" if name not in now else "changed"
                values = f": {then[name]} -> {now[name]}" if what == "changed" else ""
                found.append(f"{part} {what}: {name}{values}")
    return found


def _of_others(name: str) -> bool:
    return bool(_OF_ANOTHER_VTAX.search(name) or _FOREIGN.search(name))


def _mounts(process: Path) -> list[str]:
    with suppress(OSError):
        return (process / "mountinfo").read_text().splitlines()
    return []


def _cgroups() -> Iterable[str]:
    for directory, _, _ in os.walk("/sys/fs/cgroup"):
        yield directory


def _entries(directory: Path) -> list[Path]:
    with suppress(OSError):
        return list(directory.iterdir())
    return []


def _settings() -> dict[str, str]:
    paths = [Path(top, name) for top, _, names in os.walk("/proc/sys") for name in names]
    paths += [path for pattern in _SYSTEM_SETTINGS for path in Path("/").glob(pattern.lstrip("/")) if path.is_file()]
    found = {}
    for path in paths:
        if not _CHANGING.search(str(path)):
            with suppress(OSError, UnicodeDecodeError):
                found[str(path)] = path.read_text().strip()
    return found


def _files(home: Path) -> list[str]:
    found = [f"guest directory {path.name}" for path in _entries(home / "guests")]
    found += [f"journal {path.name}" for path in _entries(home / "journal")]
    found += [f"unfinished image {path.name}" for path in _entries(home / "images") if path.suffix == ".partial"]
    return found


def _processes(ours: Ours) -> list[str]:
    """Processes that name the home in their environment, command, files' root or mounts."""
    needle, found = os.fsencode(ours.home), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            for view in ("environ", "cmdline", "mountinfo"):
                if needle in (entry / view).read_bytes():
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found.append(f"process {entry.name} ({view}): {command[:100]}")
                    break
    return found
