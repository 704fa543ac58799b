"""Host settings that `vtax run --tune-host` changes and restores: one entry of TUNABLES each.

The old value is registered in the journal before the new one is written: `vtax clean` restores it after a crash.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from vtax.errors import VtaxError
from vtax.host.journal import Journal, Registration
from vtax.host.resources import selected_option
from vtax.host.settings import change_settings, restore


@dataclass(frozen=True)
class Tunable:
    """A setting in one file or several alike.

    name: of the check whose hint it is.
    values: pattern of files -> their value for measuring; the first that this host has is meant.
    root: where /proc and /sys are.
    """

    name: str
    values: Mapping[str, str]
    root: Path = Path("/")

    def below(self, root: Path) -> Tunable:
        """Return this setting of the host whose /proc and /sys are below a root."""
        return replace(self, root=root)

    def files(self) -> list[Path]:
        """Return the files of the setting on this host; none when the host does not have it."""
        for pattern in self.values:
            files = sorted(self.root.glob(pattern))
            if files:
                return files
        return []

    @property
    def wanted(self) -> str:
        """The value for measuring."""
        return next(value for pattern, value in self.values.items() if any(self.root.glob(pattern)))

    def read(self, path: Path) -> str:
        """Return the effective value, in the form that restores it when written."""
        text = path.read_text().strip()
        return selected_option(text) or text

    def available(self) -> bool:
        """Return whether it exists and is writable."""
        return bool(self.files()) and all(os.access(path, os.W_OK) for path in self.files())

    def show(self) -> str:
        """Return the effective values."""
        return ", ".join(sorted({self.read(path) for path in self.files()}))

    def apply(self, journal: Journal) -> list[Registration]:
        """Set the value where it differs; returns registrations that restore it. Raises VtaxError after restoring."""
        return change_settings(
            journal,
            ((path, self.read(path), self.wanted) for path in self.files()),
            lambda path, error: VtaxError(f"{self.name} cannot be set: {error}", where=str(path)),
        )


_CPU = "sys/devices/system/cpu"
FREQUENCY_GOVERNOR = Tunable(
    "frequency governor", {f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor": "performance"}
)
TURBO = Tunable("turbo", {f"{_CPU}/intel_pstate/no_turbo": "1", f"{_CPU}/cpufreq/boost": "0"})
TRANSPARENT_HUGE_PAGES = Tunable(
    "transparent huge pages", {"sys/kernel/mm/transparent_hugepage/enabled": "never"}
)
ADDRESS_LAYOUT = Tunable("address layout", {"proc/sys/kernel/randomize_va_space": "2"})
SWAPPINESS = Tunable("swap", {"proc/sys/vm/swappiness": "1"})
NUMA_BALANCING = Tunable("NUMA", {"proc/sys/kernel/numa_balancing": "0"})
TUNABLES = (
    FREQUENCY_GOVERNOR,
    TURBO,
    TRANSPARENT_HUGE_PAGES,
    ADDRESS_LAYOUT,
    SWAPPINESS,
    NUMA_BALANCING,
)


@contextmanager
def tuned(journal: Journal, root: Path = Path("/")) -> Iterator[list[str]]:
    """Within the block, all tunables of this host are set; yields the changes as `name: before -> after`."""
    registrations: list[Registration] = []
    changes = []
    try:
        for entry in TUNABLES:
            tunable = entry.below(root)
            if not tunable.available():
                continue
            before = tunable.show()
            registered = tunable.apply(journal)
            if registered:
                registrations += registered
                changes.append(f"{tunable.name}: {before} -> {tunable.show()}")
        yield changes
    finally:
        restore(registrations)
