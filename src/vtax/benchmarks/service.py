"""Shared by benchmarks of services: a server in the guest, its data, and a client that may be the limit itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from vtax.benchmarks.base import INTERVAL_S, INTERVALS, Context, GuestFile, Metric, Place, Tail
from vtax.benchmarks.histograms import from_counts
from vtax.benchmarks.words import own_message
from vtax.errors import BadInput, BenchmarkError
from vtax.foreign_data import parse_json
from vtax.guest.results import CommandResult
from vtax.messages import Note
from vtax.units import about_size

Client = Literal["guest", "peer"]
"""Where a client runs: on the CPUs of the guest, which it shares with the server, or on those of the native peer."""
MIN_RATE_SHARE = 0.95  # of the requested rate; below it the client did not keep up
_SATURATED = 0.95  # of the CPU time that the client could use
_MEMORY_FOR_REST = (
    128 * 1024**2
)  # of a guest: kernel, agent, and the server's own memory beside its cache


LATENCY = "latency"
"""Quantity that the histograms of services count."""
_PERCENTS = (50, 95, 99)


def latencies(what: str) -> tuple[Metric, ...]:
    """Return the metrics of the time of one request. what: the name that the client gives its requests."""
    titles = {
        "avg": "average",
        "p50": "median",
        "p95": "95th percentile",
        "p99": "99th percentile",
        "max": "max",
    }
    tails = {f"p{percent}": Tail(LATENCY, percent / 100) for percent in _PERCENTS}
    return tuple(
        Metric(
            f"latency_{name}",
            "ms",
            "lower",
            f"time of one {what}, {title}",
            tail=tails.get(name),
            per_unit=True if name == "avg" else None,
        )
        for name, title in titles.items()
    )


_TIMED_BY_LOG = b"""
import glob, json, os, resource, subprocess, sys, time
prefix, column, ended, duration_s, *argv = sys.argv[1:]
parts = [tuple(map(int, part.split("*"))) for part in ended.split("+")]
def logs():
    return glob.glob(glob.escape(prefix) + "*")
for path in logs():
    os.unlink(path)
started = time.monotonic()
status = subprocess.call(argv)
elapsed_s, used = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
times, ends, bins, failed = [], [], {}, 0
for path in logs():
    with open(path, "rb") as file:
        for fields in map(bytes.split, file):
            if not fields[int(column)].isdigit():  # a word in its place says why there is no time
                failed += 1
                continue
            times.append(int(fields[int(column)]))
            ends.append(sum(int(fields[number]) * factor for number, factor in parts))
    os.unlink(path)
times.sort()
for time_us in times:
    shift = max(time_us.bit_length() - 8, 0)  # bins of less than 1 %
    middle = (time_us >> shift << shift) + (1 << shift >> 1)
    bins[middle] = bins.get(middle, 0) + 1
found = {"elapsed_s": elapsed_s, "cpu_s": used.ru_utime + used.ru_stime, "count": len(times), "us": bins}
found["failed"] = failed
if times:
    at = {f"latency_p{p}": times[-(-len(times) * p // 100) - 1] for p in (50, 95, 99)}
    in_us = {"latency_avg": sum(times) / len(times), "latency_max": times[-1], **at}
    found["ms"] = {name: value / 1000 for name, value in in_us.items()}
    width, counts = float(duration_s) / INTERVALS, [0] * INTERVALS
    first = max(ends) - 1e6 * float(duration_s)
    for end in ends if width else []:
        if end >= first:
            counts[min(int((end - first) / 1e6 / width), INTERVALS - 1)] += 1
    found["per_s"] = [count / width for count in counts] if width else []
print(json.dumps(found), file=sys.stderr)
sys.exit(status)
""".replace(b"INTERVALS", b"%d" % INTERVALS)


def timed_by_log(
    scratch: str, flow: int, column: int, end_us: str, duration_s: float, argv: Sequence[str]
) -> tuple[str, tuple[str, ...], tuple[GuestFile, ...]]:
    """Return a client that logs the time of every request, for those that print no percentiles.

    It is the directory of its files, the command line, and its program, which runs argv, reads the logs and prints on
    its last line of standard error what `read_log` reads.

    column: of the log, from 0, that has the microseconds.
    end_us: the moment of the answer in microseconds, put together of columns, such as "4*1000000+5*1".
    duration_s: measured, the last ones before the last answer; 0 for a count of requests, which has no intervals.
    argv: "{log}" in it is replaced by the beginning of the logs' names.
    """
    directory = f"{scratch}/vtax-client-{flow}"
    log, program = f"{directory}/log", f"{directory}/timed_by_log.py"
    client = [argument.replace("{log}", log) for argument in argv]
    line = ("python3", program, log, str(column), end_us, f"{duration_s:g}", *client)
    return directory, line, (GuestFile(program, _TIMED_BY_LOG),)


def read_log(tool: str, result: CommandResult) -> dict[str, Any]:
    """Read the results of `timed_by_log`: elapsed_s, cpu_s, count, failed and, by metric, ms. Raises BenchmarkError.

    failed: requests that the log has without a time.
    """
    lines = result.stderr.strip().splitlines()
    names = {metric.name for metric in latencies("request")}
    try:
        results: dict[str, Any] = parse_json(lines[-1])
        if not results["count"] or not results["ms"].keys() >= names:
            raise ValueError("no request")
    except (ValueError, LookupError, TypeError) as error:
        raise BenchmarkError(f"{tool} logged no request", where=own_message(result)) from error
    return results


def histograms_of(results: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the histogram of what `read_log` gives, ms."""
    bins = results.get("us")
    if not bins:
        return {LATENCY: [float(results["count"])]}
    return {LATENCY: from_counts({int(us) / 1000: int(count) for us, count in bins.items()})}


def samples_of(
    results: Mapping[str, Any], metric: str, duration_s: float
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return the rates of all intervals as samples, and the effective setting with the length of an interval.

    results: what `read_log` returned.
    metric: whose samples they are.
    duration_s: measured.
    """
    rates = [float(rate) for rate in results.get("per_s", ())]
    return ({metric: rates}, {INTERVAL_S: duration_s / INTERVALS}) if rates else ({}, {})


def check_cache(name: str, size_bytes: int, context: Context) -> None:
    """Raise BadInput for a cache that the memory of the guest cannot hold.

    name: of the parameter.
    size_bytes: of the cache.
    """
    if size_bytes + _MEMORY_FOR_REST > context.memory_bytes:
        raise BadInput(
            f"{name} is {about_size(size_bytes)}, and the guest has {about_size(context.memory_bytes)} of memory, of "
            f"which {about_size(_MEMORY_FOR_REST)} are left to the rest of it",
            hint=f"lower {name}, or raise memory in [guest]",
        )


def cpus_of(place: Place, context: Context) -> int:
    """Return how many CPUs a program at a place can use."""
    return context.vcpus if place == "guest" else context.peer_vcpus


def saturation_warnings(
    tool: str, cpu_s: float, elapsed_s: float, threads: int, cpus: int
) -> list[str]:
    """Return a warning when the client used up its own CPUs: the figure is then the client's, not the server's.

    cpu_s: CPU time of the client in elapsed_s. threads: of the client; it can use no more CPUs than that.
    """
    usable_cpus = min(threads, cpus)
    share = cpu_s / (usable_cpus * elapsed_s) if elapsed_s > 0 else 0.0
    if share < _SATURATED:
        return []
    return [Note("client-saturated", tool=tool, share=share, count=usable_cpus)]
