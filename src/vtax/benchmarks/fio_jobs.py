"""Job files of fio: what vtax accepts of them, and the report of their jobs.

fio runs as root of the guest, and a native guest is root of the host. A job file can name devices and files, and
commands that fio executes (`exec_prerun`, backquotes, a value that a shell computes). So options are those of a list,
and values have no quote, `$`, backquote or path. What is accepted runs as it was written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from vtax.benchmarks.histograms import from_counts, merge_histograms
from vtax.benchmarks.json_report import read_report
from vtax.benchmarks.printed import Printed
from vtax.benchmarks.words import lines_of, own_message, shortened
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

GLOBAL = "global"
MAX_JOBS = 16
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
DIRECTIONS = ("read", "write")
_LATENCY_BINS = (
    ("read", "read", "clat_ns"),
    ("write", "write", "clat_ns"),
    ("fsync", "sync", "lat_ns"),
)
"""(operation, its part of a process's report, where that has its latencies)."""
_BINS_OF_DOUBLING = 64
_ALIASES = {
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "blockalign": "ba",
    "blocksize_unaligned": "bs_unaligned",
    "readwrite": "rw",
    "io_limit": "io_size",
    "timeout": "runtime",
    "start_delay": "startdelay",
    "wait_for_previous": "stonewall",
}
_OURS = (
    "group_reporting",
    "percentile_list",
    "clat_percentiles",
    "lat_percentiles",
    "slat_percentiles",
)
_OPTION_NAMES = (
    "allrandrepeat ba bs bs_unaligned bsrange bssplit buffer_compress_chunk buffer_compress_percentage buffered "
    "create_fsync create_on_open create_serialize dedupe_percentage description direct end_fsync exitall "
    "fadvise_hint fallocate fdatasync file_service_type filename filesize fixedbufs force_async fsync "
    "fsync_on_close hipri invalidate io_size iodepth iodepth_batch iodepth_batch_complete "
    "iodepth_batch_complete_max iodepth_batch_complete_min iodepth_batch_submit iodepth_low ioengine "
    "latency_percentile latency_target latency_window loops max_latency new_group nonvectored norandommap nrfiles "
    "number_ios numjobs offset offset_increment openfiles overwrite percentage_random pre_read ramp_time "
    "random_distribution random_generator randrepeat randseed rate rate_cycle rate_iops rate_iops_min rate_min "
    "rate_process refill_buffers registerfiles runtime rw rw_sequencer rwmixread rwmixwrite scramble_buffers "
    "serialize_overlap size softrandommap sqthread_poll startdelay stonewall sync thinktime thinktime_blocks "
    "thinktime_spin thread time_based unlink userspace_reap wait_for zero_buffers "
)
_OPTIONS = frozenset(_OPTION_NAMES.split())
_WITH_SLASH = ("bssplit", "random_distribution")
_ENGINES = ("sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring", "mmap")
_SEQUENTIAL = ("stonewall", "wait_for", "startdelay")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_VALUE = re.compile(r"[A-Za-z0-9_.,:%+*-]*")
_PATTERN = re.compile(r"(read|write|rw|randread|randwrite|randrw|readwrite)(:\d+)?")
_SIZE = re.compile(r"(\d{1,15})([kmgtp]?)i?b?", re.IGNORECASE)
_TIME = re.compile(r"(\d{1,9})(us|ms|s|m|h|d|)")
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class FioJob:
    """A job with the options of its section and of the global ones above it, in the order of the file."""

    name: str
    options: Mapping[str, str]

    @property
    def directions(self) -> tuple[str, ...]:
        """The directions in which it moves data: reads, writes or both."""
        pattern = self.options.get("rw", "read").partition(":")[0]
        if pattern in ("rw", "randrw", "readwrite"):
            return DIRECTIONS
        return tuple(direction for direction in DIRECTIONS if direction in pattern)

    @property
    def processes(self) -> int:
        """How many it has."""
        return int(self.options.get("numjobs", "1"))

    @property
    def bytes(self) -> int:
        """The size of its files, all processes together: the larger of its sizes."""
        size, file_size = self.options.get("size", "0"), self.options.get("filesize", "0")
        return self.processes * max(_size_bytes(size), _size_bytes(file_size))

    @property
    def ramp_s(self) -> float:
        """How long it runs before its figures begin."""
        return _time_s(self.options.get("ramp_time", "0"))

    @property
    def expected_s(self) -> float | None:
        """Its run time; None of one that ends when its files do."""
        if "runtime" not in self.options:
            return None
        keys = ("runtime", "ramp_time", "startdelay")
        return sum(_time_s(self.options.get(key, "0")) for key in keys)

    @property
    def is_after_others(self) -> bool:
        """Whether it starts later than the first job."""
        return any(key in self.options for key in _SEQUENTIAL)


def jobs_of(text: str) -> tuple[FioJob, ...]:
    """Return the jobs of a job file (fio(1), "Job file format"). Raises ValueError naming the line that is refused."""
    everywhere: dict[str, str] = {}
    jobs: list[tuple[str, dict[str, str]]] = []
    section: dict[str, str] | None = None
    for number, written_line in enumerate(text.splitlines(), 1):
        line = re.split("[;#]", written_line, maxsplit=1)[0].strip()
        if not line:
            continue
        try:
            if line.startswith("["):
                name = line[1:-1].strip() if line.endswith("]") else ""
                section = everywhere if name == GLOBAL else dict(everywhere)
                if name != GLOBAL:
                    jobs.append((_check_name(name, [job_name for job_name, _ in jobs]), section))
                continue
            if section is None:
                raise ValueError("an option stands before the first [section]")
            key, _, value = (part.strip() for part in line.partition("="))
            _set_option(section, _ALIASES.get(key, key), value)
        except ValueError as error:
            raise ValueError(f"job file, line {number}: {error}") from error
    if not jobs:
        raise ValueError("the job file has no job: a [section] other than [global]")
    if len(jobs) > MAX_JOBS:
        raise ValueError(f"the job file has {len(jobs)} jobs; at most {MAX_JOBS}")
    fio_jobs = tuple(FioJob(name, options) for name, options in jobs)
    for job in fio_jobs:
        if job.bytes <= 0:
            raise ValueError(
                f"the job {job.name} has no size of its files; give one in bytes, such as size=64m"
            )
    return fio_jobs


def have_one_ramp(jobs: Sequence[FioJob]) -> bool:
    """Return whether the figures of all jobs begin at one moment, after a ramp."""
    begin_together = not any(job.is_after_others for job in jobs)
    return begin_together and len({job.ramp_s for job in jobs}) == 1


def job_file_text(jobs: Iterable[FioJob], directory: str, *, only_create: bool = False) -> str:
    """Return the job file that fio is given: the accepted jobs, in a directory of the guest, with our form of report."""
    percentiles = ":".join(f"{percent:g}" for percent in PERCENTILES.values())
    lines = [f"[{GLOBAL}]", f"directory={directory}", f"percentile_list={percentiles}"]
    if only_create:
        lines.append("create_only=1")
    for job in jobs:
        lines += ["", f"[{job.name}]"]
        for key, value in job.options.items():
            lines.append(f"{key}={value}" if value else key)
    return "\n".join(lines) + "\n"


def figures(processes: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], int, int]:
    """Return values by metric, bytes moved and the number of flushes, of processes in a report with bins (`json+`).

    Rates are added up. Percentiles are those of all operations together, from fio's own bins.
    """
    values: dict[str, float] = {}
    moved_bytes = flushes = 0
    for direction in DIRECTIONS:
        parts = parts_with_operations(processes, direction)
        if parts:
            values |= rates(direction, parts)
            values |= latencies(direction, [part["clat_ns"] for part in parts])
            moved_bytes += sum(part["io_bytes"] for part in parts)
    flush_parts = parts_with_operations(processes, "sync")
    if flush_parts:
        values |= latencies("fsync", [part["lat_ns"] for part in flush_parts])
        flushes = sum(part["total_ios"] for part in flush_parts)
    return values, moved_bytes, flushes


