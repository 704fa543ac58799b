"""Bonnie++: what a file system does with one large file (written, rewritten, read, sought in) and many small ones.

It measures reads and writes through the guest's page cache: writing ends with fsync, which is timed; reading and
seeking come after writing and find in memory whatever fits there. It does not measure the device alone, nor several
requests in flight. Files are empty: creating and deleting them shows the work of directories and metadata.

Its trap is the size. Bonnie++ wants a file twice as large as memory, and a guest has two: its own and, where its
disk is a file of the host, the host's. Below either, reading and seeking show the cache, and the trial has a warning
with both numbers. Where the tool prints `+++++`, an operation was over before it could be timed (half a second): that
is no value, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from pydantic import Field

from vtax.benchmarks.base import (
    Benchmark,
    Command,
    Context,
    Metric,
    Operations,
    Outcome,
    Parameters,
    Role,
    register_benchmark,
)
from vtax.benchmarks.checks import check_cpu, check_files, check_room, successful_result
from vtax.benchmarks.printed import printed
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note
from vtax.study.fields import Size
from vtax.units import about_size

_MEBIBYTE = 1024**2
_LARGEST_DEFAULT_BYTES = (
    1024 * _MEBIBYTE
)  # the disk of a virtual machine has little more, unless a study sets it
_MEMORY_MULTIPLE = 2  # Bonnie++'s own rule, which -r 0 makes a warning of ours
_FILES_UNIT = 1024
_FIELDS = 50
_FORMAT = "1.98"
_TOO_FAST = "+++++"
_RATES = {"write_characters": 9, "write": 11, "rewrite": 13, "read_characters": 15, "read": 17}
_COUNTS = {
    "seeks": 19,
    "create": 26,
    "stat": 28,
    "delete": 30,
    "create_random": 32,
    "stat_random": 34,
    "delete_random": 36,
}
_EXPECTED_BYTES_PER_S, _EXPECTED_FILES_PER_S = 2e8, 5e3


class BonnieParameters(Parameters):
    """Parameters that a study may fix or vary."""

    size: Size | None = Field(
        None,
        ge=_MEBIBYTE,
        multiple_of=_MEBIBYTE,
        description="bytes of the file, whole MiB; default twice the guest's memory, at most 1 GiB",
    )
    files: int = Field(
        16,
        ge=0,
        le=1000,
        description="files of the creation tests, in units of 1024; 0 leaves them out; the disk of a "
        "virtual machine has inodes for about 60 per GiB",
    )
    seeks: int = Field(8192, ge=1, le=10**7, description="seeks, of all processes together")
    seek_processes: int = Field(4, ge=1, le=64, description="processes that seek at once")
    characters: bool = Field(
        False, description="also write and read the file character by character"
    )


@cache
def host_memory_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return the bytes of the host's memory."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", meminfo.read_text(), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


@register_benchmark
class Bonnie(Benchmark):
    name = "bonnie"
    title = "file system by a large file and many small ones (Bonnie++)"
    tool = "bonnie++"
    resource = "disk"
    packages = ("bonnie++",)
    Parameters = BonnieParameters
    work = Operations("run")
    metrics: Sequence[Metric] = (
        Metric(
            "write",
            "MB/s",
            "higher",
            "sequential output by blocks",
            primary=True,
            average="harmonic",
        ),
        Metric(
            "rewrite",
            "MB/s",
            "higher",
            "blocks read, changed and written again",
            average="harmonic",
        ),
        Metric("read", "MB/s", "higher", "sequential input by blocks", average="harmonic"),
        Metric(
            "seeks",
            "seeks/s",
            "higher",
            "random seeks, each with a read, a tenth of them with a write",
            average="harmonic",
        ),
        Metric(
            "write_characters",
            "MB/s",
            "higher",
            "sequential output by characters",
            average="harmonic",
        ),
        Metric(
            "read_characters",
            "MB/s",
            "higher",
            "sequential input by characters",
            average="harmonic",
        ),
        *(
            Metric(
                f"{name}{suffix}",
                "files/s",
                "higher",
                f"{what} in {order} order",
                average="harmonic",
            )
            for suffix, order in (("", "sequential"), ("_random", "random"))
            for name, what in (
                ("create", "files created"),
                ("stat", "stat calls"),
                ("delete", "files deleted"),
            )
        ),
    )
    version_argv = ("bonnie++",)
    version_pattern = r"^Version: (\S+)$"

    def commands(self, parameters: BonnieParameters, context: Context) -> Sequence[Command]:
        """Return the commands of a trial, whose files are in a directory of their own, removed after it."""
        p = parameters
        check_room("size", _size_bytes(p, context), context)
        check_files(p.files * _FILES_UNIT)
        directory = f"{context.scratch}/vtax-bonnie-{context.flow}"
        size = f"{_size_bytes(p, context) // _MEBIBYTE}:8k:{p.seeks}:{p.seek_processes}"
        argv = [
            "bonnie++",
            "-q",
            "-u",
            "root",
            "-m",
            "vtax",
            "-d",
            directory,
            "-r",
            "0",
            "-s",
            size,
        ]
        argv += ["-n", str(p.files)]
        if not p.characters:
            argv += ["-f"]
        before = (("mkdir", directory),)
        return (Command("single", tuple(argv), before=before, makes=(directory,)),)

    def files_bytes(self, parameters: BonnieParameters, context: Context) -> int:
        """Return the size of the large file; the many files are empty."""
        return _size_bytes(parameters, context)

    def expected_s(self, parameters: BonnieParameters, context: Context) -> float:
        """Estimate a trial: the file is written twice and read twice; files take two rounds."""
        passes = 6 if parameters.characters else 4
        return (
            passes * _size_bytes(parameters, context) / _EXPECTED_BYTES_PER_S
            + 2 * _FILES_UNIT * parameters.files / _EXPECTED_FILES_PER_S
            + 1.0
        )

    def parse(
        self, parameters: BonnieParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        """Read the line of CSV (bon_csv2txt(1)), whose rates are in KiB/s."""
        result = successful_result("bonnie++", results)
        fields = result.stdout.strip().split(",")
        if len(fields) != _FIELDS or fields[0] != _FORMAT:
            raise BenchmarkError(
                "bonnie++ printed no line that vtax knows", where=result.stdout[-200:]
            )
        requested = (
            _size_bytes(parameters, context),
            parameters.files,
            parameters.seeks,
            parameters.seek_processes,
        )
        files, seeks, processes = _count(fields[21] or "0"), _count(fields[7]), _count(fields[8])
        effective_numbers = (_bytes(fields[5]), files, seeks, processes)
        if effective_numbers != requested:
            raise BenchmarkError(
                f"bonnie++ did (size, files, seeks, processes) {effective_numbers} "
                f"where {requested} were asked for"
            )
        values, too_fast = {}, []
        for name, column in {**_RATES, **_COUNTS}.items():
            if fields[column] == _TOO_FAST:
                too_fast.append(name)
            elif fields[column]:
                values[name] = _figure(name, fields[column]) * (1024 / 1e6 if name in _RATES else 1)
        if not values.keys() | set(too_fast) >= {"write", "rewrite", "read", "seeks"}:
            raise BenchmarkError("bonnie++'s report is not complete", where=result.stdout[-200:])
        at_least_s = sum(requested[0] / 1e6 / values[name] for name in _RATES if name in values)
        if at_least_s > result.outside_s * 1.05 + 1.0:
            raise BenchmarkError(
                f"bonnie++ says it took {at_least_s:.1f} s or more, and ran {result.outside_s:.1f} s"
            )
        check_cpu("bonnie++", result, context)
        effective = dict(
            zip(("size", "files", "seeks", "seek_processes"), effective_numbers, strict=True)
        )
        return Outcome(values, effective, tuple(_warnings(effective_numbers[0], context, too_fast)))


def _size_bytes(parameters: BonnieParameters, context: Context) -> int:
    default = (
        min(_MEMORY_MULTIPLE * context.memory_bytes, _LARGEST_DEFAULT_BYTES)
        // _MEBIBYTE
        * _MEBIBYTE
    )
    return parameters.size or default


def _bytes(text: str) -> int:
    """`16M` or `2G`, as the tool prints a size."""
    match = re.fullmatch(r"(\d+)([MG])", text)
    if not match:
        raise BenchmarkError(f"bonnie++ printed a size that vtax does not know: {text[:40]!r}")
    return int(match[1]) * _MEBIBYTE * (1024 if match[2] == "G" else 1)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise BenchmarkError(f"bonnie++ printed {text[:40]!r} where a number belongs")
    return int(text)


def _figure(name: str, text: str) -> float:
    if not re.fullmatch(r"\d{1,15}(\.\d+)?", text) or float(text) <= 0:
        raise BenchmarkError(f"bonnie++ printed {text[:40]!r} for {name}")
    return printed(text)


def _warnings(size_bytes: int, context: Context, too_fast: Sequence[str]) -> list[str]:
    warnings = list[str]()
    guest, host = context.memory_bytes, host_memory_bytes()
    if size_bytes < _MEMORY_MULTIPLE * max(guest, host):
        sizes = {"size": size_bytes, "guest": guest, "host": host}
        warnings.append(
            Note(
                "file-not-twice-memory", **{name: about_size(size) for name, size in sizes.items()}
            )
        )
    if too_fast:
        warnings.append(Note("too-fast-to-time", names=tuple(too_fast)))
    return warnings
