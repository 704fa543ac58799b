"""Counters of the whole host around a trial, and those that it cannot count, with the reason."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from vtax.counters import domains, energy, hardware, table
from vtax.counters.guest import HOST_PATHS, network_totals, parse
from vtax.counters.open_files import OpenFiles
from vtax.messages import Note

KVM = "sys/kernel/debug/kvm"
FREQUENCY, THROTTLED = "cpufreq/scaling_cur_freq", "thermal_throttle/core_throttle_count"
CPU_FILES = (f"cpu[0-9]*/{FREQUENCY}", f"cpu[0-9]*/{THROTTLED}")
_CPUS = "sys/devices/system/cpu"
_NETWORK = "/proc/net/dev"


@dataclass(frozen=True)
class HostReading:
    """A host at one moment, as it was read: `HostCounters.counted` finds the counters in it.

    monotonic_s: when.
    controller_cpu_s: of this process.
    files: path -> bytes, None for one that cannot be read.
    events: see hardware.Events.
    domains: see domains.read.
    """

    monotonic_s: float
    controller_cpu_s: float
    files: Mapping[Path, bytes | None]
    events: Mapping[str, Sequence[bytes]]
    domains: Mapping[str, float]

    def numbers(self, pattern: str) -> list[float]:
        """Return the numbers in the files of CPUs that a pattern of CPU_FILES matches."""
        numbers = []
        for path, text in self.files.items():
            if text and text.strip().isdigit() and path.match(pattern):
                numbers.append(float(text))
        return numbers


class HostCounters:
    """Readings of a host; counts only grow from one to the next. Its files stay open."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._energy = energy.Energy(root)
        self._files = OpenFiles()
        self._kernel_files = {path: root / path.lstrip("/") for path in (*HOST_PATHS, _NETWORK)}
        self._kvm_files: dict[str, Path] = {}
        if (root / KVM).is_dir():
            for name, counter in table.VM_EXITS.items():
                self._kvm_files[counter.name] = root / KVM / name
        paths = [*self._kernel_files.values(), *self._kvm_files.values(), *self._energy.paths]
        for pattern in CPU_FILES:
            paths += sorted((root / _CPUS).glob(pattern))
        self._paths = tuple(paths)

    def read(self) -> HostReading:
        """Read everything and parse nothing."""
        domain_counters = domains.read()
        files = {path: self._files.read(path) for path in self._paths}
        events = hardware.events().read()
        return HostReading(time.monotonic(), time.process_time(), files, events, domain_counters)

    def kernel_files(self, reading: HostReading) -> dict[str, bytes | None]:
        """Return the files of /proc in a reading, by the paths that they have in a guest."""
        return {name: reading.files[path] for name, path in self._kernel_files.items()}

    def counted(self, reading: HostReading) -> dict[str, float]:
        """Return counters by the names of counters.table; what this host does not count is not among them.

        Readings are to be given in the order they were made.
        """
        files = self.kernel_files(reading)
        totals = network_totals(files.pop(_NETWORK))
        exits = {}
        for name, path in self._kvm_files.items():
            text = (reading.files.get(path) or b"").strip()
            if text.isdigit():
                exits[name] = float(text)
        events = hardware.events().counted(reading.events)
        return {
            **parse(files),
            **totals,
            **exits,
            **reading.domains,
            **self._energy.counted(reading.files),
            **events,
        }


@cache
def host_counters() -> HostCounters:
    """Return those of this host, whose files this process keeps open from the first call on."""
    return HostCounters()


EXPLAINING = frozenset({"energy", "VM exits", "cycles"})
"""Names in `not_counted` of what a host without counters lacks."""


def not_counted(root: Path = Path("/")) -> dict[str, str]:
    """Return why this host cannot count what it cannot count, by what that is."""
    reasons = {
        "energy": energy.reason_unavailable(root),
        "VM exits": _why_no_vm_exits(root),
        "CPU time of Xen's domains": domains.reason_unavailable(root),
        **hardware.events().unavailable,
    }
    if not (root / "proc/schedstat").is_file():
        reasons["run-queue wait of all tasks"] = Note("no-schedstat")
    if not (root / "proc/pressure").is_dir():
        reasons["pressure"] = Note("no-pressure")
    return {name: reason for name, reason in reasons.items() if reason}


def _why_no_vm_exits(root: Path) -> str:
    with suppress(OSError, ValueError):
        int((root / KVM / "exits").read_text())
        return ""
    if not (root / "sys/module/kvm").is_dir():
        return Note("kvm-not-used")
    return Note("no-kvm-counters")
