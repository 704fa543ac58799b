"""loaded-latency: how long requests take while streams load the same link, by netperf.

The guest sends one small request after the other to its peer over TCP. Streams between the same ends, over the same
interfaces and queues, begin 1 s before the first request and end 1 s after the last one. What a request takes longer
than with `load = "none"` is its waiting for the streams: in the guest's queue, in the layer's, and for CPUs.

It does not measure a link of many hosts, nor a queue that the study shapes by itself: `rate_mbit_s` of the link does,
and then most of the waiting is there.

Its trap is a stream that is slow: it makes others wait less. So its rate is a metric beside the latencies, and a
platform with low latencies and a low rate is not better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from vtax.benchmarks.base import (
    CPU_PER_GIGABYTE,
    Command,
    Context,
    Metric,
    NetworkPair,
    Outcome,
    Parameters,
    Role,
    Tail,
    register_benchmark,
)
from vtax.benchmarks.netperf import Netperf, NetperfParameters, selectors
from vtax.benchmarks.network import check_link
from vtax.benchmarks.printed import printed
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.study.fields import Size

_LEAD_S = 1  # of streams before the first request and after the last one
_BESIDE_S = 0.3  # of a trial besides: starts and ends
_STREAM = "== stream "
_SCRIPT = """
scratch=$1 seconds=$2 host=$3 port=$4 tests=$5; shift 5
number=0
for test in $tests; do
    number=$((number + 1))
    netperf -H "$host" -p "$port" -t "$test" -l "$seconds" -f m -P 0 -- -k THROUGHPUT,ELAPSED_TIME \
        > "$scratch.$number" 2>&1 &
done
[ "$number" = 0 ] || sleep 1
"$@"
status=$?
wait
for one in $(seq "$number"); do
    echo "== stream $one"
    cat "$scratch.$one"
done
rm -f "$scratch".*
exit $status
"""
_TESTS: Mapping[str, Sequence[str]] = {
    "none": (),
    "send": ("TCP_STREAM",),
    "receive": ("TCP_MAERTS",),
    "both": ("TCP_STREAM", "TCP_MAERTS"),
}


class LoadedLatencyParameters(Parameters):
    """Parameters that a study may fix or vary."""

    load: Literal["none", "send", "receive", "both"] = Field(
        "send", description="what the guest does with the streams meanwhile"
    )
    streams: int = Field(1, ge=1, le=64, description="streams in each of these directions")
    duration_s: int = Field(5, ge=1, le=3600, description="whole seconds of requests")
    request_size: Size = Field(64, ge=1, le=65536, description="bytes of a request")
    response_size: Size = Field(64, ge=1, le=65536, description="bytes of a response")


@register_benchmark
class LoadedLatency(NetworkPair):
    name = "loaded-latency"
    title = "latency of requests beside streams on the same link (netperf)"
    tool = "netperf"
    Parameters = LoadedLatencyParameters
    work = None  # what streams and requests cost the host cannot be told apart
    load = ("streams",)
    metrics: Sequence[Metric] = (
        Metric(
            "latency_p50",
            "us",
            "lower",
            "median time of a request",
            primary=True,
            tail=Tail("latency", 0.5),
        ),
        Metric(
            "latency_p99",
            "us",
            "lower",
            "99th percentile of requests",
            primary=True,
            tail=Tail("latency", 0.99),
        ),
        Metric(
            "stream_rate",
            "Mbit/s",
            "higher",
            "rate of all streams meanwhile",
            primary=True,
            over_flows="sum",
        ),
        Metric("latency_p90", "us", "lower", "90th percentile", tail=Tail("latency", 0.9)),
        Metric("latency_mean", "us", "lower", "mean time of a request"),
        Metric("latency_max", "us", "lower", "longest request"),
        CPU_PER_GIGABYTE,
    )
    version_argv = Netperf.version_argv
    version_pattern = Netperf.version_pattern

    def commands(self, parameters: LoadedLatencyParameters, context: Context) -> Sequence[Command]:
        """Return netperf's request and response test, with streams around it."""
        server, requests = Netperf().commands(_requests(parameters), context)
        port = requests.argv[requests.argv.index("-p") + 1]
        settings = (
            f"{context.scratch}/vtax-loaded-latency-{context.flow}",
            str(parameters.duration_s + 2 * _LEAD_S),
            context.peer_address,
            port,
            " ".join(_streams(parameters)),
        )
        script = ("sh", "-c", _SCRIPT, "sh", *settings, *requests.argv)
        return server, replace(requests, argv=script)

    def expected_s(self, parameters: LoadedLatencyParameters, context: Context) -> float:
        around_s = 2 * _LEAD_S if _streams(parameters) else 0
        return parameters.duration_s + around_s + _BESIDE_S

    def parse(
        self,
        parameters: LoadedLatencyParameters,
        context: Context,
        results: Mapping[Role, CommandResult],
    ) -> Outcome:
        """Read the streams' rates, and the requests as netperf's own."""
        client = results["client"]
        requests, *streams = client.stdout.split(_STREAM)
        request_results = {**results, "client": replace(client, stdout=requests)}
        outcome = Netperf().parse(_requests(parameters), context, request_results)
        values = {
            metric.name: outcome.values[metric.name]
            for metric in self.metrics
            if metric.name in outcome.values
        }
        rates = list(_rates(streams))
        if len(rates) != len(_streams(parameters)):
            raise BenchmarkError(
                f"{len(rates)} streams reported a rate where {len(_streams(parameters))} were started",
                where=client.stdout[-200:],
            )
        if rates:
            values["stream_rate"] = sum(rates)
            of_a_direction = sum(rates) / len(_TESTS[parameters.load])
            check_link(of_a_direction, context, parameters.duration_s + 2 * _LEAD_S)
        effective = {**outcome.effective, "streams": len(rates)}
        return replace(outcome, values=values, effective=effective)


def _requests(parameters: LoadedLatencyParameters) -> NetperfParameters:
    """Return the parameters of netperf for the requests."""
    return NetperfParameters(
        test="tcp_rr",
        duration_s=parameters.duration_s,
        request_size=parameters.request_size,
        response_size=parameters.response_size,
        no_delay=True,
    )


def _streams(parameters: LoadedLatencyParameters) -> Sequence[str]:
    """Return netperf's test of every stream."""
    return [*_TESTS[parameters.load]] * parameters.streams


def _rates(reports: Sequence[str]) -> Iterator[float]:
    """Yield the rate of each stream that has one. Raises BenchmarkError for one that says it is no number."""
    for report in reports:
        rate = selectors(report).get("THROUGHPUT")
        if rate is None:
            continue
        try:
            yield printed(rate)
        except ValueError as error:
            raise BenchmarkError(f"netperf's output is not understood: {error}") from error
