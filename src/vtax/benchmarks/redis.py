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
from vtax.grouping import by_key
from vtax.guest.results import CommandResult
from vtax.study.fields import Size

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
_COLUMNS = ("avg", "min", "p50", "p95", "p99", "max")
"""The six numbers of a summary."""
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

    def part(total: int, number: int) -> int:
        return total * (number + 1) // clients - total * number // clients

    return [(part(p.requests, n), part(p.clients, n)) for n in range(clients)]


def _latency_metric(test: str, statistic: str) -> Metric:
    """Return a metric of the times of a test's requests: a percentile such as `p99`, or the longest."""
    percentile = statistic.removeprefix("p")
    return Metric(
        f"{test}_latency_{statistic}",
        "ms",
        "lower",
        f"time of one {test.upper()} request, {_TITLES[statistic]}",
        tail=Tail(test, int(percentile) / 100) if percentile.isdigit() else None,
    )


def _rate_metric(test: str) -> Metric:
    return Metric(
        test,
        "requests/s",
        "higher",
        f"{test.upper()} requests per second",
        primary=True,
        average="harmonic",
        over_flows="sum",
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
        *map(_rate_metric, _TESTS),
        *(_latency_metric(test, which) for test in _TESTS for which in _TITLES),
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
        server = ["redis-server", "--bind", context.guest_address, "--port", port]
        server += ["--protected-mode", "no", "--dir", directory, "--save", ""]
        server += ["--appendonly", "yes" if p.append_only else "no"]
        shares, tests = _shares(p), ",".join(_TESTS)
        client = ["redis-benchmark", "-h", context.guest_address, "-p", port]
        client += ["-P", str(p.pipeline), "-d", str(p.value_size), "-r", str(p.keys)]
        if len(shares) == 1:
            client += ["-t", tests, "-n", str(p.requests), "-c", str(p.clients)]
        else:
            shares_text = ",".join(f"{requests}:{connections}" for requests, connections in shares)
            client = ["python3", "-c", _AT_ONCE, tests, shares_text, *client]
        return (
            Command(
                "server",
                tuple(server),
                ready_port=PORT + context.flow,
                before=(("mkdir", directory),),
                makes=(directory,),
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
        """Read the tests; the first line of progress of each is of no whole interval."""
        p, result = parameters, successful_result("redis-benchmark", results, "client")
        shares = _shares(p)
        reports = by_key((name.lower(), text) for name, text in _REPORT.findall(result.stdout))
        counts = {test: len(texts) for test, texts in reports.items()}
        if list(counts.items()) != [(test, len(shares)) for test in _TESTS]:
            raise BenchmarkError(
                "redis-benchmark printed no report that vtax knows", where=result.stdout[-200:]
            )
        values: dict[str, float] = {}
        steps: dict[str, float] = {}
        histograms: dict[str, list[float]] = {}
        at_least_s = 0.0
        for test, texts in reports.items():
            clients = []
            for text, (requests, _) in zip(texts, shares, strict=True):
                clients.append(_read_test(text, requests))
            figures, histograms[test] = _merge_clients(clients, p.requests)
            rate = figures.pop("rate")
            values[test] = rate
            for statistic, latency_ms in figures.items():
                values[f"{test}_latency_{statistic}"] = latency_ms
            steps[test] = rate**2 * _CLOCK_S / p.requests
            at_least_s += p.requests / rate if rate > 0 else math.inf
        if at_least_s > result.outside_s * 1.05 + 0.1:
            raise BenchmarkError(
                f"redis-benchmark reports {at_least_s:g} s or more, but it ran for {result.outside_s:.3f} s"
            )
        cpus = cpus_of(p.client, context)
        warnings = saturation_warnings("redis-benchmark", result.cpu_s, at_least_s, p.threads, cpus)
        effective: dict[str, Any] = {
            "requests": p.requests,
            "all_requests": len(_TESTS) * p.requests,
            "client": p.client,
            "clients": p.clients,
            "pipeline": p.pipeline,
        }
        # several clients print their intervals one after the other
        samples = _progress(result.stdout) if len(shares) == 1 else {}
        if samples:
            effective[INTERVAL_S] = _PROGRESS_S
        return Outcome(values, effective, tuple(warnings), samples, histograms, resolutions=steps)


def _progress(output: str) -> dict[str, list[float]]:
    """Return the rates of the whole intervals of every test that has several."""
    rates: dict[str, list[float]] = {test: [] for test in _TESTS}
    for name, rate in _PROGRESS.findall(output):
        rates[name.lower()].append(float(rate))
    samples = {}
    for test, test_rates in rates.items():
        if 2 < len(test_rates) <= MAX_SAMPLES:
            samples[test] = test_rates[1:]
    return samples


def _merge_clients(
    clients: Sequence[tuple[dict[str, float], list[float]]], requests: int
) -> tuple[dict[str, float], list[float]]:
    """Return values and histogram of a test that several clients began at once; it lasts until the last has ended.

    clients: what `_read_test` returned for each.
    requests: of all of them.
    """
    if len(clients) == 1:
        return clients[0]
    times_s = [count_requests(histogram) / figures["rate"] for figures, histogram in clients]
    all_requests = merge_histograms([histogram for _, histogram in clients])
    values = {"rate": requests / max(times_s)}
    for name in _TITLES:
        share = 1.0 if name == "max" else int(name[1:]) / 100
        values[name] = percentile(all_requests, share) or 0.0
    return values, all_requests


def _read_test(text: str, requests: int) -> tuple[dict[str, float], list[float]]:
    """Return rate and latencies (ms) of the report of a test, and the histogram of its requests.

    text: the report.
    requests: that it must be of, otherwise it raises BenchmarkError.
    """
    rate, summary = _RATE.search(text), _SUMMARY.search(text)
    counts: dict[float, int] = {}
    for latency_ms, count in _AT_MOST.findall(text):
        counts[float(latency_ms)] = max(counts.get(float(latency_ms), 0), int(count))
    is_whole = max(counts.values(), default=0) == requests
    if not rate or not summary or float(rate[1]) <= 0 or not is_whole:
        raise BenchmarkError("redis-benchmark printed no report that vtax knows", where=text[-200:])
    latencies_ms = dict(zip(_COLUMNS, map(printed, summary.groups()), strict=True))
    # what it rounds up to, where no line of its own says so
    for statistic in ("p50", "p95", "p99"):
        latency = latencies_ms[statistic]
        at_most = -(-requests * int(statistic[1:]) // 100)
        counts[latency] = max(counts.get(latency, 0), at_most)
    values = {"rate": float(rate[1])}
    for name in _TITLES:
        values[name] = latencies_ms[name]
    return values, from_cumulated(counts)
