"""fio: reads and writes of a file by many patterns, with their number per second, bandwidth and latency.

The file is made before the trial and dropped from the guest's page cache. With `direct` the guest's cache is not
used; `fsync` flushes after so many writes of a job, and its latency is measured apart. Latency is the time to
completion: without `direct` that of a write ends in the page cache. `cold` drops the files from the host's page
cache, too, so every block is cold when it is read first. It does not measure directories, metadata, nor how a file
system ages.

`job_file` takes the place of the other parameters: a job file of fio whose jobs run as they are written, in a
directory of the guest. Every job has figures of its own, `read_iops.JOB` and so on; those without a job are of all
jobs together: rates added up where all start at once, latencies of all their operations. Options that name devices,
paths or programs are refused; reports and logs are vtax's own.

Its trap is that `direct` ends at the first layer: the guest's disk may be a file of the host, whose page cache
serves reads and keeps writes, and a flush may reach no device. So a virtual machine can be faster than the host.
The filters of system calls of containers refuse `io_uring`, and Podman's `libaio`, too: a run with one of them has the
privilege `asynchronous-io` on all platforms alike, without the runtime's own filter. Rates are timed in milliseconds:
those of a trial of 50 ms are in steps of 2 %.

A short trial also holds the first requests of every job; fio needs longer to start and to end than it measures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from vtax.benchmarks import fio_jobs
from vtax.benchmarks.base import (
    MEASURED_S,
    SHORTEST_S,
    Benchmark,
    Command,
    Context,
    DiskWork,
    GuestFile,
    Metric,
    Operations,
    Outcome,
    Parameters,
    Role,
    Tail,
    register_benchmark,
)
from vtax.benchmarks.checks import check_cpu, check_room
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note, quoted
from vtax.study.fields import Privilege, Size

_SECTOR_BYTES = 512
_PERCENTILES = {name: f"{share:.6f}" for name, share in fio_jobs.PERCENTILES.items()}
_TITLES = {
    "avg": "average",
    "p50": "median",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "p999": "99.9th percentile",
}
_DIRECTIONS = fio_jobs.DIRECTIONS
_ASYNCHRONOUS = {"libaio", "io_uring"}
"""Engines that the filters of containers may refuse."""
_FLUSHES = ("sync", "fsync", "fdatasync", "end_fsync", "fsync_on_close", "direct")
"""Options of a job that keep what it writes out of the guest's page cache, or write it out."""
_EXPECTED_BYTES_PER_S = 1e8
_WORDS_SHOWN = 300


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
    job_file: str = Field(
        "",
        description="a job file in place of all others but cold: its path, relative to the study, or its text",
    )

    @property
    def file_jobs(self) -> tuple[fio_jobs.FioJob, ...]:
        """The jobs of the job file; none without one."""
        return fio_jobs.jobs_of(self.job_file) if self.job_file else ()

    @model_validator(mode="after")
    def _file_alone(self) -> Self:
        if not self.job_file:
            return self
        if "\n" not in self.job_file and "[" not in self.job_file:
            raise ValueError(
                f"job_file {self.job_file[:60]!r} was not read: only parameters of a [[benchmark]] name a file; "
                "give each file a [[benchmark]] with a label"
            )
        fields = type(self).model_fields
        for name in fields.keys() - {"job_file", "cold"}:
            if getattr(self, name) != fields[name].default:
                raise ValueError(f"job_file says what fio does: take {name} out")
        for job in self.file_jobs:
            if self.cold and job.options.get("invalidate", "1") != "1":
                raise ValueError(
                    f"cold, but the job {job.name} keeps the guest's page cache (invalidate)"
                )
        return self

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


