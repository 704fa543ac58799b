"""Memory that the guests of a study share: that of this host, or what a platform's hypervisor has free."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from vtax.platforms.base import Platform
from vtax.units import about_size


@dataclass(frozen=True)
class Memory:
    """Memory that guests share.

    available_bytes: for all guests that run at once.
    overhead_bytes: of each guest, beside its own memory.
    wording: who has it, with a place for the amount.
    """

    available_bytes: int
    overhead_bytes: int = 0
    wording: str = "this host has {}"

    def fits(self, guests: int, memory_bytes: int) -> bool:
        """Return whether so many guests of this memory can run at once."""
        return guests * (memory_bytes + self.overhead_bytes) <= self.available_bytes

    def __str__(self) -> str:
        """Return `this host has 3 GiB`."""
        return self.wording.format(about_size(self.available_bytes))


def host_memory() -> int:
    """Return bytes of memory of this host."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def platform_memory(platform: Platform) -> Memory:
    """Return the memory that guests of a platform come from."""
    own = platform.driver.hypervisor_memory()
    if own is None:
        return Memory(host_memory())
    return Memory(own.free_bytes, own.overhead_bytes, "the hypervisor has {} free")


def memory_pools(platforms: Iterable[Platform]) -> list[Memory]:
    """Return the memory of each of several platforms, one that they share once; this host's for none."""
    return list(dict.fromkeys(map(platform_memory, platforms))) or [Memory(host_memory())]
