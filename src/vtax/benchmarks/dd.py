"""dd: sequential throughput of the file system of /scratch, writing a new file or reading one.

What a figure includes is chosen by `cache`:
- `flushed`: writing ends with fsync, which is timed; reading finds a file that the guest's kernel was just
  advised to drop. A cache below the guest (the host's, for a virtual disk that is a file) may still hold it.
- `direct`: O_DIRECT, past the guest's cache in both directions; writing ends with fsync.
- `cached`: the guest's cache counts: writing ends when the file is in it, reading finds the file there.
- `cold`, reading only: as `flushed`, and the host drops its own cached data of the files that the guest wrote, such
  as a virtual disk, and of no other file. Directories and other metadata stay cached. What stays of the data is a
  warning.

It does not measure random access, several requests at once, nor other file systems of the guest. Its trap is what
serves the request: a cache of the guest, or one of the host below it, which only `cold` empties. Below the host may
be another one yet: that of a disk, or of a machine that this host is a guest of.

A short trial (a small `file_size`) also holds the opening of the file and, where it is flushed, the end of the flush.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from vtax.benchmarks.base import (
    Benchmark,
    Command,
    Context,
    DiskWork,
    Metric,
    Operations,
    Outcome,
    Parameters,
    Role,
    WorkParameter,
    register_benchmark,
)
from vtax.benchmarks.checks import check_cpu, check_room, successful_result
from vtax.benchmarks.printed import printed
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note
from vtax.study.fields import Size

_SECTOR_BYTES = 512
_MEGA = 1e6
_EXPECTED_BYTES_PER_S = 5e8
_SUMMARY = re.compile(r"^(\d+) bytes .*copied, ([0-9.e+-]+) s(?:econds)?, ", re.MULTILINE)


_VERSIONS = {
    r"\Add \(coreutils\) (\S+)": "",
    r"\Add \(uutils coreutils\) (\S+)": "uutils ",
    r"^BusyBox v(\S+)": "busybox ",
    r"^toybox (\d\S*)": "toybox ",
}
"""Programs of this name that print the summary of GNU's: where the version is, and what stands before it."""


class DdParameters(Parameters):
    """Parameters that a study may fix or vary."""

    direction: Literal["write", "read"] = Field("write", description="what is timed")
    file_size: Size = Field(256 * 1024**2, ge=_SECTOR_BYTES, description="bytes of the file")
    block_size: Size = Field(1024**2, ge=1, le=1024**3, description="bytes of one read or write")
    cache: Literal["flushed", "direct", "cached", "cold"] = Field(
        "flushed",
        description="what the figure includes; flushed: until it is on the guest's disk, or read with an emptied "
        "cache; direct: past the guest's cache (O_DIRECT); cached: the guest's cache counts; cold: read with emptied "
        "caches of guest and host",
    )

    @model_validator(mode="after")
    def _whole_blocks(self) -> Self:
        if self.file_size % self.block_size:
            raise ValueError(
                f"file_size ({self.file_size}) is not a whole number of blocks of block_size ({self.block_size})"
            )
        if self.cache == "direct" and self.block_size % _SECTOR_BYTES:
            raise ValueError(
                f"cache 'direct' needs a block_size that is a multiple of {_SECTOR_BYTES}"
            )
        if self.cache == "cold" and self.direction == "write":
            raise ValueError(
                "cache 'cold' belongs to reads: a file that is written is new, and in no cache before"
            )
        return self


