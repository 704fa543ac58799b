"""Redis: SET and GET requests on one server in the guest, which keeps its data in memory (redis-benchmark).

It measures a server of one thread that waits for the network and the scheduler, hardly for the CPU: without
`pipeline` every client waits for its answer before it asks again. With `append_only` every second's writes are
flushed to the guest's disk, as Redis recommends; without, nothing is kept. It does not measure clusters, large
values, nor snapshots.

Its trap is the client: redis-benchmark of one thread is often slower than the server. One that has used up its CPUs
is a warning. With `threads` that many clients of one thread share requests and connections, since its own threads
look for the end at every 250 ms alone; the rate is over the time of the longest. It counts milliseconds. It prints
how many requests a latency is not exceeded by, in steps of 0.1 ms and at ever finer percentiles: percentiles of
several trials together are exact to such a step.

A short trial (`requests`, `trial_time`) also holds the first requests of every connection.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import Field, model_validator

from vtax.benchmarks.base import (
    INTERVAL_S,
    MAX_SAMPLES,
    Command,
    Context,
    Metric,
    Operations,
    Outcome,
    Parameters,
    Role,
    Service,
    Tail,
    WorkParameter,
    register_benchmark,
)
from vtax.benchmarks.checks import check_memory, successful_result
from vtax.benchmarks.histograms import count_requests, from_cumulated, merge_histograms, percentile
from vtax.benchmarks.printed import printed
from vtax.benchmarks.service import Client, cpus_of, saturation_warnings
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.study.model import Size

PORT = 6379
_TESTS = ("set", "get")
_TITLES = {"p50": "median", "p95": "95th percentile", "p99": "99th percentile", "max": "max"}
_EXPECTED_PER_S = 4e4
_FEWEST_REQUESTS = 100
_CLOCK_S = 0.001  # that redis-benchmark times a test by
_AT_ONCE = """
import subprocess, sys, tempfile
tests, shares, *argv = sys.argv[1:]
for test in tests.split(","):
    clients = []
    for share in shares.split(","):
        requests, connections = share.split(":")
        output = tempfile.TemporaryFile()
        words = [*argv, "-t", test, "-n", requests, "-c", connections]
        clients.append((subprocess.Popen(words, stdout=output), output))
    statuses = [client.wait() for client, _ in clients]
    for _, output in clients:
        output.seek(0)
        sys.stdout.buffer.write(output.read())
    if any(statuses):
        sys.exit(1)
"""
_PROGRESS_S = 0.25  # between its lines of progress
_REPORT = re.compile(r"====== (\w+) ======(.*?)(?======= |\Z)", re.DOTALL)
_PROGRESS = re.compile(r"(SET|GET): rps=([0-9.]+) \(overall: ")
_RATE = re.compile(r"throughput summary: ([0-9.]+) requests per second")
_SUMMARY = re.compile(r"avg +min +p50 +p95 +p99 +max\s+" + r" +".join([r"([0-9.]+)"] * 6))
_AT_MOST = re.compile(r"% <= ([0-9.]+) milliseconds \(cumulative count (\d+)\)")


class RedisParameters(Parameters):
    """Parameters that a study may fix or vary."""

    requests: int = Field(
        100_000, ge=_FEWEST_REQUESTS, le=10**9, description="requests of each of the two tests"
    )
    client: Client = Field("peer", description="where redis-benchmark runs")
    clients: int = Field(50, ge=1, le=1000, description="connections at once")
    threads: int = Field(
        1, ge=1, le=64, description="clients of one thread at once, which share the connections"
    )
    pipeline: int = Field(
        1, ge=1, le=10_000, description="requests that a connection sends at once"
    )
    value_size: Size = Field(64, ge=1, le=1024**2, description="bytes of a value")
    keys: int = Field(
        100_000, ge=1, le=10**8, description="keys that are written and read, at random"
    )
    append_only: bool = Field(
        False, description="keep what is written in a file, flushed every second"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.requests < self.clients:
            raise ValueError(
                f"requests ({self.requests}) are fewer than clients ({self.clients}): some would send none"
            )
        return self


def _shares(p: RedisParameters) -> list[tuple[int, int]]:
    """Return (requests, connections) of each client, as equal as they can be."""
    clients = min(p.threads, p.clients)

    def part(whole: int, number: int) -> int:
        return whole * (number + 1) // clients - whole * number // clients

    return [(part(p.requests, n), part(p.clients, n)) for n in range(clients)]


def _latency_metric(test: str, which: str) -> Metric:
    """Return a metric of the times of a test's requests: a percentile such as `p99`, or the longest."""
    percentile = which.removeprefix("p")
    return Metric(
        f"{test}_latency_{which}",
        "ms",
        "lower",
        f"time of one {test.upper()} request, {_TITLES[which]}",
        tail=Tail(test, int(percentile) / 100) if percentile.isdigit() else None,
    )