def parts_with_operations(
    processes: Sequence[Mapping[str, Any]], name: str
) -> list[Mapping[str, Any]]:
    """Return the parts of processes about reads, writes or flushes, of those that made any. name: as in a report."""
    return [process[name] for process in processes if process[name]["total_ios"]]


def rates(direction: str, parts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return operations a second and MB/s of processes together, as finely as a clock of milliseconds tells them.

    parts: those of a report about one direction.
    """
    shortest_ms = min(part["runtime"] for part in parts)
    sums = {
        f"{direction}_iops": sum(part["iops"] for part in parts),
        f"{direction}_bandwidth": sum(part["bw_bytes"] for part in parts) / 1e6,
    }
    if shortest_ms <= 0:
        return sums
    return {name: Printed(rate, rate / shortest_ms) for name, rate in sums.items()}


def bin_middle_us(nanoseconds: float) -> float:
    """Return the microseconds of a bin of fio, which has 64 bins for every doubling (stat.h, FIO_IO_U_PLAT_VAL)."""
    return Printed(nanoseconds / 1000, max(nanoseconds / _BINS_OF_DOUBLING, 1) / 1000)


def histograms(processes: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return the histograms of the latencies of processes in a report, in microseconds, by operation.

    Where the report has no bins, they are numbers of operations alone.
    """
    by_operation: dict[str, list[float]] = {}
    for operation, name, key in _LATENCY_BINS:
        parts = parts_with_operations(processes, name)
        if parts:
            bins = [_histogram(part[key].get("bins", {})) for part in parts]
            counts = [[float(part["total_ios"])] for part in parts]
            by_operation[operation] = merge_histograms(bins if all(bins) else counts)
    return by_operation


def _histogram(bins: Mapping[str, Any]) -> list[float]:
    """Return the histogram of the bins of a report: nanoseconds -> how many operations."""
    return from_counts({int(ns) / 1000: int(count) for ns, count in bins.items()})


def latencies(operation: str, reports: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean and the percentiles of the latencies of several processes together, in microseconds, by metric.

    operation: read, write or fsync.
    reports: what fio reports of its latencies, one of each process.
    """
    bins: Counter[int] = Counter()
    for report in reports:
        for nanoseconds, count in report["bins"].items():
            bins[int(nanoseconds)] += int(count)
    total = sum(bins.values())
    if total <= 0 or total != sum(report["N"] for report in reports):
        raise BenchmarkError(f"fio's report counts other {operation}s than its latencies do")
    mean = sum(report["mean"] * report["N"] for report in reports) / total
    values = {f"{operation}_latency_avg": mean / 1000}
    for name, percent in PERCENTILES.items():
        values[f"{operation}_latency_{name}"] = _percentile(bins, percent / 100 * total)
    return values


@dataclass(frozen=True)
class FioReport:
    """A report of fio.

    processes: what it says of each of them. None failed.
    words: lines that fio printed beside the report, such as that a cache could not be dropped.
    """

    processes: Sequence[Mapping[str, Any]]
    words: Sequence[str]


def report_of(result: CommandResult) -> FioReport:
    """Return the report of a run of fio, which prints words around it, on either output. Raises BenchmarkError."""
    if result.status != 0:
        lines = [*lines_of(result.stdout), *lines_of(result.stderr)]
        words = shortened("; ".join(line for line in lines if line.startswith("fio: ")))
        raise BenchmarkError(f"fio failed with {result.ended_with}: {words or own_message(result)}")
    report = read_report("fio", result, "jobs")
    words_beside = [*report.words, *lines_of(result.stderr)]
    return FioReport(_processes(report.content), [shortened(line) for line in words_beside])


def _processes(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        jobs: list[dict[str, Any]] = report["jobs"]
        failed = [job for job in jobs if job["error"] != 0]
        if failed:
            errors = [f"{job['jobname']} error {job['error']}" for job in failed]
            raise ValueError("; ".join(errors))
    except (ValueError, LookupError, TypeError) as error:
        raise BenchmarkError(f"fio printed no report that vtax knows: {error}") from error
    return jobs


def _percentile(bins: Mapping[int, int], rank: float) -> float:
    """Return the microseconds of the bin that has the operation of a rank, as fio counts them (stat.c)."""
    count = 0
    for nanoseconds in sorted(bins):
        count += bins[nanoseconds]
        if count >= rank:
            return bin_middle_us(nanoseconds)
    raise BenchmarkError("fio's report has a histogram without operations")


def _check_name(name: str, names: Sequence[str]) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"the job {name!r}: names are at most 40 letters, digits, '_', '.' and '-'"
        )
    if name in names:
        raise ValueError(f"there are two jobs {name}")
    return name


def _set_option(options: dict[str, str], key: str, value: str) -> None:
    """Set an option of a job, which becomes the last one. Raises ValueError for an option that is not accepted.

    options: of the job, changed.
    key, value: as in the job file.
    """
    if key in _OURS:
        return
    has_path = key == "filename" and not set("/\\~").isdisjoint(value)
    if has_path or key in ("directory", "filename_format"):
        raise ValueError(
            f"{key}={value[:60]}: files are in the scratch directory of the guest; give names without a path"
        )
    if key not in _OPTIONS:
        suggestions = get_close_matches(key, _OPTIONS, 1)
        suggestion = f"; did you mean {suggestions[0]}?" if suggestions else ""
        raise ValueError(f"option {key[:40]!r} is not accepted{suggestion}")
    if key == "description":
        return
    checked_value = value.replace("/", "") if key in _WITH_SLASH else value
    if not _VALUE.fullmatch(checked_value):
        raise ValueError(f"{key}={value[:60]}: values have no path, quote, '$' or backquote")
    if key == "filename" and not {"", ".", "..", "-"}.isdisjoint(value.split(":")):
        raise ValueError(f"filename={value[:60]} names no file")
    if key == "rw" and not _PATTERN.fullmatch(value):
        raise ValueError(f"rw={value[:60]} is not accepted; reads and writes are")
    if key == "ioengine" and value not in _ENGINES:
        raise ValueError(f"ioengine={value[:60]} is not accepted; known: {', '.join(_ENGINES)}")
    if key == "numjobs" and not (value.isdecimal() and 1 <= int(value) <= 256):
        raise ValueError(f"numjobs={value[:60]} is no number from 1 to 256")
    if key in ("size", "filesize"):
        _size_bytes(value)
    if key in ("runtime", "ramp_time", "startdelay"):
        _time_s(value)
    options.pop(key, None)
    options[key] = value


def _size_bytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(f"{text[:60]!r} is no size in bytes, such as 64m")
    return int(int(match[1]) * 1024 ** " kmgtp".index(match[2].lower() or " "))


def _time_s(text: str) -> float:
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError(f"{text[:60]!r} is no time, such as 30s")
    return int(match[1]) * _UNITS_S[match[2]]
