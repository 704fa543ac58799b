"""What a guest's kernel counts: which files are read around a trial, and the counters in their text.

The guest only reads the files; the parsing is done here. Every counter only ever grows, so that a trial's
share is the difference of two readings. What a kernel does not offer (gVisor offers little) is not in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

# proc(5): times of /proc/stat are in units of USER_HZ, 1/100 s on every architecture vtax runs on.
_USER_HZ = 100.0
_CPU_COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
BUSY = tuple(f"cpu_{kind}_s" for kind in ("user", "nice", "system", "irq", "softirq"))
"""CPU seconds in which something ran, by name."""
_STAT_NAMES = {"ctxt": "context_switches", "intr": "interrupts", "processes": "forks"}
_VMSTAT_NAMES = {
    "pgfault": "page_faults",
    "pgmajfault": "major_page_faults",
    "pswpin": "swapped_in_pages",
    "pswpout": "swapped_out_pages",
    "oom_kill": "out_of_memory_kills",
    "thp_fault_alloc": "huge_page_faults",
}
_SNMP_NAMES = {
    ("Tcp", "InSegs"): "tcp_segments_in",
    ("Tcp", "OutSegs"): "tcp_segments_out",
    ("Tcp", "RetransSegs"): "tcp_retransmits",
    ("Tcp", "InErrs"): "tcp_errors_in",
    ("Udp", "InDatagrams"): "udp_datagrams_in",
    ("Udp", "OutDatagrams"): "udp_datagrams_out",
    ("Udp", "InErrors"): "udp_errors_in",
    ("Udp", "RcvbufErrors"): "udp_receive_buffer_errors",
    ("Udp", "SndbufErrors"): "udp_send_buffer_errors",
}
_DEVICE_COLUMNS = {
    0: "bytes_in",
    1: "packets_in",
    2: "errors_in",
    3: "drops_in",
    8: "bytes_out",
    9: "packets_out",
    10: "errors_out",
    11: "drops_out",
}

PATHS = ("/proc/stat", "/proc/vmstat", "/proc/net/dev", "/proc/net/snmp")


def parse(files: Mapping[str, bytes | None]) -> dict[str, float]:
    """Counters by name from the text of PATHS (None: the file could not be read).

    Names end in `_s` for CPU seconds, summed over all CPUs; all others are counts, those of a network interface
    start with `net.NAME.`. Lines that are not understood are left out: a guest is not trusted.
    """
    texts = {path: (files.get(path) or b"").decode(errors="replace") for path in PATHS}
    found: dict[str, float] = {}
    found.update(_stat(texts["/proc/stat"]))
    found.update(_vmstat(texts["/proc/vmstat"]))
    found.update(_net_dev(texts["/proc/net/dev"]))
    found.update(_snmp(texts["/proc/net/snmp"]))
    return found


def boot_time_s(stat: bytes | None) -> float | None:
    """When the kernel says it was booted, Unix time, from /proc/stat; None when it does not."""
    for line in (stat or b"").decode(errors="replace").splitlines():
        name, *words = line.split() or [""]
        if name == "btime" and (found := _numbers(words[:1])):
            return found[0]
    return None


def _numbers(words: list[str]) -> list[float] | None:
    """The words as counts; None when one is not a decimal count of at most 20 digits (64 bits)."""
    if not all(word.isascii() and word.isdigit() and len(word) <= 20 for word in words):
        return None
    return [float(word) for word in words]


def _stat(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        name, *words = line.split() or [""]
        if name == "cpu" and (jiffies := _numbers(words)):
            for column, value in zip(_CPU_COLUMNS, jiffies, strict=False):
                yield f"cpu_{column}_s", value / _USER_HZ
        elif name in _STAT_NAMES and (counts := _numbers(words[:1])):
            yield _STAT_NAMES[name], counts[0]


def _vmstat(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        name, *words = line.split() or [""]
        if name in _VMSTAT_NAMES and (counts := _numbers(words)):
            yield _VMSTAT_NAMES[name], counts[0]


def _net_dev(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        interface, colon, rest = line.partition(":")
        columns = _numbers(rest.split())
        if colon and columns and len(columns) >= 12 and interface.strip().isprintable():
            for column, name in _DEVICE_COLUMNS.items():
                yield f"net.{interface.strip()[:15]}.{name}", columns[column]


def _snmp(text: str) -> Iterator[tuple[str, float]]:
    """Pairs of lines, names and values, each starting with the protocol (RFC 1213 names)."""
    lines = text.splitlines()
    for heading, values in pairwise(lines):
        protocol, _, names = heading.partition(":")
        same, _, words = values.partition(":")
        if protocol != same:
            continue
        for name, word in zip(names.split(), words.split(), strict=False):
            if (protocol, name) in _SNMP_NAMES and (counts := _numbers([word])):
                yield _SNMP_NAMES[protocol, name], counts[0]
