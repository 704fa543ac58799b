"""Counters of a kernel, a guest's or the host's: which files are read around a trial, and the counters in their text.

The guest only reads the files; the parsing is done here. Every counter only ever grows, so that a trial's
share is the difference of two readings. What a kernel does not offer (gVisor offers little) is not in the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import pairwise

from vtax.counters import table

# proc(5): times of /proc/stat are in units of USER_HZ, 1/100 s on every architecture vtax runs on.
_USER_HZ = 100.0
_NANOSECONDS = 1e9
_NO_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)[0-9]")


def parse(files: Mapping[str, bytes | None]) -> dict[str, float]:
    """Return counters of counters.table by name from the text of PATHS (None: the file could not be read).

    Lines that are not understood are left out: a kernel of a guest is not trusted.
    """
    counters: dict[str, float] = {}
    for path in _PARSERS:
        counters.update(_parse(path, files.get(path) or b""))
    return counters


@lru_cache(maxsize=32)
def _parse(path: str, content: bytes) -> Mapping[str, float]:
    """Return the counters in a file. Guests that have the host's kernel have the same files."""
    return dict(_PARSERS[path](content.decode(errors="replace")))


def network_totals(net_dev: bytes | None) -> dict[str, float]:
    """Return traffic of all interfaces but lo together; nothing without an interface.

    text: of /proc/net/dev.
    """
    totals: dict[str, float] = {}
    for interface, columns in _interfaces((net_dev or b"").decode(errors="replace")):
        if interface != "lo":
            for column, counter in table.NETWORK_TOTALS.items():
                totals[counter.name] = totals.get(counter.name, 0.0) + columns[column]
    return totals


def boot_time_s(stat: bytes | None) -> float | None:
    """Return when the kernel says it was booted, Unix time, from /proc/stat; None when it does not."""
    for name, rest in _named_lines((stat or b"").decode(errors="replace")):
        if name == "btime":
            for seconds in _first_number(rest):
                return seconds
    return None