def _expected_s(job: fio_jobs.FioJob) -> float:
    """Return about how long a job of a file takes: as it says, else by its bytes."""
    return job.bytes / _EXPECTED_BYTES_PER_S if job.expected_s is None else job.expected_s


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
        percentile = fio_jobs.PERCENTILES.get(statistic)
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
        *map(_iops_metric, _DIRECTIONS),
        *map(_bandwidth_metric, _DIRECTIONS),
        *_latency_metrics("read"),
        *_latency_metrics("write"),
        *_latency_metrics("fsync"),
    )
    version_argv = ("fio", "--version")
    version_pattern = r"\Afio-(\S+)"

    def commands(self, parameters: FioParameters, context: Context) -> Sequence[Command]:
        """Return the commands of a trial, whose files are in a directory of their own, removed after it."""
        p = parameters
        if p.job_file:
            return (_file_command(p, context),)
        check_room(f"{p.jobs} × size" if p.jobs > 1 else "size", p.jobs * p.size, context)
        directory = f"{context.scratch}/vtax-fio-{context.flow}"
        percentiles = [value.rstrip("0").rstrip(".") for value in _PERCENTILES.values()]
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

    def further_metrics(self, parameters: FioParameters) -> tuple[Metric, ...]:
        """Return the metrics of each job of a job file."""
        metrics = []
        for job in parameters.file_jobs:
            operations = {*job.directions}
            if "write" in operations:
                operations.add("fsync")
            for metric in self.metrics:
                operation, _, _ = metric.name.partition("_")
                if operation in operations:
                    name, title = f"{metric.name}.{job.name}", f"{metric.title}, job {job.name}"
                    metrics.append(replace(metric, name=name, title=title, tail=None))
        return tuple(metrics)

    def privileges(self, parameters: FioParameters) -> frozenset[Privilege]:
        engines = {job.options.get("ioengine") for job in parameters.file_jobs}
        engines.add(parameters.engine)
        return frozenset() if _ASYNCHRONOUS.isdisjoint(engines) else frozenset({"asynchronous-io"})

    def files_bytes(self, parameters: FioParameters, context: Context) -> int:
        return sum(job.bytes for job in parameters.file_jobs) or parameters.jobs * parameters.size

    def expected_s(self, parameters: FioParameters, context: Context) -> float:
        """Estimate a trial, with the making of its files."""
        make_s = self.files_bytes(parameters, context) / _EXPECTED_BYTES_PER_S
        jobs = parameters.file_jobs
        if not jobs:
            return make_s + (make_s if parameters.once else parameters.duration_s) + 0.5
        durations_s = list(map(_expected_s, jobs))
        if any(job.is_after_others for job in jobs):
            return make_s + sum(durations_s) + 0.5
        return make_s + max(durations_s) + 0.5

    def parse(
        self, parameters: FioParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        p, result = parameters, results["single"]
        report = fio_jobs.report_of(result)
        if p.job_file:
            return _job_file_outcome(p, context, result, report)
        job = _job(report)
        try:
            parts_with_io = []
            values: dict[str, float] = {}
            for direction in _DIRECTIONS:
                part = job[direction]
                if part["total_ios"]:
                    parts_with_io.append(part)
                    values |= fio_jobs.rates(direction, [part])
                    values |= _latencies(direction, part["clat_ns"])
                    _check_time(direction, part["runtime"] / 1000, result)
            flushes = job["sync"]["total_ios"]
            if flushes:
                values |= _latencies("fsync", job["sync"]["lat_ns"])
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
        warnings = (*map(quoted, report.words), *_warnings(p))
        return Outcome(
            values, effective, warnings, histograms=fio_jobs.histograms([job]), disk=disk
        )


def _file_command(p: FioParameters, context: Context) -> Command:
    """Return the command of a job file. Its files are in a directory of their own, which is gone after the trial."""
    jobs = p.file_jobs
    check_room("size of the jobs' files", sum(job.bytes for job in jobs), context)
    directory = f"{context.scratch}/vtax-fio-files-{context.flow}"
    own_directory = f"{context.scratch}/vtax-fio-jobs-{context.flow}"
    create, measure = f"{own_directory}/create.fio", f"{own_directory}/jobs.fio"
    create_text = fio_jobs.job_file_text(jobs, directory, only_create=True)
    measure_text = fio_jobs.job_file_text(jobs, directory)
    return Command(
        "single",
        ("fio", "--output-format=json+", measure),
        before=(("mkdir", directory), ("fio", "--output-format=json", create)),
        makes=(directory,),
        files=(
            GuestFile(create, create_text.encode()),
            GuestFile(measure, measure_text.encode()),
        ),
        directory=own_directory,
        is_cold=p.cold,
        has_ramp=any(job.ramp_s for job in jobs),
    )


def _job_file_outcome(
    p: FioParameters, context: Context, result: CommandResult, report: fio_jobs.FioReport
) -> Outcome:
    """Return the outcome of a job file: every job's figures, and those of all together."""
    jobs, processes = p.file_jobs, report.processes
    try:
        names = [process["jobname"] for process in processes]
        if Counter(names) != {job.name: job.processes for job in jobs}:
            raise BenchmarkError(f"fio reports the jobs {names}"[:_WORDS_SHOWN])
        values, moved_bytes, flushes = fio_jobs.figures(processes)
        if any(job.is_after_others for job in jobs):
            values = {name: value for name, value in values.items() if "_latency_" in name}
        for job in jobs:
            job_processes = [process for process in processes if process["jobname"] == job.name]
            own_values, own_bytes, _ = fio_jobs.figures(job_processes)
            if not own_bytes:
                raise BenchmarkError(f"the job {job.name} moved no bytes")
            for metric, value in own_values.items():
                values[f"{metric}.{job.name}"] = value
            for direction in _DIRECTIONS:
                parts = fio_jobs.parts_with_operations(job_processes, direction)
                longest_ms = max((part["runtime"] for part in parts), default=None)
                if longest_ms is not None:
                    _check_time(direction, longest_ms / 1000, result)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BenchmarkError(
            f"fio's report lacks {error}; its format is not known to vtax"
        ) from error
    check_cpu("fio", result, context)
    is_direct = all(job.options.get("direct") == "1" for job in jobs)
    effective = {
        "jobs": [job.name for job in jobs],
        "io_bytes": moved_bytes,
        "fsyncs": flushes,
        "direct": is_direct,
        **_operations(jobs, processes),
    }
    disk = DiskWork(moved_bytes, flushes, is_direct, _if_not_counted(p))
    return Outcome(
        values,
        effective,
        (*map(quoted, report.words), *_file_warnings(p)),
        histograms=fio_jobs.histograms(processes),
        disk=disk,
    )


def _operations(
    jobs: Sequence[fio_jobs.FioJob], processes: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Return the number of I/Os, and of jobs with a ramp how long they were counted: fio counts none of the ramp.

    Neither where jobs are counted at other times: no account of the host's belongs to their number.
    """
    parts = []
    for process in processes:
        parts += [process["read"], process["write"]]
    operations = {"operations": sum(part["total_ios"] for part in parts)}
    if not any(job.ramp_s for job in jobs):
        return operations
    if not fio_jobs.have_one_ramp(jobs):
        return {}
    return {**operations, MEASURED_S: max(part["runtime"] for part in parts) / 1000}


def _file_warnings(p: FioParameters) -> list[str]:
    names = []
    for job in p.file_jobs:
        is_flushed = any(job.options.get(option, "0") != "0" for option in _FLUSHES)
        if "write" in job.directions and not is_flushed:
            names.append(job.name)
    return [Note("guest-cache-jobs", names=tuple(names))] if names else []


def _job(report: fio_jobs.FioReport) -> Mapping[str, Any]:
    """Return the one group of jobs in the report."""
    jobs = report.processes
    if len(jobs) != 1:
        raise BenchmarkError(f"fio printed no report that vtax knows: {len(jobs)} groups of jobs")
    return jobs[0]


def _latencies(operation: str, report: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean and the percentiles of the latencies of one process, in microseconds, by metric."""
    values = {f"{operation}_latency_avg": report["mean"] / 1000}
    for statistic, key in _PERCENTILES.items():
        nanoseconds = report["percentile"][key]
        values[f"{operation}_latency_{statistic}"] = fio_jobs.bin_middle_us(nanoseconds)
    return values


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
    if p.job_file:
        readers = [job.name for job in p.file_jobs if "read" in job.directions]
        return Note("cache-below-jobs", names=tuple(readers)) if readers and not p.cold else ""
    if p.direct:
        return Note("cache-below-direct")
    if p.rw in ("write", "randwrite") or p.cold:
        return ""
    return Note("cache-below")
