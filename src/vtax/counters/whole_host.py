"""What the host counts around a trial, everything on it together, and what it cannot count, with the reason."""

from __future__ import annotations

from pathlib import Path

from vtax.counters import domains, energy, hardware, table
from vtax.counters.guest import HOST_PATHS, network_totals, parse

KVM = "sys/kernel/debug/kvm"
_NETWORK = "/proc/net/dev"


class HostCounters:
    """Readings of one trial; counts only grow from one to the next."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._energy = energy.Energy(root)

    def read(self) -> dict[str, float]:
        """Counters by the names of counters.table; what this host does not count is not among them."""
        files = {path: file_bytes(self._root / path.lstrip("/")) for path in (*HOST_PATHS, _NETWORK)}
        totals = network_totals(files.pop(_NETWORK))
        of_guests = {**_vm_exits(self._root), **domains.read()}
        return {**parse(files), **totals, **of_guests, **self._energy.read(), **hardware.events().read()}


def not_counted(root: Path = Path("/")) -> dict[str, str]:
    """What this host cannot count: what it is -> why."""
    found = {"energy": energy.why_none(root), "VM exits": _why_no_vm_exits(root)}
    found["CPU time of Xen's domains"] = domains.why_none(root)
    for event, reason in hardware.events().unavailable.items():
        found[event] = reason
    if not (root / "proc/schedstat").is_file():
        found["run-queue wait of all tasks"] = "the kernel has no /proc/schedstat (CONFIG_SCHEDSTATS)"
    if not (root / "proc/pressure").is_dir():
        found["pressure"] = "the kernel has no /proc/pressure (CONFIG_PSI, option psi=1)"
    return {what: why for what, why in found.items() if why}


def file_bytes(path: Path) -> bytes | None:
    """The content of a file, None when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _vm_exits(root: Path) -> dict[str, float]:
    """Exits of all KVM guests since the module was loaded (debugfs)."""
    found: dict[str, float] = {}
    if not (root / KVM).is_dir():
        return found
    for name, counter in table.VM_EXITS.items():
        text = (file_bytes(root / KVM / name) or b"").decode(errors="replace").strip()
        if text.isascii() and text.isdigit():
            found[counter.name] = float(text)
    return found


def _why_no_vm_exits(root: Path) -> str:
    if _vm_exits(root):
        return ""
    if not (root / "sys/module/kvm").is_dir():
        return "KVM is not in use on this host"
    return "KVM shows no counters: mount debugfs (mount -t debugfs none /sys/kernel/debug)"
