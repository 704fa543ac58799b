"""memcached: one SET to nine GET requests on a cache in the guest's memory (memcaslap of libmemcached).

It measures a server of several threads that answers from memory: network, system calls and wake-ups. It does not
measure evictions (the cache holds all values), misses, nor UDP.

Its trap is the client, which is one program for all connections: one that has used up its CPUs is a warning. It
prints latencies as powers of two, from which no honest percentile follows: average and max are reported.

A short trial (`requests`, `trial_time`) also holds the first requests of every connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import Field

from vtax.benchmarks.base import (
    Command,
    Context,
    Metric,
    Operations,
    Outcome,
    Parameters,
    Role,
    Service,
    WorkParameter,
    register_benchmark,
)
from vtax.benchmarks.checks import successful_result
from vtax.benchmarks.printed import printed
from vtax.benchmarks.service import Client, check_cache, cpus_of, saturation_warnings
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.study.fields import Size

PORT = 11211
_MEBIBYTE = 1024**2
_REQUEST_S = 2e-5  # about; for the plan
_NO_STATISTICS_S = 10**6  # between reports: only the last one
_TOTAL = re.compile(
    r"^Total Statistics \((\d+) events\)\n +Min: +(\d+)\n +Max: +(\d+)\n +Avg: +(\d+)$", re.M
)
_RUN = re.compile(r"^Run time: ([0-9.]+)s Ops: (\d+) TPS: (\d+) Net_rate: \S+$", re.MULTILINE)
_MISSES = re.compile(r"^get_misses: (\d+)$", re.MULTILINE)


class MemcachedParameters(Parameters):
    """Parameters that a study may fix or vary."""

    client: Client = Field("peer", description="where memcaslap runs")
    connections: int = Field(
        8, ge=1, le=1024, description="connections at once, a multiple of threads"
    )
    threads: int = Field(1, ge=1, le=64, description="threads of memcaslap")
    workers: int | None = Field(
        None, ge=1, le=64, description="memcached's threads; default the guest's CPUs"
    )
    duration_s: int = Field(
        10, ge=1, le=86400, description="whole seconds measured, unless requests is given"
    )
    requests: int | None = Field(
        None, ge=1, le=10**9, description="requests of a trial, in place of a time"
    )
    value_size: Size = Field(64, ge=1, le=_MEBIBYTE // 2, description="bytes of a value")
    cache: Size = Field(64 * _MEBIBYTE, ge=8 * _MEBIBYTE, description="bytes of the cache")


@register_benchmark
class Memcached(Service):
    name = "memcached"
    title = "cache server (memcached, memcaslap)"
    tool = "memcached"
    packages = ("memcached", "libmemcached-tools")
    Parameters = MemcachedParameters
    work = Operations("request", "requests", time="µs")
    metrics: Sequence[Metric] = (
        Metric(
            "requests",
            "requests/s",
            "higher",
            "SET and GET requests per second",
            primary=True,
            fixed_work="requests",
            over_flows="sum",
        ),
        Metric("latency_avg", "ms", "lower", "time of one request, average", per_unit=True),
        Metric("latency_max", "ms", "lower", "time of one request, max"),
    )
    version_argv = ("memcached", "--version")
    version_pattern = r"\Amemcached (\S+)"

    def commands(self, parameters: MemcachedParameters, context: Context) -> Sequence[Command]:
        p = parameters
        check_cache("cache", p.cache, context)
        port = str(PORT + context.flow)
        cache, workers = str(p.cache // _MEBIBYTE), str(p.workers or context.vcpus)
        server = ["memcached", "-u", "memcache", "-l", context.guest_address, "-p", port]
        server += ["-m", cache, "-t", workers, "-c", "4096"]
        client = (
            "memcaslap",
            f"--servers={context.guest_address}:{port}",
            f"--threads={p.threads}",
            f"--concurrency={p.connections}",
            f"--time={p.duration_s}s" if p.requests is None else f"--execute_number={p.requests}",
            f"--fixed_size={p.value_size}",
            f"--stat_freq={_NO_STATISTICS_S}s",
        )
        return (
            Command("server", tuple(server), ready_port=PORT + context.flow),
            Command("client", client, place=p.client),
        )

    def counted(self, parameters: MemcachedParameters) -> WorkParameter:
        return WorkParameter("requests", least=10 * parameters.connections)

    def expected_s(self, parameters: MemcachedParameters, context: Context) -> float:
        if parameters.requests is not None:
            return parameters.requests * _REQUEST_S + 0.5
        return parameters.duration_s + 0.5

    def parse(
        self,
        parameters: MemcachedParameters,
        context: Context,
        results: Mapping[Role, CommandResult],
    ) -> Outcome:
        """Read rate and latencies, which are printed in microseconds."""
        p, result = parameters, successful_result("memcaslap", results, "client")
        total, ran, misses = (pattern.search(result.stdout) for pattern in (_TOTAL, _RUN, _MISSES))
        if not total or not ran or not misses:
            raise BenchmarkError(
                "memcaslap printed no report that vtax knows", where=result.stdout[-200:]
            )
        elapsed_s, requests, rate = float(ran[1]), int(ran[2]), printed(ran[3])
        if requests == 0 or rate <= 0 or int(misses[1]):
            raise BenchmarkError(
                f"memcaslap made {requests} requests, of which {misses[1]} found no value"
            )
        if elapsed_s > result.outside_s * 1.05 + 0.1:
            raise BenchmarkError(
                f"memcaslap reports {elapsed_s:g} s, but it ran for {result.outside_s:.3f} s"
            )
        cpus = cpus_of(p.client, context)
        warnings = saturation_warnings("memcaslap", result.cpu_s, result.outside_s, p.threads, cpus)
        values = {
            "requests": rate,
            "latency_avg": printed(total[4]) / 1000,
            "latency_max": printed(total[3]) / 1000,
        }
        effective = {"client": p.client, "connections": p.connections, "requests": requests}
        return Outcome(values, effective, tuple(warnings))
