"""Host settings that `vtax run --tune-host` changes and restores: one class per tunable.

The old value is registered in the journal before the new one is written: `vtax clean` restores it after a crash.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from vtax.errors import VtaxError
from vtax.host.journal import Journal, Registration
from vtax.host.resources import chosen
from vtax.host.settings import change, restore


class Tunable:
    """A setting in one file or several alike. name: of the check whose hint it is. root: where /proc and /sys are."""

    name: ClassVar[str]
    pattern: ClassVar[str]
    value: ClassVar[str]

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def files(self) -> list[Path]:
        """Return the files of the setting on this host; none when the host does not have it."""
        return sorted(self._root.glob(self.pattern))

    def read(self, path: Path) -> str:
        """Return the effective value, in the form that restores it when written."""
        return path.read_text().strip()

    def wanted(self, path: Path) -> str:
        """Return the value for measuring."""
        return self.value

    def available(self) -> bool:
        """Return whether it exists and is writable."""
        return bool(self.files()) and all(os.access(path, os.W_OK) for path in self.files())

    def show(self) -> str:
        """Return the effective values."""
        return ", ".join(sorted({self.read(path) for path in self.files()}))

    def apply(self, journal: Journal) -> list[Registration]:
        """Set the value where it differs; returns registrations that restore it. Raises VtaxError after restoring."""
        return change(
            journal,
            ((path, self.read(path), self.wanted(path)) for path in self.files()),
            lambda path, error: VtaxError(f"{self.name} cannot be set: {error}", where=str(path)),
        )


class FrequencyGovernor(Tunable):
    """All CPUs at their maximum frequency."""

    name = "frequency governor"
    pattern = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
    value = "performance"


class Turbo(Tunable):
    """Turbo disabled."""

    name = "turbo"

    def files(self) -> list[Path]:
        """Return the file of intel_pstate, else that of other drivers."""
        places = ("sys/devices/system/cpu/intel_pstate/no_turbo", "sys/devices/system/cpu/cpufreq/boost")
        return [path for place in places if (path := self._root / place).exists()][:1]

    def wanted(self, path: Path) -> str:
        """no_turbo = 1, boost = 0."""
        return "1" if path.name == "no_turbo" else "0"


class TransparentHugePages(Tunable):
    """No transparent huge pages."""

    name = "transparent huge pages"
    pattern = "sys/kernel/mm/transparent_hugepage/enabled"
    value = "never"

    def read(self, path: Path) -> str:
        """Return the word in brackets."""
        return chosen(path.read_text())


class AddressLayout(Tunable):
    """Full address space layout randomization."""

    name = "address layout"
    pattern = "proc/sys/kernel/randomize_va_space"
    value = "2"


class Swappiness(Tunable):
    """Swap only when memory is short."""

    name = "swap"
    pattern = "proc/sys/vm/swappiness"
    value = "1"


class NumaBalancing(Tunable):
    """No automatic NUMA balancing."""

    name = "NUMA"
    pattern = "proc/sys/kernel/numa_balancing"
    value = "0"


TUNABLES: tuple[type[Tunable], ...] = (
    FrequencyGovernor, Turbo, TransparentHugePages, AddressLayout, Swappiness, NumaBalancing
)  # fmt: skip


def all_tunables(root: Path = Path("/")) -> list[Tunable]:
    """Return one of each."""
    return [tunable(root) for tunable in TUNABLES]


@contextmanager
def tuned(journal: Journal, root: Path = Path("/")) -> Iterator[list[str]]:
    """Within the block, all tunables of this host are set; yields the changes as `name: before -> after`."""
    changed: list[Registration] = []
    changes = []
    try:
        for tunable in all_tunables(root):
            if tunable.available():
                before = tunable.show()
                if registered := tunable.apply(journal):
                    changed += registered
                    changes.append(f"{tunable.name}: {before} -> {tunable.show()}")
        yield changes
    finally:
        restore(changed)
