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
from vtax.grouping import by_key
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
    """A check of the host.

    name: also of the tunable that applies its hint, if any.
    why: its effect on a measurement.
    look: returns the observation on the host whose files are below a directory; None where that does not expose the
        setting.
    """

    name: str
    why: str
    look: Callable[[Path], Observation | None]


def _processors(root: Path) -> Observation | None:
    cpus = len(os.sched_getaffinity(0)) if root == Path("/") else _count_processors(root)
    hint = "use a host with four CPUs or more, and pin guests to some of them"
    if cpus == 1:
        return Observation("bad", Note("doctor-one-cpu"), hint)
    if cpus < 4:
        return Observation("warn", Note("doctor-few-cpus", cpus=cpus), hint)
    return Observation("ok", Note("doctor-cpus", cpus=cpus))


def _frequency_governor(root: Path) -> Observation | None:
    governors = _values(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    if not governors:
        return None
    if governors == ["performance"]:
        return Observation("ok", "performance")
    return Observation("warn", ", ".join(governors), "cpupower frequency-set -g performance")


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
    usable_kinds = kinds
    if root == Path("/"):
        usable_kinds = kinds_of(os.sched_getaffinity(0), kinds)
    if len(usable_kinds) < 2:
        return Observation("ok", Note("doctor-kind-alone", name=usable_kinds[0].name))
    kinds_text = ", ".join(f"{kind.name} {kind.cpu_ranges}" for kind in usable_kinds)
    cores = usable_kinds[0].cpu_ranges
    hint = f"keep vtax and its guests to cores of one kind: taskset -c {cores} vtax ..."
    return Observation("warn", kinds_text, hint)


def _home_on_disk(root: Path) -> Observation | None:
    if not (root / "proc/self/mountinfo").exists():
        return None
    home = Home.from_environment()
    memory = memory_below(home.guests, root)
    if not memory:
        return Observation("ok", Note("doctor-on-a-disk"))
    hint = "set VTAX_HOME to a directory on a disk"
    note = Note("doctor-in-memory", home=str(home.root), memory=memory)
    return Observation("warn", note, hint)


def _transparent_huge_pages(root: Path) -> Observation | None:
    tunable = tunables.TRANSPARENT_HUGE_PAGES.below(root)
    if not tunable.files():
        return None
    mode = tunable.show()
    if mode == "never":
        return Observation("ok", "never")
    message = Note("doctor-pages-always" if mode == "always" else "doctor-pages-advised")
    return Observation("warn", message, "echo never > /sys/kernel/mm/transparent_hugepage/enabled")


def _address_layout(root: Path) -> Observation | None:
    """Prefer full randomization (Mytkowicz et al., ASPLOS 2009; Curtsinger and Berger, ASPLOS 2013)."""
    values = _values(root, "proc/sys/kernel/randomize_va_space")
    if not values:
        return None
    if values == ["2"]:
        return Observation("ok", Note("doctor-layout-random"))
    return Observation("warn", Note("doctor-layout-fixed"), "sysctl kernel.randomize_va_space=2")


def _swap(root: Path) -> Observation | None:
    memory = meminfo(root)
    total, free = memory.get("SwapTotal", 0), memory.get("SwapFree", 0)
    if total == 0:
        return Observation("ok", Note("doctor-none"))
    if total - free > 16 << 20:  # a low swappiness does not swap memory in
        in_use = Note("doctor-swap-used", used=about_size(total - free), size=about_size(total))
        return Observation("warn", in_use, "swapoff -a", False)
    unused = Note("doctor-swap-unused", size=about_size(total))
    if _values(root, "proc/sys/vm/swappiness") in (["0"], ["1"]):
        return Observation("ok", unused)
    return Observation("warn", unused, "sysctl vm.swappiness=1")


def _numa(root: Path) -> Observation | None:
    nodes = [path for path in root.glob("sys/devices/system/node/node[0-9]*") if path.is_dir()]
    if not nodes:
        return None
    if len(nodes) == 1:
        return Observation("ok", Note("doctor-one-node"))
    hint = "pin guests to CPUs of one node"
    if _values(root, "proc/sys/kernel/numa_balancing") in ([], ["0"]):
        return Observation("warn", Note("doctor-nodes", nodes=len(nodes)), hint, by_tunable=False)
    hint += "; sysctl kernel.numa_balancing=0"
    return Observation("warn", Note("doctor-nodes-balanced", nodes=len(nodes)), hint)


def _free_memory(root: Path) -> Observation | None:
    available = meminfo(root).get("MemAvailable")
    if available is None:
        return None
    size = Note("doctor-available", size=about_size(available))
    if available >= MEMORY_WARN:
        return Observation("ok", size)
    severity: Severity = "bad" if available < MEMORY_BAD else "warn"
    hint = "stop other programs, or use smaller guests ([guest] memory)"
    return Observation(severity, size, hint)


def _virtual_host(root: Path) -> Observation | None:
    """Look at the CPU flag `hypervisor` and the machine's DMI names."""
    try:
        cpuinfo = (root / "proc/cpuinfo").read_text()
    except OSError:
        return None
    flags = cpuinfo.partition("flags")[2].partition("\n")[0].split()
    if "hypervisor" not in flags:
        return Observation("ok", Note("doctor-not-virtual"))
    dmi = "sys/class/dmi/id"
    names = [*_values(root, f"{dmi}/sys_vendor"), *_values(root, f"{dmi}/product_name")]
    machine = Note("doctor-virtual")
    if names:
        machine = Note("doctor-virtual-machine", product=" ".join(names))
    hint = "use a physical machine, or state with every result that it is virtual"
    return Observation("warn", machine, hint)


def _battery(root: Path) -> Observation | None:
    """Look for discharging batteries of the host; those of a mouse have the scope `Device` (sysfs-class-power)."""
    batteries = root.glob("sys/class/power_supply/*/status")
    host_batteries = [
        path.parent for path in batteries if _values(path.parent, "scope") != ["Device"]
    ]
    if not host_batteries:
        return None
    if any(_values(path, "status") == ["Discharging"] for path in host_batteries):
        return Observation("bad", Note("doctor-discharging"), "connect the power supply")
    return Observation("ok", Note("doctor-on-mains"))


def _throttling(root: Path) -> Observation | None:
    counts = _values(root, "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count")
    if not counts:
        return None
    events = max(map(int, counts))
    if events == 0:
        return Observation("ok", Note("doctor-no-throttling"))
    note = Note("doctor-throttling-events", count=events)
    return Observation("warn", note, "improve cooling, or disable turbo")


def _counters(root: Path) -> Observation | None:
    """Name every kind of counter that is missing, those of one reason together. It disturbs nothing."""
    missing = not_counted(root)
    names_by_reason = by_key((reason, name) for name, reason in missing.items())
    texts = []
    for reason, names in names_by_reason.items():
        texts.append(Note("doctor-named", names=names, what=reason))
    if not texts:
        return Observation("ok", Note("doctor-all-counted"))
    severity: Severity = "none" if missing.keys() >= EXPLAINING else "ok"
    return Observation(severity, Note("doctor-not-counted", texts=texts))


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
    results = []
    for check in CHECKS:
        observation = check.look(root)
        if observation is None:
            continue
        severity, is_tunable = observation.severity, check.name in tunable
        finding = Finding(
            check.name,
            severity,
            observation.observed,
            check.why,
            observation.hint,
            is_tunable and observation.by_tunable and severity != "ok",
        )
        results.append(finding)
    return results


def judge_load(load: HostLoad) -> list[Finding]:
    """Return findings about the load of the host while it was sampled."""
    severity: Severity = "ok"
    if load.busy_cpus / load.cpus > BUSY_BAD_SHARE:
        severity = "bad"
    elif load.busy_cpus > BUSY_WARN_CPUS:
        severity = "warn"
    numbers = {"found": round(load.busy_cpus, 2), "cpus": load.cpus}
    busy_cpus = Note("doctor-busy", **numbers)
    if load.busiest and severity != "ok":
        busy_cpus = Note("doctor-busy-with", programs=load.busiest, **numbers)
    steal: Severity = "ok"
    if load.steal > STEAL_WARN:
        steal = "bad" if load.steal > STEAL_BAD else "warn"
    steal_hint = "use a dedicated machine, or measure at a time of lower load"
    return [
        Finding(
            "other load",
            severity,
            busy_cpus,
            "other programs take CPU time, cache and bandwidth from the guests",
            "" if severity == "ok" else "stop other programs while measuring",
            False,
        ),
        Finding(
            "steal",
            steal,
            Note("doctor-stolen", stolen=format_percent(load.steal)),
            "the hypervisor of this host gave this CPU time to other guests",
            "" if steal == "ok" else steal_hint,
            False,
        ),
    ]


def meminfo(root: Path) -> dict[str, int]:
    """Return /proc/meminfo in bytes."""
    sizes = {}
    with suppress(OSError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            words = rest.split()
            sizes[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return sizes


def _values(root: Path, pattern: str) -> list[str]:
    """Return the distinct contents of all files that match a pattern, sorted."""
    values = set()
    for path in root.glob(pattern):
        with suppress(OSError):
            values.add(path.read_text().strip())
    return sorted(values)


def _count_processors(root: Path) -> int:
    return (root / "proc/cpuinfo").read_text().count("\nprocessor") + 1
