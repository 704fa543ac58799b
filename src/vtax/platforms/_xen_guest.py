"""A running domain as a guest: the CPU time of the domain and of what serves it in dom0, its limits, its end."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import CommandFailed
from vtax.host.resources import RestoreCommand
from vtax.platforms import _xen_tools as tools
from vtax.platforms.stdio import StdioGuest

LOGS = Path("/var/log/xen")
_TICKS = os.sysconf("SC_CLK_TCK")
_SHOWN_NAME = 15  # bytes of a thread's name that the kernel shows, at least


@dataclass
class XenGuest(StdioGuest):
    """process: the reader of its console, which ends with the domain. domain: its name. ports: host's side of its
    interfaces, after which the kernel names the threads that carry their packets."""

    domain: str = ""
    ports: tuple[str, ...] = ()

    def host_cpu_s(self) -> float | None:
        """CPU seconds of the domain (in steps of 0.1 s) and of its device model, console and network back-end."""
        in_dom0 = super().host_cpu_s()
        if self._stopped or in_dom0 is None:
            return in_dom0
        with suppress(CommandFailed):
            if (domain := tools.find(self.domain)) is not None:
                return domain.cpu_s + in_dom0 + backend_s(self.ports)
        return None


def backend_s(ports: tuple[str, ...], proc: Path = Path("/proc")) -> float:
    """CPU seconds of the kernel threads of netback for these interfaces (`PORT-q0-guest-rx`, `PORT-q0-dealloc`)."""
    prefixes = tuple(f"{port}-q"[:_SHOWN_NAME] for port in ports)
    total = 0.0
    for entry in proc.glob("[0-9]*") if prefixes else ():
        with suppress(OSError):
            name, _, fields = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            if name.startswith(prefixes):
                total += sum(int(word) for word in fields.split()[11:13]) / _TICKS
    return total


def destroy(name: str) -> RestoreCommand:
    """Ends a domain at once, with the interfaces and disks that dom0 serves to it."""
    absent = ("is an invalid domain identifier", "No such file", "not installed")
    return RestoreCommand(f"Xen domain {name}", ("xl", "destroy", name), (1, 2, 255), harmless_words=absent)


def log_files(name: str) -> list[Path]:
    """The files that xl and the device model write for a domain of this name."""
    return [LOGS / f"{kind}-{name}.log" for kind in ("xl", "qemu-dm")]