@register_benchmark
class Dd(Benchmark):
    name = "dd"
    title = "sequential file throughput (dd)"
    tool = "dd"
    resource = "disk"
    Parameters = DdParameters
    work = Operations("GB", "file_size", 1e9)
    metrics: Sequence[Metric] = (
        Metric(
            "rate",
            "MB/s",
            "higher",
            "sequential rate",
            primary=True,
            average="harmonic",
        ),
        Metric("time", "s", "lower", "time for the whole file"),
    )
    version_argv = ("dd", "--version")

    def version_of(self, output: str) -> str:
        """Return the version of GNU's dd alone, of another one its name, too. Raises BenchmarkError."""
        for pattern, name in _VERSIONS.items():
            if match := re.search(pattern, output, re.MULTILINE):
                return f"{name}{match[1]}"
        return super().version_of(output)

    def commands(self, parameters: DdParameters, context: Context) -> Sequence[Command]:
        """Return the commands of a trial, which makes its file and removes it."""
        p = parameters
        check_room("file_size", p.file_size, context)
        path = f"{context.scratch}/vtax-dd-{context.flow}"
        size = (f"bs={p.block_size}", f"count={p.file_size // p.block_size}")
        if p.direction == "write":
            flags = {
                "flushed": ("conv=fsync",),
                "direct": ("oflag=direct", "conv=fsync"),
                "cached": (),
            }[p.cache]
            argv = ("dd", "if=/dev/zero", f"of={path}", *size, *flags)
            return (Command("single", argv, makes=(path,)),)
        make = (
            "dd",
            "if=/dev/zero",
            f"of={path}",
            "bs=1M",
            f"count={p.file_size}",
            "iflag=count_bytes",
            "conv=fsync",
        )
        # dd of nothing with this flag advises the kernel to drop the whole file (coreutils manual, dd, `nocache`).
        forget = ("dd", f"if={path}", "iflag=nocache", "count=0")
        flags = ("iflag=direct",) if p.cache == "direct" else ()
        prepare = (make, forget) if p.cache in ("flushed", "cold") else (make,)
        argv = ("dd", f"if={path}", "of=/dev/null", *size, *flags)
        return (Command("single", argv, before=prepare, makes=(path,), is_cold=p.cache == "cold"),)

    def counted(self, parameters: DdParameters) -> WorkParameter:
        return WorkParameter("file_size", least=parameters.block_size, step=parameters.block_size)

    def files_bytes(self, parameters: DdParameters, context: Context) -> int:
        return parameters.file_size

    def expected_s(self, parameters: DdParameters, context: Context) -> float:
        """Estimate a trial; one that reads writes the file first."""
        passes = 2 if parameters.direction == "read" else 1
        return passes * parameters.file_size / _EXPECTED_BYTES_PER_S + 0.1

    def parse(
        self, parameters: DdParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        result = successful_result("dd", results)
        match = _SUMMARY.search(result.stderr)
        if not match:
            raise BenchmarkError(
                "dd printed no summary that vtax knows", where=result.stderr[-200:]
            )
        size_bytes, time_s = int(match[1]), printed(match[2])
        if size_bytes != parameters.file_size:
            raise BenchmarkError(
                f"dd moved {size_bytes} bytes where {parameters.file_size} were requested"
            )
        if not 0 < time_s <= result.outside_s * 1.01 + 0.01:
            raise BenchmarkError(
                f"dd reports {time_s:g} s, but it ran for {result.outside_s:.6f} s"
            )
        check_cpu("dd", result, context)
        values = {"rate": size_bytes / time_s / _MEGA, "time": time_s}
        effective = {
            name: getattr(parameters, name)
            for name in ("direction", "file_size", "block_size", "cache")
        }
        is_flushed = parameters.direction == "write" and parameters.cache != "cached"
        disk = DiskWork(
            size_bytes, int(is_flushed), parameters.cache == "direct", _if_not_counted(parameters)
        )
        return Outcome(values, effective, _warnings(parameters), disk=disk)


def _warnings(parameters: DdParameters) -> tuple[str, ...]:
    if parameters.cache == "cached":
        return (Note("guest-cache"),)
    return ()


def _if_not_counted(parameters: DdParameters) -> str:
    if parameters.direction == "write" or parameters.cache in ("cached", "cold"):
        return ""
    return Note("cache-below")