@register_benchmark
class Redis(Service):
    name = "redis"
    title = "key-value server (Redis, redis-benchmark)"
    tool = "redis-server"
    packages = ("redis-server", "redis-tools")
    Parameters = RedisParameters
    work = Operations("request", "all_requests", time="µs")
    load = ("clients",)
    metrics: Sequence[Metric] = (
        *(
            Metric(
                name,
                "requests/s",
                "higher",
                f"{name.upper()} requests per second",
                primary=True,
                average="harmonic",
                over_flows="sum",
            )
            for name in _TESTS
        ),
        *(_latency_metric(name, which) for name in _TESTS for which in _TITLES),
    )
    version_argv = ("redis-server", "--version")
    version_pattern = r"\ARedis server v=(\S+)"

    def commands(self, parameters: RedisParameters, context: Context) -> Sequence[Command]:
        p = parameters
        keys_set = -math.expm1(-p.requests / p.keys) * p.keys  # expected number of different ones
        check_memory(
            "value_size",
            f"values of about {keys_set:.0f} different keys that {p.requests} requests set",
            int(keys_set * p.value_size),
            context,
        )
        directory, port = f"{context.scratch}/vtax-redis-{context.flow}", str(PORT + context.flow)
        remove = ("rm", "-rf", directory)
        server = ["redis-server", "--bind", context.guest_address, "--port", port]
        server += ["--protected-mode", "no", "--dir", directory, "--save", ""]
        server += ["--appendonly", "yes" if p.append_only else "no"]
        shares, tests = _shares(p), ",".join(_TESTS)
        client = ["redis-benchmark", "-h", context.guest_address, "-p", port]
        client += ["-P", str(p.pipeline), "-d", str(p.value_size), "-r", str(p.keys)]
        if len(shares) == 1:
            client += ["-t", tests, "-n", str(p.requests), "-c", str(p.clients)]
        else:
            written = ",".join(f"{requests}:{connections}" for requests, connections in shares)
            client = ["python3", "-c", _AT_ONCE, tests, written, *client]
        return (
            Command(
                "server",
                tuple(server),
                ready_port=PORT + context.flow,
                before=(remove, ("mkdir", directory)),
                after=(remove,),
            ),
            Command("client", tuple(client), place=p.client),
        )

    def counted(self, parameters: RedisParameters) -> WorkParameter:
        return WorkParameter("requests", least=max(_FEWEST_REQUESTS, parameters.clients))

    def expected_s(self, parameters: RedisParameters, context: Context) -> float:
        return len(_TESTS) * parameters.requests / _EXPECTED_PER_S + 0.5

    def parse(
        self, parameters: RedisParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        """See Benchmark.parse. The first line of progress of a test is of no whole interval."""
        p, result = parameters, successful_result("redis-benchmark", results, "client")
        shares = _shares(p)
        reports: dict[str, list[str]] = {}
        for name, text in _REPORT.findall(result.stdout):
            reports.setdefault(name.lower(), []).append(text)
        if list(reports) != list(_TESTS) or any(len(of) != len(shares) for of in reports.values()):
            raise BenchmarkError(
                "redis-benchmark printed no report that vtax knows", where=result.stdout[-200:]
            )
        values: dict[str, float] = {}
        steps: dict[str, float] = {}
        histograms: dict[str, list[float]] = {}
        for name, texts in reports.items():
            of_clients = [
                _read_test(text, requests)
                for text, (requests, _) in zip(texts, shares, strict=True)
            ]
            of_test, histograms[name] = _merge_clients(of_clients, p.requests)
            values[name] = of_test.pop("rate")
            values |= {f"{name}_latency_{which}": ms for which, ms in of_test.items()}
            steps[name] = values[name] ** 2 * _CLOCK_S / p.requests
        if min(values[name] for name in _TESTS) > 0:
            at_least_s = sum(p.requests / values[name] for name in _TESTS)
        else:
            at_least_s = math.inf
        if at_least_s > result.outside_s * 1.05 + 0.1:
            raise BenchmarkError(
                f"redis-benchmark reports {at_least_s:g} s or more, but it ran for {result.outside_s:.3f} s"
            )
        cpu_s = result.user_s + result.system_s
        cpus = cpus_of(p.client, context)
        warnings = saturation_warnings("redis-benchmark", cpu_s, at_least_s, p.threads, cpus)
        effective: dict[str, Any] = {
            "requests": p.requests,
            "all_requests": len(_TESTS) * p.requests,
            "client": p.client,
            "clients": p.clients,
            "pipeline": p.pipeline,
        }
        rates: dict[str, list[float]] = {name: [] for name in _TESTS}
        for name, rate in _PROGRESS.findall(result.stdout):
            rates[name.lower()].append(float(rate))
        is_alone = len(shares) == 1  # several clients print their intervals one after the other
        samples = {
            name: each[1:]
            for name, each in rates.items()
            if is_alone and 2 < len(each) <= MAX_SAMPLES
        }
        effective |= {INTERVAL_S: _PROGRESS_S} if samples else {}
        return Outcome(values, effective, tuple(warnings), samples, histograms, resolutions=steps)


def _merge_clients(
    of_clients: Sequence[tuple[dict[str, float], list[float]]], requests: int
) -> tuple[dict[str, float], list[float]]:
    """Return values and histogram of a test that several clients began at once; it lasts until the last has ended.

    of_clients: what `_read_test` returned for each.
    requests: of all of them.
    """
    if len(of_clients) == 1:
        return of_clients[0]
    times_s = [count_requests(histogram) / found["rate"] for found, histogram in of_clients]
    histogram = merge_histograms([histogram for _, histogram in of_clients])
    found = {"rate": requests / max(times_s)}
    for name in _TITLES:
        share = 1.0 if name == "max" else int(name[1:]) / 100
        found[name] = percentile(histogram, share) or 0.0
    return found, histogram


def _read_test(text: str, requests: int) -> tuple[dict[str, float], list[float]]:
    """Return rate and latencies (ms) of the report of a test, and the histogram of its requests.

    text: the report.
    requests: that it must be of, otherwise it raises BenchmarkError.
    """
    rate, summary = _RATE.search(text), _SUMMARY.search(text)
    counts = {
        float(ms): int(count)
        for ms, count in sorted(_AT_MOST.findall(text), key=lambda each: int(each[1]))
    }
    if (
        not rate
        or not summary
        or float(rate[1]) <= 0
        or max(counts.values(), default=0) != requests
    ):
        raise BenchmarkError("redis-benchmark printed no report that vtax knows", where=text[-200:])
    found = dict(
        zip(("avg", "min", "p50", "p95", "p99", "max"), map(printed, summary.groups()), strict=True)
    )
    for which in ("p50", "p95", "p99"):  # what it rounds up to, where no line of its own says so
        counts[found[which]] = max(
            counts.get(found[which], 0), -(-requests * int(which[1:]) // 100)
        )
    values = {"rate": float(rate[1]), **{name: found[name] for name in _TITLES}}
    return values, from_cumulated(counts)
