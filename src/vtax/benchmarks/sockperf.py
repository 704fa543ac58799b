"""sockperf: how long single messages take there and back, under a fixed load or one after another.

Under a fixed load (`under-load`) the client sends at its own pace whatever the answers do, so queues show in the
upper percentiles; `ping-pong` waits for every answer. All times are full round trips.

It does not measure throughput. Its trap is a load that the path cannot carry: then the figure is the length of a
queue, and messages that were dropped have no delay at all. Up to 200 000 answers are logged when the time is over,
and counted by interval and round trip; the CPU time of a message includes that.

It measures whole seconds: netperf's transactions take short trials.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from vtax.benchmarks.base import (
    INTERVAL_S,
    INTERVALS,
    Command,
    Context,
    Metric,
    NetworkPair,
    Operations,
    Outcome,
    Parameters,
    Role,
    Tail,
    register_benchmark,
)
from vtax.benchmarks.histograms import count_requests, from_counts, merge_histograms, percentile
from vtax.benchmarks.network import (
    NOT_REPORTED,
    check_datagram,
    check_link,
    check_socket_buffer,
    window_warnings,
)
from vtax.benchmarks.printed import printed
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note
from vtax.study.fields import Size

PORT = 11111
_UDP_SERVER_START_S = "0.5"  # a UDP server cannot be seen to listen from outside
_RATE_TOLERANCE = 0.02
_BESIDE_S = 2.3  # of a trial, measured on five platforms
_TAIL_S = 0.2  # within it the last answers come, after the time of the test
_BUFFERS = re.compile(r"Socket buffers sizes of fd \d+: RX: (\d+) Byte, TX: (\d+) Byte")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PERCENTILES = {
    "latency_p50": "50.000",
    "latency_p90": "90.000",
    "latency_p99": "99.000",
    "latency_p999": "99.900",
}
_MOST_LOGGED = 200_000  # answers of a trial: about 10 MB
_PING_PONGS_PER_S = 40_000  # about
# Log: packet, sent (s), received (s), round trip (µs). Bins are below 1 % of the round trip.
_COUNT = """
/^[0-9]+, / {
  if (!n++) start = $2
  last = $2
  width = 2 ^ (int(log($4 > 1 ? $4 : 1) / log(2)) - 7)
  count[int(($2 - start) / interval) " " (int($4 / width) + 0.5) * width]++
}
END { for (each in count) print "interval " each, count[each]; print "logged " last - start " s" }
"""
_LOGGED = """
log=$1 interval=$2 count=$3; shift 3
"$@" --full-log "$log"
status=$?
[ -s "$log" ] && awk -F ", " -v interval="$interval" "$count" "$log"
rm -f "$log"
exit $status
"""
_COMPLAINS = re.compile("ERROR|No messages|Invalid")
_COUNTED = re.compile(r"^interval (\d+) ([0-9.e+]+) (\d+)$", re.MULTILINE)


class SockperfParameters(Parameters):
    """Parameters that a study may fix or vary. Absent values are left to the tool."""

    mode: Literal["under-load", "ping-pong"] = Field(
        "under-load", description="at a fixed rate, or one by one"
    )
    protocol: Literal["tcp", "udp"] = Field("udp", description="transport protocol")
    duration_s: int = Field(
        5, ge=1, le=3600, description="seconds, of which 0.4 are the tool's own warm-up"
    )
    message_size: Size = Field(64, ge=14, le=65507, description="bytes of a message")
    messages_per_second: int = Field(1000, ge=1, le=10_000_000, description="load, mode under-load")
    reply_every: int = Field(
        1, ge=1, le=1000, description="which messages are answered, mode under-load"
    )
    socket_buffer: Size | None = Field(
        None, ge=1, description="requested socket buffers at both ends"
    )

    @model_validator(mode="after")
    def _fits_its_protocol(self) -> Self:
        if self.protocol == "udp":
            check_datagram("message_size", self.message_size)
        return self


@register_benchmark
class Sockperf(NetworkPair):
    name = "sockperf"
    title = "message latency (sockperf)"
    tool = "sockperf"
    Parameters = SockperfParameters
    work = Operations("message", "sent_messages", time="µs")
    load = ("messages_per_second",)
    metrics: Sequence[Metric] = (
        Metric(
            "latency_p50",
            "us",
            "lower",
            "median round trip",
            primary=True,
            tail=Tail("latency", 0.5),
        ),
        Metric("latency_mean", "us", "lower", "mean round trip"),
        Metric("latency_p90", "us", "lower", "90th percentile", tail=Tail("latency", 0.9)),
        Metric("latency_p99", "us", "lower", "99th percentile", tail=Tail("latency", 0.99)),
        Metric("latency_p999", "us", "lower", "99.9th percentile", tail=Tail("latency", 0.999)),
        Metric("latency_max", "us", "lower", "longest round trip"),
        Metric("messages", "1/s", "higher", "messages sent", over_flows="sum"),
        Metric("dropped", "%", "lower", "messages without an answer that should have one"),
    )
    version_argv = ("sockperf", "--version")
    version_pattern = r"sockperf, version (\S+)"

    def commands(self, parameters: SockperfParameters, context: Context) -> Sequence[Command]:
        p, tcp = parameters, parameters.protocol == "tcp"
        check_socket_buffer("socket_buffer", p.socket_buffer)
        port = PORT + context.flow
        common_options = ["-i", context.peer_address, "-p", str(port)]
        if tcp:
            common_options.append("--tcp")
        if p.socket_buffer is not None:
            common_options += ["--buffer-size", str(p.socket_buffer)]
        client = ["sockperf", p.mode, *common_options]
        client += ["-t", str(p.duration_s), "-m", str(p.message_size), "--full-rtt"]
        if p.mode == "under-load":
            client += ["--mps", str(p.messages_per_second), "--reply-every", str(p.reply_every)]
        if _answers(p) <= _MOST_LOGGED:
            log = f"{context.scratch}/vtax-sockperf-{context.flow}.log"
            client = ["sh", "-c", _LOGGED, "sh", log, f"{_interval_s(p):g}", _COUNT, *client]
        serve = ("sockperf", "server", *common_options)
        if tcp:
            server = Command("server", serve, place="peer", ready_port=port)
            return server, Command("client", tuple(client))
        wait = ("sleep", _UDP_SERVER_START_S)
        server = Command("server", serve, place="peer")
        return server, Command("client", tuple(client), before=(wait,))

    def expected_s(self, parameters: SockperfParameters, context: Context) -> float:
        return parameters.duration_s + _BESIDE_S

    def parse(
        self,
        parameters: SockperfParameters,
        context: Context,
        results: Mapping[Role, CommandResult],
    ) -> Outcome:
        p, client = parameters, results["client"]
        text = _COLOUR.sub("", client.stdout + client.stderr)
        if client.status != 0 or "Summary:" not in text:
            messages = list(filter(_COMPLAINS.search, text.splitlines()))
            raise BenchmarkError(
                f"sockperf failed with {client.ended_with}: {'; '.join(messages) or text[-300:]}"
            )
        values: dict[str, float] = {}
        for name, number in _PERCENTILES.items():
            values[name] = _number_after(rf"percentile {number} = *([0-9.]+)", text)
        values["latency_mean"] = _number_after(r"Round trip is ([0-9.]+) usec", text)
        values["latency_max"] = _number_after(r"<MAX> observation = *([0-9.]+)", text)
        total = _line(text, "[Total Run]")
        run_s = _number_after(r"RunTime=([0-9.]+)", total)
        sent_messages = _number_after(r"SentMessages=([0-9.]+)", total)
        values["messages"] = sent_messages / run_s
        answers = _number_after(r"Total ([0-9]+) observations", text)
        lost_answers = _number_after(r"dropped messages = ([0-9]+)", text)
        values["dropped"] = 100 * lost_answers / max(answers + lost_answers, 1)
        _check_link(total, run_s, p, context)
        effective: dict[str, Any] = {
            "observations": int(answers),
            "sent_messages": int(sent_messages),
        }
        warnings = list[str]()
        for end, result in (("", client), ("peer", results.get("server"))):
            receive, send = _buffers(result)
            prefix = f"{end}_" if end else ""
            effective[f"{prefix}send_buffer"] = send or NOT_REPORTED
            effective[f"{prefix}receive_buffer"] = receive or NOT_REPORTED
            warnings += window_warnings(p.socket_buffer, send, receive, end)
        requested, sent_per_s = p.messages_per_second, values["messages"]
        if p.mode == "under-load" and sent_per_s < (1 - _RATE_TOLERANCE) * requested:
            warnings.append(Note("load-lower", requested=requested, found=round(sent_per_s)))
        histogram, medians = _read_log(text, answers, _interval_s(p))
        samples = {}
        if len(medians) > 1:
            samples["latency_p50"] = medians
            effective[INTERVAL_S] = _interval_s(p)
        return Outcome(values, effective, tuple(warnings), samples, {"latency": histogram})


def _answers(p: SockperfParameters) -> float:
    """Return about how many there are."""
    if p.mode == "under-load":
        return p.duration_s * p.messages_per_second / p.reply_every
    return p.duration_s * _PING_PONGS_PER_S


def _interval_s(p: SockperfParameters) -> float:
    return p.duration_s / INTERVALS


def _read_log(text: str, answers: float, interval_s: float) -> tuple[list[float], list[float]]:
    """Return the histogram of all round trips (µs), or their number without a log; the median of each whole interval.

    Raises BenchmarkError for a log of other answers.
    """
    counts: dict[int, dict[float, float]] = {}
    for interval, round_trip, count in _COUNTED.findall(text):
        counts.setdefault(int(interval), {})[float(round_trip)] = float(count)
    if not counts:
        return [answers], []
    histograms = {interval: from_counts(counts[interval]) for interval in sorted(counts)}
    histogram = merge_histograms(list(histograms.values()))
    if count_requests(histogram) != answers:
        raise BenchmarkError(
            f"sockperf logged {count_requests(histogram):g} answers of {answers:g}"
        )
    medians: list[float] = []
    for interval in range(int(_number_after(r"logged ([0-9.e+-]+) s", text) / interval_s + 0.01)):
        if interval not in histograms:
            return histogram, []
        median = percentile(histograms[interval], 0.5)
        if median is not None:
            medians.append(median)
    return histogram, medians


def _check_link(total: str, run_s: float, p: SockperfParameters, context: Context) -> None:
    """Raise BenchmarkError when more arrived than the link can carry, there or back.

    total: the line of the whole run. A message that was answered arrived; over TCP all those before it did, too.
    """
    back = _number_after(r"ReceivedMessages=([0-9]+)", total)
    messages_per_answer = p.reply_every if p.mode == "under-load" and p.protocol == "tcp" else 1
    # which of them is answered first is the server's choice
    arrived = max(back - 1, 0) * messages_per_answer + 1
    check_link(arrived * p.message_size * 8 / 1e6 / (run_s + _TAIL_S), context, run_s)


def _buffers(result: CommandResult | None) -> tuple[int | None, int | None]:
    """Return the bytes of the receive and send buffer of an end, which sockperf reports when it requested some.

    The last ones are those of the connection: a TCP server reports its listening socket first.
    """
    sizes = _BUFFERS.findall(result.stdout + result.stderr) if result else []
    return (int(sizes[-1][0]), int(sizes[-1][1])) if sizes else (None, None)


def _line(text: str, beginning: str) -> str:
    """Return the rest of the first line that has these words, after them; empty without one."""
    return text.partition(beginning)[2].partition("\n")[0]


def _number_after(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    if not match:
        raise BenchmarkError(
            f"sockperf's output lacks what {pattern!r} should find; its format is not known to vtax"
        )
    return printed(match[1])
