"""Checks of the host for disturbances of measurements: one function per check.

A check reads files below a root directory (tests pass another host's files) and rates what it observes. It returns
None where the host does not expose the setting. Checks change nothing; tunables do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.counters.whole_host import EXPLAINING, not_counted
from vtax.doctor import tunables
from vtax.doctor.finding import Finding, Observation, Severity
from vtax.doctor.load import HostLoad
from vtax.host.core_kinds import core_kinds, kinds_of
from vtax.host.file_systems import memory_below
from vtax.host.home import Home
from vtax.messages import Note
from vtax.units import about_size, format_percent

GIB = 1 << 30
STEAL_WARN, STEAL_BAD = 0.01, 0.05
BUSY_WARN_CPUS, BUSY_BAD_SHARE = 0.1, 0.25
MEMORY_WARN, MEMORY_BAD = 2 * GIB, 1 * GIB


@dataclass(frozen=True)
class HostCheck:
    """name: also of the tunable that applies its hint, if any. why: its effect on a measurement. look: returns the
    observation on the host whose files are below a directory; None where that does not expose the setting."""

    name: str
    why: str
    look: Callable[[Path], Observation | None]


def _processors(root: Path) -> Observation | None:
    usable = len(os.sched_getaffinity(0)) if root == Path("/") else _count_processors(root)
    hint = "use a host with four CPUs or more, and pin guests to some of them"
    if usable == 1:
        return Observation("bad", Note("doctor-one-cpu"), hint)
    if usable < 4:
        return Observation("warn", Note("doctor-few-cpus", cpus=usable), hint)
    return Observation("ok", Note("doctor-cpus", cpus=usable))


def _frequency_governor(root: Path) -> Observation | None:
    found = _values(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    if not found:
        return None
    if found == ["performance"]:
        return Observation("ok", "performance")
    return Observation("warn", ", ".join(found), "cpupower frequency-set -g performance")


def _turbo(root: Path) -> Observation | None:
    tunable = tunables.TURBO.below(root)
    if not tunable.files():
        return None
    if tunable.show() == tunable.wanted:
        return Observation("ok", Note("doctor-off"))
    return Observation("warn", Note("doctor-on"), f"echo {tunable.wanted} > {tunable.files()[0]}")


def _sibling_threads(root: Path) -> Observation | None:
    active = _values(root, "sys/devices/system/cpu/smt/active")
    if not active:
        return None
    if active == ["1"]:
        hint = "echo off > /sys/devices/system/cpu/smt/control, or keep every second CPU free"
        return Observation("warn", Note("doctor-cpus-share-cores"), hint)
    return Observation("ok", Note("doctor-off"))


def _core_kinds(root: Path) -> Observation | None:
    kinds = core_kinds(root)
    if not kinds:
        is_shown = (root / "sys/devices/system/cpu").is_dir()
        return Observation("ok", Note("doctor-one-kind")) if is_shown else None
    allowed = os.sched_getaffinity(0) if root == Path("/") else {c for k in kinds for c in k.cpus}
    usable = kinds_of(allowed, kinds)
    if len(usable) < 2:
        return Observation("ok", Note("doctor-kind-alone", name=usable[0].name))
    shown = ", ".join(f"{kind.name} {kind.cpu_ranges}" for kind in usable)
    hint = (
        f"keep vtax and its guests to cores of one kind: taskset -c {usable[0].cpu_ranges} vtax ..."
    )
    return Observation("warn", shown, hint)


def _home_on_disk(root: Path) -> Observation | None:
    if not (root / "proc/self/mountinfo").exists():
        return None
    home = Home.from_environment()
    memory = memory_below(home.guests, root)
    if not memory:
        return Observation("ok", Note("doctor-on-a-disk"))
    hint = "set VTAX_HOME to a directory on a disk"
    found = Note("doctor-in-memory", home=str(home.root), memory=memory)
    return Observation("warn", found, hint)


def _transparent_huge_pages(root: Path) -> Observation | None:
    tunable = tunables.TRANSPARENT_HUGE_PAGES.below(root)
    if not tunable.files():
        return None
    chosen = tunable.show()
    if chosen == "never":
        return Observation("ok", "never")
    message = Note("doctor-pages-always" if chosen == "always" else "doctor-pages-advised")
    return Observation("warn", message, "echo never > /sys/kernel/mm/transparent_hugepage/enabled")


def _address_layout(root: Path) -> Observation | None:
    """Prefer full randomization (Mytkowicz et al., ASPLOS 2009; Curtsinger and Berger, ASPLOS 2013)."""
    found = _values(root, "proc/sys/kernel/randomize_va_space")
    if not found:
        return None
    if found == ["2"]:
        return Observation("ok", Note("doctor-layout-random"))
    return Observation("warn", Note("doctor-layout-fixed"), "sysctl kernel.randomize_va_space=2")


def _swap(root: Path) -> Observation | None:
    memory = meminfo(root)
    total, free = memory.get("SwapTotal", 0), memory.get("SwapFree", 0)
    if total == 0:
        return Observation("ok", Note("doctor-none"))
    if total - free > 16 << 20:  # a low swappiness does not swap memory in
        used = Note("doctor-swap-used", used=about_size(total - free), size=about_size(total))
        return Observation("warn", used, "swapoff -a", False)
    low = _values(root, "proc/sys/vm/swappiness") in (["0"], ["1"])
    return Observation(
        "ok" if low else "warn",
        Note("doctor-swap-unused", size=about_size(total)),
        "" if low else "sysctl vm.swappiness=1",
    )


def _numa(root: Path) -> Observation | None:
    nodes = [path for path in root.glob("sys/devices/system/node/node[0-9]*") if path.is_dir()]
    if len(nodes) < 2:
        return Observation("ok", Note("doctor-one-node")) if nodes else None
    balancing = _values(root, "proc/sys/kernel/numa_balancing") not in ([], ["0"])
    hint = "pin guests to CPUs of one node" + (
        "; sysctl kernel.numa_balancing=0" if balancing else ""
    )
    found = Note("doctor-nodes-balanced" if balancing else "doctor-nodes", nodes=len(nodes))
    return Observation("warn", found, hint, by_tunable=balancing)


def _free_memory(root: Path) -> Observation | None:
    available = meminfo(root).get("MemAvailable")
    if available is None:
        return None
    hint = "stop other programs, or use smaller guests ([guest] memory)"
    level: Severity = (
        "bad" if available < MEMORY_BAD else "warn" if available < MEMORY_WARN else "ok"
    )
    found = Note("doctor-available", size=about_size(available))
    return Observation(level, found, "" if level == "ok" else hint)


def _virtual_host(root: Path) -> Observation | None:
    """Look at the CPU flag `hypervisor` and the machine's DMI names."""
    with suppress(OSError):
        flags = (root / "proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split()
        if "hypervisor" not in flags:
            return Observation("ok", Note("doctor-not-virtual"))
        names = [
            *_values(root, "sys/class/dmi/id/sys_vendor"),
            *_values(root, "sys/class/dmi/id/product_name"),
        ]
        kind = (
            Note("doctor-virtual-machine", product=" ".join(names))
            if names
            else Note("doctor-virtual")
        )
        return Observation(
            "warn", kind, "use a physical machine, or state with every result that it is virtual"
        )
    return None


def _battery(root: Path) -> Observation | None:
    """Look for discharging batteries of the host; those of a mouse have the scope `Device` (sysfs-class-power)."""
    batteries = root.glob("sys/class/power_supply/*/status")
    own = [path.parent for path in batteries if _values(path.parent, "scope") != ["Device"]]
    if not own:
        return None
    discharging = any(_values(path, "status") == ["Discharging"] for path in own)
    return (
        Observation("bad", Note("doctor-discharging"), "connect the power supply")
        if discharging
        else Observation("ok", Note("doctor-on-mains"))
    )


def _throttling(root: Path) -> Observation | None:
    counts = _values(root, "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count")
    if not counts:
        return None
    events = max(int(count) for count in counts)
    if events == 0:
        return Observation("ok", Note("doctor-no-throttling"))
    found = Note("doctor-throttling-events", count=events)
    return Observation("warn", found, "improve cooling, or disable turbo")


def _counters(root: Path) -> Observation | None:
    """Name every kind of counter that is missing, those of one reason together. It disturbs nothing."""
    found, missing = not_counted(root), dict[str, list[str]]()
    for what, reason in found.items():
        missing.setdefault(reason, []).append(what)
    texts = [Note("doctor-named", names=names, what=reason) for reason, names in missing.items()]
    severity: Severity = "none" if found.keys() >= EXPLAINING else "ok"
    return Observation(
        severity, Note("doctor-not-counted", texts=texts) if texts else Note("doctor-all-counted")
    )


CHECKS = (
    HostCheck("CPUs", "guest, peer, vtax and the rest of the host share the CPUs", _processors),
    HostCheck(
        tunables.FREQUENCY_GOVERNOR.name,
        "a power-saving governor changes the CPU frequency during a trial",
        _frequency_governor,
    ),
    HostCheck(
        tunables.TURBO.name,
        "turbo depends on temperature and on the load of other cores: the first trials run faster than later ones",
        _turbo,
    ),
    HostCheck(
        "sibling threads",
        "two threads of a core share its execution units: a busy sibling slows a guest down",
        _sibling_threads,
    ),
    HostCheck(
        "kinds of cores",
        "guests and peers on different kinds of cores (performance, efficiency) give results that "
        "cannot be compared",
        _core_kinds,
    ),
    HostCheck(
        "home of vtax",
        "files of guests are there: where it is in memory, benchmarks of disks measure memory",
        _home_on_disk,
    ),
    HostCheck(
        tunables.TRANSPARENT_HUGE_PAGES.name,
        "huge pages speed up programs; QEMU requests them, other programs get them by chance or not at all",
        _transparent_huge_pages,
    ),
    HostCheck(
        tunables.ADDRESS_LAYOUT.name,
        "the address layout changes speed by some percent; only randomization averages this out over trials",
        _address_layout,
    ),
    HostCheck(tunables.SWAPPINESS.name, "swapped memory is read back during a trial", _swap),
    HostCheck(
        tunables.NUMA_BALANCING.name,
        "remote memory is slower, and balancing migrates pages during a trial",
        _numa,
    ),
    HostCheck(
        "free memory", "a host short of memory reclaims and swaps while it measures", _free_memory
    ),
    HostCheck(
        "virtual host",
        "other guests of the outer host use the CPUs unseen, and hardware virtualization is missing or nested",
        _virtual_host,
    ),
    HostCheck("battery", "on battery the firmware limits the CPU frequency", _battery),
    HostCheck("heat", "a hot CPU is slowed down without notice", _throttling),
    HostCheck(
        "counters",
        "vtax explain shows only what was counted; a counter that is missing may be the reason "
        "why a platform is slower",
        _counters,
    ),
)


def findings(root: Path = Path("/")) -> list[Finding]:
    """Return findings of the checks below root, in their order."""
    tunable = {tunable.name for tunable in tunables.TUNABLES if tunable.below(root).available()}
    found = []
    for check in CHECKS:
        if (seen := check.look(root)) is not None:
            can = check.name in tunable and seen.by_tunable and seen.severity != "ok"
            found.append(
                Finding(check.name, seen.severity, seen.observed, check.why, seen.hint, can)
            )
    return found


def judge_load(load: HostLoad) -> list[Finding]:
    """Return findings about the load of the host while it was sampled."""
    steal_severity: Severity = (
        "bad" if load.steal > STEAL_BAD else "warn" if load.steal > STEAL_WARN else "ok"
    )
    busy_share = load.busy_cpus / load.cpus
    busy_severity: Severity = (
        "bad"
        if busy_share > BUSY_BAD_SHARE
        else "warn"
        if load.busy_cpus > BUSY_WARN_CPUS
        else "ok"
    )
    busy = Note("doctor-busy", found=round(load.busy_cpus, 2), cpus=load.cpus)
    if load.busiest and busy_severity != "ok":
        busy = Note(
            "doctor-busy-with",
            found=round(load.busy_cpus, 2),
            cpus=load.cpus,
            programs=load.busiest,
        )
    return [
        Finding(
            "other load",
            busy_severity,
            busy,
            "other programs take CPU time, cache and bandwidth from the guests",
            "" if busy_severity == "ok" else "stop other programs while measuring",
            False,
        ),
        Finding(
            "steal",
            steal_severity,
            Note("doctor-stolen", stolen=format_percent(load.steal)),
            "the hypervisor of this host gave this CPU time to other guests",
            ""
            if steal_severity == "ok"
            else "use a dedicated machine, or measure at a time of lower load",
            False,
        ),
    ]


def meminfo(root: Path) -> dict[str, int]:
    """/proc/meminfo in bytes."""
    found = {}
    with suppress(OSError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            words = rest.split()
            found[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return found


def _values(root: Path, pattern: str) -> list[str]:
    """Return the distinct contents of all files that match a pattern, sorted."""
    found = set()
    for path in root.glob(pattern):
        with suppress(OSError):
            found.add(path.read_text().strip())
    return sorted(found)


def _count_processors(root: Path) -> int:
    return (root / "proc/cpuinfo").read_text().count("\nprocessor") + 1