def _named_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the first word of each line and what follows, of which few lines are read."""
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        yield name, rest


def _numbers(words: list[str]) -> list[float]:
    """Return the words as counts; none when one is not a decimal count of at most 20 digits (64 bits)."""
    digits = "".join(words)
    if not digits.isascii() or not digits.isdigit() or max(map(len, words)) > 20:
        return []
    return list(map(float, words))


def _first_number(text: str) -> list[float]:
    """Return the first word as a count; none when it is not one. A line may have thousands of words."""
    return _numbers(text.split(None, 1)[:1])


def _stat(text: str) -> Iterator[tuple[str, float]]:
    for name, rest in _named_lines(text):
        if name == "cpu":
            for counter, jiffies in zip(table.CPU_TIMES, _numbers(rest.split()), strict=False):
                yield counter.name, jiffies / _USER_HZ
        elif name in table.STAT:
            for count in _first_number(rest):
                yield table.STAT[name].name, count


def _vmstat(text: str) -> Iterator[tuple[str, float]]:
    for name, rest in _named_lines(text):
        if name in table.VMSTAT:
            for count in _first_number(rest):
                yield table.VMSTAT[name].name, count


def _schedstat(text: str) -> Iterator[tuple[str, float]]:
    """Yield the sum of column 8 of the lines of CPUs, in ns (Documentation/scheduler/sched-stats.rst)."""
    waits = []
    for name, rest in _named_lines(text):
        if not name.startswith("cpu"):
            continue
        numbers = _numbers(rest.split())
        if len(numbers) >= 9:
            waits.append(numbers[7])
    if waits:
        yield table.RUN_QUEUE_WAIT.name, sum(waits) / _NANOSECONDS


def _pressure(resource: str, text: str) -> Iterator[tuple[str, float]]:
    """Yield the totals, which are in microseconds."""
    for line in text.splitlines():
        share, _, rest = line.partition(" ")
        counter = table.PRESSURE.get((resource, share))
        if counter:
            for total in _numbers([rest.rpartition("total=")[2]]):
                yield counter.name, total / 1e6


def _interrupts(text: str) -> Iterator[tuple[str, float]]:
    """Yield sums over CPUs; all devices, whose lines have a number, as one. The heading has a word per CPU."""
    lines = text.splitlines()
    cpus = len(lines[0].split()) if lines else 0
    devices, has_devices = 0.0, False
    for line in lines[1:]:
        word, _, rest = line.strip().partition(":")
        is_device = word.isascii() and word.isdigit()
        if not is_device and word not in table.INTERRUPTS:
            continue
        counts = _numbers(rest.split(None, cpus)[:cpus])
        if not counts:
            continue
        if is_device:
            devices, has_devices = devices + sum(counts), True
        else:
            yield table.INTERRUPTS[word].name, sum(counts)
    if has_devices:
        yield table.DEVICE_INTERRUPTS.name, devices


def _softirqs(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        word, _, rest = line.strip().partition(":")
        counts = _numbers(rest.split())
        if word in table.SOFTIRQS and counts:
            yield table.SOFTIRQS[word].name, sum(counts)


def _diskstats(text: str) -> Iterator[tuple[str, float]]:
    """Yield sums over whole disks: a device is a partition when its name goes on from that of another."""
    rows = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 14:
            rows[words[2]] = _numbers(words[3:14])
    disks = []
    for name, counts in rows.items():
        if counts and not _NO_DISK.match(name) and not _is_partition(name, rows):
            disks.append(counts)
    if disks:
        for column, counter in table.DISK_COLUMNS.items():
            yield counter.name, sum(counts[column - 3] for counts in disks) * counter.step


def _is_partition(name: str, names: Mapping[str, object]) -> bool:
    disk = name.rstrip("0123456789")
    return disk != name and (disk in names or (disk.endswith("p") and disk[:-1] in names))


def _net_dev(text: str) -> Iterator[tuple[str, float]]:
    for interface, columns in _interfaces(text):
        for column, counter in table.OWN_INTERFACE_COLUMNS.items():
            yield counter.of(table.own_interface(interface)), columns[column]


def _interfaces(text: str) -> Iterator[tuple[str, list[float]]]:
    for line in text.splitlines():
        interface, colon, rest = line.partition(":")
        columns = _numbers(rest.split())
        if colon and len(columns) >= 12 and interface.strip().isprintable():
            yield interface.strip()[:15], columns


def _snmp(text: str) -> Iterator[tuple[str, float]]:
    """Yield counters of pairs of lines, names and values, each starting with the protocol (RFC 1213 names)."""
    for heading, values in pairwise(text.splitlines()):
        protocol, _, names = heading.partition(":")
        value_protocol, _, words = values.partition(":")
        if protocol != value_protocol:
            continue
        for name, word in zip(names.split(), words.split(), strict=False):
            if (protocol, name) in table.SNMP:
                for count in _numbers([word]):
                    yield table.SNMP[protocol, name].name, count


_PARSERS: Mapping[str, Callable[[str], Iterator[tuple[str, float]]]] = {
    "/proc/stat": _stat,
    "/proc/vmstat": _vmstat,
    "/proc/net/dev": _net_dev,
    "/proc/net/snmp": _snmp,
    "/proc/schedstat": _schedstat,
    "/proc/interrupts": _interrupts,
    "/proc/softirqs": _softirqs,
    "/proc/diskstats": _diskstats,
    "/proc/pressure/cpu": partial(_pressure, "cpu"),
    "/proc/pressure/memory": partial(_pressure, "memory"),
    "/proc/pressure/io": partial(_pressure, "io"),
}
PATHS = tuple(_PARSERS)
"""Files read in the guest that is measured."""
PEER_PATHS = ("/proc/stat", "/proc/vmstat", "/proc/net/dev", "/proc/net/snmp")
"""Files read at the other ends of a topology."""
NAMESPACE_PATHS = ("/proc/net/dev", "/proc/net/snmp")
"""Those that differ between network namespaces of a kernel; all others are the same in all of them."""
HOST_PATHS = tuple(path for path in PATHS if path != "/proc/net/snmp")
"""Files read on the host; of its interfaces, the totals."""
