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

    monotonic_s: when. controller_cpu_s: of this process. files: path -> bytes, None for one that cannot be read.
    events: see hardware.Events. domains: see domains.read.
    """

    monotonic_s: float
    controller_cpu_s: float
    files: Mapping[Path, bytes | None]
    events: Mapping[str, Sequence[bytes]]
    domains: Mapping[str, float]

    def numbers(self, pattern: str) -> list[float]:
        """Return the numbers in the files of CPUs that a pattern of CPU_FILES matches."""
        texts = [text.strip() for path, text in self.files.items() if text and path.match(pattern)]
        return [float(text) for text in texts if text.isdigit()]


class HostCounters:
    """Readings of a host; counts only grow from one to the next. Its files stay open."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._energy = energy.Energy(root)
        self._files = OpenFiles()
        self._of_kernel = {path: root / path.lstrip("/") for path in (*HOST_PATHS, _NETWORK)}
        self._of_kvm = {counter.name: root / KVM / name for name, counter in table.VM_EXITS.items()}
        self._has_kvm = (root / KVM).is_dir()
        of_cpus = [path for pattern in CPU_FILES for path in sorted((root / _CPUS).glob(pattern))]
        exits = self._of_kvm.values() if self._has_kvm else ()
        self._paths = (*self._of_kernel.values(), *exits, *self._energy.paths, *of_cpus)

    def read(self) -> HostReading:
        """Read everything and parse nothing."""
        of_domains = domains.read()
        files = {path: self._files.read(path) for path in self._paths}
        events = hardware.events().read()
        return HostReading(time.monotonic(), time.process_time(), files, events, of_domains)

    def counted(self, reading: HostReading) -> dict[str, float]:
        """Counters by the names of counters.table; what this host does not count is not among them.

        Readings are to be given in the order they were made.
        """
        files = {name: reading.files[path] for name, path in self._of_kernel.items()}
        totals = network_totals(files.pop(_NETWORK))
        texts = {
            name: (reading.files.get(path) or b"").strip() for name, path in self._of_kvm.items()
        }
        exits = {name: float(text) for name, text in texts.items() if text.isdigit()}
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
    """Those of this host, whose files this process keeps open from the first call on."""
    return HostCounters()


EXPLAINING = frozenset({"energy", "VM exits", "cycles"})
"""Names in `not_counted` of what a host without counters lacks."""


def not_counted(root: Path = Path("/")) -> dict[str, str]:
    """Return what this host cannot count -> why."""
    found = {"energy": energy.reason_unavailable(root), "VM exits": _why_no_vm_exits(root)}
    found["CPU time of Xen's domains"] = domains.reason_unavailable(root)
    for event, reason in hardware.events().unavailable.items():
        found[event] = reason
    if not (root / "proc/schedstat").is_file():
        found["run-queue wait of all tasks"] = Note("no-schedstat")
    if not (root / "proc/pressure").is_dir():
        found["pressure"] = Note("no-pressure")
    return {what: why for what, why in found.items() if why}


def _why_no_vm_exits(root: Path) -> str:
    with suppress(OSError, ValueError):
        int((root / KVM / "exits").read_text())
        return ""
    if not (root / "sys/module/kvm").is_dir():
        return Note("kvm-not-used")
    return Note("no-kvm-counters")
