"""fio: reads and writes of a file by many patterns, with their number per second, bandwidth and latency.

The file is made before the trial and dropped from the guest's page cache. With `direct` the guest's cache is not
used; `fsync` flushes after so many writes of a job, and its latency is measured apart. Latency is the time to
completion: without `direct` that of a write ends in the page cache. `cold` drops the files from the host's page
cache, too, so every block is cold when it is read first. It does not measure directories, metadata, nor how a file
system ages.

Its trap is that `direct` ends at the first layer: the guest's disk may be a file of the host, whose page cache
serves reads and keeps writes, and a flush may reach no device. So a virtual machine can be faster than the host.
The filters of system calls of containers refuse `io_uring`, and Podman's `libaio`, too: a run with one of them has the
privilege `asynchronous-io` on all platforms alike, without the runtime's own filter. Rates are timed in milliseconds:
those of a trial of 50 ms are in steps of 2 %.

A short trial also holds the first requests of every job; fio needs longer to start and to end than it measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from vtax.benchmarks.base import (
    SHORTEST_S,
    Benchmark,
    Command,
    Context,
    DiskWork,
    Metric,
    Operations,
    Outcome,
    Parameters,
    Role,
    Tail,
    register_benchmark,
)
from vtax.benchmarks.checks import check_cpu, check_room
from vtax.benchmarks.histograms import from_counts
from vtax.benchmarks.json_report import read_report
from vtax.benchmarks.printed import Printed
from vtax.benchmarks.words import lines_of, own_message, shortened
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note, quoted
from vtax.study.fields import Privilege, Size

_SECTOR_BYTES = 512
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
_TITLES = {
    "avg": "average",
    "p50": "median",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "p999": "99.9th percentile",
}
DIRECTIONS = ("read", "write")
_LATENCIES = (
    ("read", "read", "clat_ns"),
    ("write", "write", "clat_ns"),
    ("fsync", "sync", "lat_ns"),
)
"""(operation, its part of the report, where that has its latencies)."""
_BINS_OF_DOUBLING = 64
_ASYNCHRONOUS = {"libaio", "io_uring"}
"""Engines that the filters of containers may refuse."""
_EXPECTED_BYTES_PER_S = 1e8


class FioParameters(Parameters):
    """Parameters that a study may fix or vary."""

    rw: Literal["read", "write", "rw", "randread", "randwrite", "randrw"] = Field(
        "randread",
        description="pattern: sequential, or in random order (rand); rw: reads and writes in equal parts",
    )
    block_size: Size = Field(
        4096, ge=_SECTOR_BYTES, le=64 * 1024**2, description="bytes of one read or write"
    )
    size: Size = Field(256 * 1024**2, ge=4096, description="bytes of the file of each job")
    engine: Literal["psync", "libaio", "io_uring", "mmap"] = Field(
        "psync", description="how requests are issued"
    )
    iodepth: int = Field(
        1, ge=1, le=4096, description="requests in flight per job; above 1 with libaio and io_uring"
    )
    jobs: int = Field(1, ge=1, le=256, description="processes, each with a file of its own")
    direct: bool = Field(False, description="past the guest's page cache (O_DIRECT)")
    fsync: int = Field(
        0, ge=0, le=10**6, description="writes after which a job flushes its file; 0 never"
    )
    duration_s: float = Field(
        10,
        ge=SHORTEST_S,
        le=86400,
        description="seconds measured, over and over the files, unless once",
    )
    once: bool = Field(False, description="every block of the files once, however long that takes")
    cold: bool = Field(
        False, description="the files are dropped from the host's page cache before the trial, too"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.size % self.block_size:
            raise ValueError(
                f"size ({self.size}) is not a whole number of blocks of block_size ({self.block_size})"
            )
        if self.iodepth > 1 and self.engine in ("psync", "mmap"):
            raise ValueError(
                f"engine {self.engine!r} has one request in flight, and iodepth is {self.iodepth}"
            )
        if self.direct and (self.engine == "mmap" or self.block_size % _SECTOR_BYTES):
            raise ValueError(
                f"direct needs a block_size that is a multiple of {_SECTOR_BYTES}, and no engine 'mmap'"
            )
        if self.fsync and "write" not in self.rw and "rw" not in self.rw:
            raise ValueError(f"fsync belongs to writes, and rw is {self.rw!r}")
        return self


def _iops_metric(direction: str) -> Metric:
    name, title = f"{direction}_iops", f"{direction}s per second"
    return Metric(name, "IOPS", "higher", title, primary=True, average="harmonic")


def _bandwidth_metric(direction: str) -> Metric:
    name, title = f"{direction}_bandwidth", f"bytes of {direction}s over the time"
    return Metric(name, "MB/s", "higher", title, average="harmonic")


def _latency_metrics(operation: str) -> list[Metric]:
    """Return the metrics of the times of an operation: the mean, and percentiles of them."""
    metrics = []
    for statistic, title in _TITLES.items():
        percentile = PERCENTILES.get(statistic)
        metric = Metric(
            f"{operation}_latency_{statistic}",
            "µs",
            "lower",
            f"time to complete one {operation}, {title}",
            tail=None if percentile is None else Tail(operation, percentile / 100),
        )
        metrics.append(metric)
    return metrics


@register_benchmark
class Fio(Benchmark):
    name = "fio"
    title = "file reads and writes (fio)"
    tool = "fio"
    resource = "disk"
    packages = ("fio",)
    Parameters = FioParameters
    work = Operations("I/O", "operations", time="µs")
    load = ("iodepth", "jobs")
    metrics: Sequence[Metric] = (
        *map(_iops_metric, DIRECTIONS),
        *map(_bandwidth_metric, DIRECTIONS),
        *_latency_metrics("read"),
        *_latency_metrics("write"),
        *_latency_metrics("fsync"),
    )
    version_argv = ("fio", "--version")
    version_pattern = r"\Afio-(\S+)"

    def commands(self, parameters: FioParameters, context: Context) -> Sequence[Command]:
        """Return the commands of a trial, whose files are in a directory of their own, removed after it."""
        p = parameters
        check_room(f"{p.jobs} × size" if p.jobs > 1 else "size", p.jobs * p.size, context)
        directory = f"{context.scratch}/vtax-fio-{context.flow}"
        percentiles = [f"{percent:g}" for percent in PERCENTILES.values()]
        job = [
            "fio",
            "--name=vtax",
            f"--directory={directory}",
            "--output-format=json+",
            "--group_reporting",
            f"--percentile_list={':'.join(percentiles)}",
            f"--rw={p.rw}",
            f"--bs={p.block_size}",
            f"--size={p.size}",
            f"--ioengine={p.engine}",
            f"--iodepth={p.iodepth}",
            f"--numjobs={p.jobs}",
            f"--direct={int(p.direct)}",
            f"--fsync={p.fsync}",
        ]
        if not p.once:
            job += [f"--runtime={round(p.duration_s * 1000)}ms", "--time_based"]
        before = (("mkdir", directory), (*job, "--create_only=1"))
        return (Command("single", tuple(job), before=before, makes=(directory,), is_cold=p.cold),)

    def privileges(self, parameters: FioParameters) -> frozenset[Privilege]:
        return frozenset({"asynchronous-io"} if parameters.engine in _ASYNCHRONOUS else ())

    def files_bytes(self, parameters: FioParameters, context: Context) -> int:
        return parameters.jobs * parameters.size

    def expected_s(self, parameters: FioParameters, context: Context) -> float:
        """Estimate a trial, with the making of its files."""
        make_s = self.files_bytes(parameters, context) / _EXPECTED_BYTES_PER_S
        return make_s + (make_s if parameters.once else parameters.duration_s) + 0.5

    def parse(
        self, parameters: FioParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        p, result = parameters, results["single"]
        job, words = read_job(result)
        try:
            parts_with_io = []
            values: dict[str, float] = {}
            histograms: dict[str, list[float]] = {}
            for operation, name, key in _LATENCIES:
                part = job[name]
                if not part["total_ios"]:
                    continue
                values |= _latencies(operation, part[key])
                histograms[operation] = _histogram(part, key)
                if operation in DIRECTIONS:
                    parts_with_io.append(part)
                    values |= rates(operation, part)
                    _check_time(operation, part["runtime"] / 1000, result)
            flushes = job["sync"]["total_ios"]
        except (KeyError, TypeError) as error:
            raise BenchmarkError(
                f"fio's report lacks {error}; its format is not known to vtax"
            ) from error
        io_bytes = sum(part["io_bytes"] for part in parts_with_io)
        if not parts_with_io or (p.once and io_bytes != p.jobs * p.size):
            raise BenchmarkError(
                f"fio moved {io_bytes} bytes where {p.jobs * p.size} were requested"
            )
        check_cpu("fio", result, context)
        effective = {
            "rw": p.rw,
            "block_size": p.block_size,
            "size": p.size,
            "engine": p.engine,
            "iodepth": p.iodepth,
            "jobs": p.jobs,
            "direct": p.direct,
            "io_bytes": io_bytes,
            "fsyncs": flushes,
            "operations": sum(part["total_ios"] for part in parts_with_io),
        }
        disk = DiskWork(io_bytes, flushes, p.direct, _if_not_counted(p))
        warnings = (*map(quoted, words), *_warnings(p))
        return Outcome(values, effective, warnings, histograms=histograms, disk=disk)


def read_job(result: CommandResult) -> tuple[Mapping[str, Any], list[str]]:
    """Return the one group of jobs in the report, and the lines that fio printed beside it, on either output.

    Such a line is that a cache could not be dropped. Raises BenchmarkError.
    """
    if result.status != 0:
        lines = [*lines_of(result.stdout), *lines_of(result.stderr)]
        words = shortened("; ".join(line for line in lines if line.startswith("fio: ")))
        raise BenchmarkError(f"fio failed with {result.ended_with}: {words or own_message(result)}")
    report = read_report("fio", result, "jobs")
    try:
        jobs: list[dict[str, Any]] = report.content["jobs"]
        failed = [job for job in jobs if job["error"] != 0]
        if failed:
            errors = [f"{job['jobname']} error {job['error']}" for job in failed]
            raise ValueError("; ".join(errors))
        if len(jobs) != 1:
            raise ValueError(f"{len(jobs)} groups of jobs")
    except (ValueError, LookupError, TypeError) as error:
        raise BenchmarkError(f"fio printed no report that vtax knows: {error}") from error
    return jobs[0], [shortened(line) for line in [*report.words, *lines_of(result.stderr)]]


def rates(direction: str, part: Mapping[str, Any]) -> dict[str, float]:
    """Return operations a second and MB/s, as finely as a clock of milliseconds tells them.

    part: of a report, about one direction.
    """
    values = {f"{direction}_iops": part["iops"], f"{direction}_bandwidth": part["bw_bytes"] / 1e6}
    if part["runtime"] <= 0:
        return values
    return {name: Printed(rate, rate / part["runtime"]) for name, rate in values.items()}


def _latencies(operation: str, report: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean and the percentiles of the latencies of an operation, in microseconds, by metric."""
    values = {f"{operation}_latency_avg": report["mean"] / 1000}
    for which, percent in PERCENTILES.items():
        nanoseconds = report["percentile"][f"{percent:.6f}"]
        values[f"{operation}_latency_{which}"] = _bin_middle_us(nanoseconds)
    return values


