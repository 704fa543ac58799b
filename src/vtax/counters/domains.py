"""CPU time of every domain of Xen, read in dom0: what xentop(1) shows, from libxenstat, the library that it uses.

The library counts nanoseconds, where `xl list` prints tenths of a second, and a reading starts no process.
Reference: tools/libs/stat/include/xenstat.h of Xen.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from vtax.counters import table
from vtax.host.xen import is_dom0
from vtax.messages import Note

DOM0 = "Domain-0"
_VERSION = "sys/hypervisor/version"
_NANOSECONDS = 1e9
_POINTER, _COUNT = ctypes.c_void_p, ctypes.c_uint
_FUNCTIONS = {
    "xenstat_init": (_POINTER, ()),
    "xenstat_get_node": (_POINTER, (_POINTER, _COUNT)),
    "xenstat_free_node": (None, (_POINTER,)),
    "xenstat_node_num_domains": (_COUNT, (_POINTER,)),
    "xenstat_node_domain_by_index": (_POINTER, (_POINTER, _COUNT)),
    "xenstat_domain_name": (ctypes.c_char_p, (_POINTER,)),
    "xenstat_domain_cpu_ns": (ctypes.c_ulonglong, (_POINTER,)),
}
"""Result and arguments of the functions used."""
_DOMAINS_ALONE = 0  # flags of xenstat_get_node: no virtual CPUs, interfaces, disks


def cpu_s() -> Mapping[str, float]:
    """Return CPU seconds of every domain since its start, by name; empty where this is no dom0, or has no libxenstat."""
    library = _open(Path("/"))
    return {} if isinstance(library, str) else library.cpu_s()


def read() -> dict[str, float]:
    """Return counters by the names of counters.table: of dom0, and of all other domains."""
    cpu_s_by_domain = cpu_s()
    if not cpu_s_by_domain:
        return {}
    dom0_s = cpu_s_by_domain.get(DOM0, 0.0)
    return {
        table.DOM0_CPU.name: dom0_s,
        table.DOMAINS_CPU.name: sum(cpu_s_by_domain.values()) - dom0_s,
    }


def reason_unavailable(root: Path) -> str:
    """Return why this dom0 does not count its domains; empty where it does, and on hosts that are no dom0."""
    library = _open(root)
    return library if isinstance(library, str) else ""


class _Library:
    """libxenstat, open."""

    def __init__(self, name: str) -> None:
        """Load it. Raises OSError when the library cannot be loaded, or the hypervisor does not answer it."""
        self._library = ctypes.CDLL(name)
        for function, (result, arguments) in _FUNCTIONS.items():
            symbol = getattr(self._library, function)
            symbol.restype, symbol.argtypes = result, arguments
        self._handle = self._library.xenstat_init()
        if not self._handle:
            raise OSError("the hypervisor does not answer libxenstat")

    def cpu_s(self) -> dict[str, float]:
        """Return what the function of the same name does; empty when the hypervisor does not answer."""
        node = self._library.xenstat_get_node(self._handle, _DOMAINS_ALONE)
        if not node:
            return {}
        seconds = {}
        try:
            for index in range(self._library.xenstat_node_num_domains(node)):
                domain = self._library.xenstat_node_domain_by_index(node, index)
                name = self._library.xenstat_domain_name(domain) or b""
                nanoseconds = self._library.xenstat_domain_cpu_ns(domain)
                seconds[name.decode(errors="replace")] = nanoseconds / _NANOSECONDS
        finally:
            self._library.xenstat_free_node(node)
        return seconds


@cache
def _open(root: Path) -> _Library | str:
    """Return the library of the running hypervisor's version, or why there is none."""
    if not is_dom0(root):
        return ""
    try:
        major = (root / _VERSION / "major").read_text().strip()
        minor = (root / _VERSION / "minor").read_text().strip()
    except OSError:
        return ""
    version = f"{major}.{minor}"
    try:
        return _Library(f"libxenstat.so.{version}")
    except (OSError, AttributeError) as error:
        return Note("no-libxenstat", version=version, error=error)
