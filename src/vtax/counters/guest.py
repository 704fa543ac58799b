"""What a guest's kernel counts: which files are read around a trial, and the counters in their text.

The guest only reads the files; the parsing is done here. Every counter only ever grows, so that a trial's
share is the difference of two readings. What a kernel does not offer (gVisor offers little) is not in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from vtax.counters import table

# proc(5): times of /proc/stat are in units of USER_HZ, 1/100 s on every architecture vtax runs on.
_USER_HZ = 100.0
PATHS = ("/proc/stat", "/proc/vmstat", "/proc/net/dev", "/proc/net/snmp")


def parse(files: Mapping[str, bytes | None]) -> dict[str, float]:
    """Counters of counters.table by name from the text of PATHS (None: the file could not be read).

    Lines that are not understood are left out: a guest is not trusted.
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
            for counter, value in zip(table.CPU_TIMES, jiffies, strict=False):
                yield counter.name, value / _USER_HZ
        elif name in table.STAT and (counts := _numbers(words[:1])):
            yield table.STAT[name].name, counts[0]


def _vmstat(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        name, *words = line.split() or [""]
        if name in table.VMSTAT and (counts := _numbers(words)):
            yield table.VMSTAT[name].name, counts[0]


def _net_dev(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        interface, colon, rest = line.partition(":")
        columns = _numbers(rest.split())
        if colon and columns and len(columns) >= 12 and interface.strip().isprintable():
            for column, counter in table.OWN_INTERFACE_COLUMNS.items():
                yield counter.of(table.own_interface(interface.strip()[:15])), columns[column]


def _snmp(text: str) -> Iterator[tuple[str, float]]:
    """Pairs of lines, names and values, each starting with the protocol (RFC 1213 names)."""
    lines = text.splitlines()
    for heading, values in pairwise(lines):
        protocol, _, names = heading.partition(":")
        same, _, words = values.partition(":")
        if protocol != same:
            continue
        for name, word in zip(names.split(), words.split(), strict=False):
            if (protocol, name) in table.SNMP and (counts := _numbers([word])):
                yield table.SNMP[protocol, name].name, counts[0]
