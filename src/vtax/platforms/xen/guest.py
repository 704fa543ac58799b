"""A running domain as a guest: the CPU time of the domain and of what serves it in dom0, its limits, its end."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.counters import domains
from vtax.counters.layer import Part
from vtax.errors import CommandFailed
from vtax.host.resources import RestoreCommand
from vtax.platforms.stdio import StdioGuest
from vtax.platforms.xen import tools

LOGS = Path("/var/log/xen")
PARTS = (
    Part("netback", r".+-q[0-9]+-.*"),
    Part("qemu", "xen-qemu-.*|qemu-system.*"),
    Part("console", "xenconsole|xl"),
)
"""Processes of a domain in dom0: kernel threads that carry packets, the device model, the reader of the console."""
_TICKS = os.sysconf("SC_CLK_TCK")
_SHOWN_NAME = 15  # bytes of a thread's name that the kernel shows, at least


@dataclass
class XenGuest(StdioGuest):
    """A domain.

    process: the reader of its console, which ends with the domain.
    domain: its name.
    ports: host's side of its interfaces, after which the kernel names the threads that carry their packets.
    """

    domain: str = ""
    ports: tuple[str, ...] = ()

    def layer_pids(self) -> Sequence[int]:
        """See RunningGuest: what serves it in dom0."""
        return [*super().layer_pids(), *backend_pids(self.ports)]

    def host_cpu_s(self) -> float | None:
        """Return the CPU seconds of the domain and of its device model, console and network back-end."""
        in_dom0 = super().host_cpu_s()
        if self._stopped or in_dom0 is None:
            return in_dom0
        of_domain = domain_cpu_s(self.domain)
        return None if of_domain is None else of_domain + in_dom0 + cpu_s(backend_pids(self.ports))


def domain_cpu_s(name: str) -> float | None:
    """Return the CPU seconds of a domain; None when it has ended.

    They are libxenstat's; without it they are xl's, in steps of 0.1 s.
    """
    cpu_s_by_name = domains.cpu_s()
    if name in cpu_s_by_name:
        return cpu_s_by_name[name]
    with suppress(CommandFailed):
        domain = tools.find(name)
        if domain is not None:
            return domain.cpu_s
    return None


def backend_pids(ports: tuple[str, ...], proc: Path = Path("/proc")) -> list[int]:
    """Return the kernel threads of netback for these interfaces (`PORT-q0-guest-rx`, `PORT-q0-dealloc`)."""
    prefixes = tuple(f"{port}-q"[:_SHOWN_NAME] for port in ports)
    pids = []
    for entry in proc.glob("[0-9]*") if prefixes else ():
        with suppress(OSError):
            if (entry / "comm").read_text().startswith(prefixes):
                pids.append(int(entry.name))
    return pids


def cpu_s(pids: Iterable[int], proc: Path = Path("/proc")) -> float:
    """Return the CPU seconds of processes that live (proc(5), stat fields 14 and 15)."""
    total = 0.0
    for pid in pids:
        with suppress(OSError):
            fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / _TICKS
    return total


def destroy(name: str) -> RestoreCommand:
    """Return the journal's entry of a domain, ended at once with the interfaces and disks that dom0 serves to it."""
    absent = ("is an invalid domain identifier", "No such file", "not installed")
    return RestoreCommand(
        f"Xen domain {name}", ("xl", "destroy", name), (1, 2, 255), harmless_words=absent
    )


def log_files(name: str) -> list[Path]:
    """Return the files that xl and the device model write for a domain of this name."""
    return [LOGS / f"{kind}-{name}.log" for kind in ("xl", "qemu-dm")]