def _bin_middle_us(nanoseconds: float) -> float:
    """Return the microseconds of a bin of fio, which has 64 bins for every doubling (stat.h, FIO_IO_U_PLAT_VAL)."""
    return Printed(nanoseconds / 1000, max(nanoseconds / _BINS_OF_DOUBLING, 1) / 1000)


def _histogram(part: Mapping[str, Any], key: str) -> list[float]:
    """Return the histogram of latencies in microseconds; where the report has no bins, the number of operations."""
    bins = part[key].get("bins", {})
    if not bins:
        return [float(part["total_ios"])]
    return from_counts({int(ns) / 1000: int(count) for ns, count in bins.items()})


def _check_time(direction: str, runtime_s: float, result: CommandResult) -> None:
    """Raise BenchmarkError when a time that fio reports is longer than it ran, or is 0. It counts milliseconds."""
    if runtime_s <= 0:
        raise BenchmarkError(
            f"fio counted no time for its {direction}s: they were over within a millisecond",
            hint="a larger size, or a duration_s in place of once",
        )
    if runtime_s > result.outside_s * 1.01 + 0.01:
        raise BenchmarkError(
            f"fio reports {runtime_s:g} s for its {direction}s, but it ran for {result.outside_s:.6f} s"
        )


def _warnings(p: FioParameters) -> list[str]:
    if p.direct or p.fsync or p.rw in ("read", "randread"):
        return []
    return [Note("guest-cache-unflushed")]


def _if_not_counted(p: FioParameters) -> str:
    if p.direct:
        return Note("cache-below-direct")
    if p.rw in ("write", "randwrite") or p.cold:
        return ""
    return Note("cache-below")
