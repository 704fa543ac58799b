"""Kinds of cores of a host whose cores are not alike: performance and efficient ones."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.host.cgroups import parse_cpu_list

_INTEL = {"cpu_core": "performance", "cpu_atom": "efficient", "cpu_lowpower": "low-power"}
"""Devices of perf events, one for each kind of core (Linux, Documentation/admin-guide/perf/intel-hybrid.rst)."""


@dataclass(frozen=True)
class CoreKind:
    """Cores of one kind. name: `performance`, `efficient`, or `of capacity 446`."""

    name: str
    cpus: tuple[int, ...]

    @property
    def cpu_ranges(self) -> str:
        """Its CPUs as taskset(1) takes them."""
        return cpu_ranges(self.cpus)


def core_kinds(root: Path = Path("/")) -> tuple[CoreKind, ...]:
    """Return the kinds of cores, the fastest first; none where all cores are alike, or nothing tells.

    By the devices that Intel's hybrid processors have, else by the capacity that the kernel gives each core (Linux,
    Documentation/scheduler/sched-capacity.rst), 1024 of the fastest.
    """
    kinds = []
    for device, name in _INTEL.items():
        cpus = _cpus_in(root / "sys/devices" / device / "cpus")
        if cpus:
            kinds.append(CoreKind(name, cpus))
    if len(kinds) < 2:
        kinds = _by_capacity(root)
    return tuple(kinds) if len(kinds) > 1 else ()


def kinds_of(cpus: Iterable[int], kinds: Iterable[CoreKind]) -> tuple[CoreKind, ...]:
    """Return the kinds of some CPUs, each kind with these CPUs alone."""
    cpu_set = set(cpus)
    usable_kinds = []
    for kind in kinds:
        cpus_of_kind = tuple(cpu for cpu in kind.cpus if cpu in cpu_set)
        if cpus_of_kind:
            usable_kinds.append(CoreKind(kind.name, cpus_of_kind))
    return tuple(usable_kinds)


def cpu_ranges(cpus: Iterable[int]) -> str:
    """Return CPUs as ranges: `0-3,8`."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{a}-{b}" if a != b else f"{a}" for a, b in ranges)


def _by_capacity(root: Path) -> list[CoreKind]:
    of_capacity: dict[int, list[int]] = {}
    for path in root.glob("sys/devices/system/cpu/cpu[0-9]*/cpu_capacity"):
        with suppress(OSError, ValueError):
            number = int(path.parent.name.removeprefix("cpu"))
            of_capacity.setdefault(int(path.read_text()), []).append(number)
    capacities = sorted(of_capacity, reverse=True)
    names = [f"of capacity {capacity}" for capacity in capacities]
    if len(capacities) == 2:
        names = ["performance", "efficient"]
    kinds = []
    for name, capacity in zip(names, capacities, strict=True):
        kinds.append(CoreKind(name, tuple(sorted(of_capacity[capacity]))))
    return kinds


def _cpus_in(path: Path) -> tuple[int, ...]:
    with suppress(OSError, ValueError):
        return parse_cpu_list(path.read_text())
    return ()
