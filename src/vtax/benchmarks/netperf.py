"""netperf: streams, request/response and connection rates, with the exact sizes and socket buffers a study asks for.

netserver runs on the peer, netperf in the guest. The output is a list of omni selectors, one `NAME=value` a line, so
nothing depends on the columns of a version. Selectors of latency are asked for only where transactions are measured:
taking the time of every send would slow a stream of small messages.

Its figures of CPU (`-c -C`) are what the kernels at both ends say of themselves, read once before and once after:
the busy share of all their CPUs. A guest without a kernel of its own tells the whole host's.

A transaction under way when the time is over is not counted, so that netperf's own rate of few transactions moves in
steps. The rate is therefore one over the mean time of a transaction; only over netperf's repeated iterations it is
netperf's, which is their mean: its latencies are of the last iteration alone.

A `udp_stream` of datagrams that fit a packet has the rate of `packets`, too: 18 bytes (`message_size`) are a frame of 64
bytes, the smallest of Ethernet, of which a link carries the most a second.

It does not measure what a real server does between request and answer. Its trap is a small message size in a stream:
TCP joins writes, so that fewer and larger packets cross the link than messages were sent.

A short trial (`count`, `trial_time`) of a stream also holds the slow start of TCP; its connection is made before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from vtax.benchmarks.base import (
    CPU_PER_GIGABYTE,
    Command,
    Context,
    Metric,
    NetworkPair,
    Operations,
    Outcome,
    Parameters,
    Role,
    Tail,
    WorkParameter,
    register_benchmark,
)
from vtax.benchmarks.network import (
    check_datagram,
    check_link,
    check_socket_buffer,
    congestion_warnings,
    reported_mss,
    window_warnings,
)
from vtax.benchmarks.printed import printed
from vtax.benchmarks.words import own_message
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note
from vtax.study.fields import Size

PORT = 12865
LARGEST_MESSAGE = 64 * 1024**2
_LEAST_BYTES = 64 * 1024
FEWEST_TRANSACTIONS = 30
"""Below it a trial says so: its mean is of few, and its percentiles are of hardly any."""
_MEAN_ROOM, _MEAN_ROOM_OF_ITERATIONS = 0.2, 1.0  # of what one over the rate of transactions is
_BEGIN_AND_END_S = 0.1  # of the elapsed time, that no transaction takes, on an emulated machine
_TRANSACTION_S, _UNKNOWN_MBIT_S = (
    1e-4,
    1000.0,
)  # of a transaction besides its bytes, of a link: for the plan
_IP_AND_UDP = 28  # bytes of both headers (RFC 791, RFC 768)
_STREAMS = ("tcp_stream", "tcp_maerts", "udp_stream")
_COMMON = (
    "THROUGHPUT", "ELAPSED_TIME", "LOCAL_SEND_THROUGHPUT", "LOCAL_RECV_THROUGHPUT", "REMOTE_SEND_THROUGHPUT",
    "REMOTE_RECV_THROUGHPUT", "LOCAL_SEND_SIZE", "LOCAL_RECV_SIZE", "REMOTE_SEND_SIZE", "REMOTE_RECV_SIZE",
    "LSS_SIZE", "LSS_SIZE_END", "LSR_SIZE", "LSR_SIZE_END", "RSS_SIZE", "RSS_SIZE_END", "RSR_SIZE", "RSR_SIZE_END",
    "TRANSPORT_MSS", "LOCAL_TRANSPORT_RETRANS", "REMOTE_TRANSPORT_RETRANS", "LOCAL_CONG_CONTROL",
    "REMOTE_CONG_CONTROL", "CONFIDENCE_LEVEL", "CONFIDENCE_INTERVAL", "CONFIDENCE_ITERATION", "THROUGHPUT_CONFID",
    "LOCAL_CPU_UTIL", "LOCAL_CPU_COUNT", "REMOTE_CPU_UTIL", "REMOTE_CPU_COUNT",
)  # fmt: skip
_TRANSACTIONS = (
    "TRANSACTION_RATE",
    "REQUEST_SIZE",
    "RESPONSE_SIZE",
    "MIN_LATENCY",
    "MEAN_LATENCY",
    "P50_LATENCY",
    "P90_LATENCY",
    "P99_LATENCY",
    "MAX_LATENCY",
    "STDDEV_LATENCY",
)
_LATENCIES = {
    "latency_mean": "MEAN_LATENCY",
    "latency_p50": "P50_LATENCY",
    "latency_p90": "P90_LATENCY",
    "latency_p99": "P99_LATENCY",
    "latency_max": "MAX_LATENCY",
}


class NetperfParameters(Parameters):
    """Parameters that a study may fix or vary. Absent values are left to the tool."""

    test: Literal["tcp_stream", "tcp_maerts", "udp_stream", "tcp_rr", "udp_rr", "tcp_crr"] = Field(
        "tcp_stream",
        description="streams (maerts: from the peer), request/response, connect/request/response",
    )
    duration_s: int = Field(7, ge=1, le=86400, description="whole seconds of one iteration")
    count: Size | None = Field(
        None,
        ge=1,
        le=10**12,
        description="transactions of a trial, or bytes of a stream, in place of a time",
    )
    message_size: Size | None = Field(
        None, ge=1, le=LARGEST_MESSAGE, description="bytes of one send, streams"
    )
    receive_size: Size | None = Field(
        None, ge=1, le=LARGEST_MESSAGE, description="bytes of one receive, streams"
    )
    socket_buffer: Size | None = Field(None, ge=1, description="requested local socket buffers")
    remote_socket_buffer: Size | None = Field(
        None, ge=1, description="remote ones; absent: as socket_buffer"
    )
    request_size: Size = Field(1, ge=1, le=LARGEST_MESSAGE, description="bytes of a request")
    response_size: Size = Field(
        1,
        ge=1,
        le=LARGEST_MESSAGE,
        description="bytes of a response; 'equal': as many as of the request",
    )
    no_delay: bool = Field(False, description="TCP_NODELAY on both ends")
    confidence_percent: Literal[95, 99] | None = Field(
        None,
        description="repeat iterations inside a trial until the interval is narrow (netperf's own rule)",
    )
    confidence_width_percent: float = Field(
        5, gt=0, le=100, description="target width of the interval, of the mean"
    )
    min_iterations: int = Field(3, ge=3, le=30, description="of a trial with confidence_percent")
    max_iterations: int = Field(10, ge=3, le=30, description="of a trial with confidence_percent")

    @property
    def is_datagram(self) -> bool:
        return self.test.startswith("udp")

    @model_validator(mode="before")
    @classmethod
    def _equal_sizes(cls, value: Any) -> Any:
        """Return the size of the request in place of `equal`: a cell's key holds the number."""
        if isinstance(value, dict) and value.get("response_size") == "equal":
            return {**value, "response_size": value.get("request_size", 1)}
        return value

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.test == "udp_stream":
            check_datagram("message_size", self.message_size)
            if self.confidence_percent is not None:
                raise ValueError(
                    "netperf's interval is of the sending rate, so udp_stream takes no confidence_percent"
                )
        if self.test == "udp_rr":
            check_datagram("request_size", self.request_size)
            check_datagram("response_size", self.response_size)
        if self.count is not None:
            self._check_count()
        if self.max_iterations < self.min_iterations:
            raise ValueError("max_iterations is below min_iterations")
        if self.test not in _STREAMS and (self.message_size or self.receive_size):
            raise ValueError(
                f"{self.test} has request_size and response_size, not message_size and receive_size"
            )
        return self

    def _check_count(self) -> None:
        if self.test == "udp_stream":
            raise ValueError(
                "netperf ends a udp_stream after a time, and not after a count of bytes"
            )
        if "duration_s" in self.model_fields_set or self.confidence_percent is not None:
            raise ValueError(
                "count takes the place of duration_s and confidence_percent: give one of them"
            )


@register_benchmark
class Netperf(NetworkPair):
    name = "netperf"
    title = "network streams and transactions (netperf)"
    tool = "netperf"
    Parameters = NetperfParameters
    work = Operations("transaction", "completed", time="µs")
    metrics: Sequence[Metric] = (
        Metric(
            "throughput",
            "Mbit/s",
            "higher",
            "throughput at the receiver",
            primary=True,
            fixed_work="count",
            over_flows="sum",
        ),
        Metric(
            "transactions",
            "1/s",
            "higher",
            "transactions, one at a time",
            primary=True,
            fixed_work="count",
            over_flows="sum",
        ),
        Metric("completed", "transactions", "higher", "transactions of a trial", over_flows="sum"),
        Metric(
            "sent", "Mbit/s", "higher", "rate at the sender", fixed_work="count", over_flows="sum"
        ),
        Metric(
            "transfer_rate",
            "Mbit/s",
            "higher",
            "transfer rate, one direction",
            fixed_work="count",
            over_flows="sum",
        ),
        Metric(
            "packets",
            "packets/s",
            "higher",
            "datagrams at the receiver, each in a packet of its own",
            fixed_work="count",
            over_flows="sum",
        ),
        Metric("retransmits", "segments", "lower", "TCP retransmits", over_flows="sum"),
        Metric("latency_mean", "us", "lower", "mean time of a transaction", per_unit=True),
        Metric(
            "latency_p50", "us", "lower", "median time of a transaction", tail=Tail("latency", 0.5)
        ),
        Metric("latency_p90", "us", "lower", "90th percentile", tail=Tail("latency", 0.9)),
        Metric("latency_p99", "us", "lower", "99th percentile", tail=Tail("latency", 0.99)),
        Metric("latency_max", "us", "lower", "longest transaction"),
        Metric(
            "cpu_local",
            "%",
            "lower",
            "busy CPUs of the client's kernel, of a container: of the whole host",
            is_aside=True,
        ),
        Metric(
            "cpu_remote",
            "%",
            "lower",
            "busy CPUs of the server's kernel, of a native peer: of the whole host",
            is_aside=True,
        ),
        CPU_PER_GIGABYTE,
    )
    version_argv = ("netperf", "-V")
    version_pattern = r"Netperf version (\S+)"

    def commands(self, parameters: NetperfParameters, context: Context) -> Sequence[Command]:
        p = parameters
        check_socket_buffer("socket_buffer", p.socket_buffer)
        check_socket_buffer("remote_socket_buffer", p.remote_socket_buffer)
        port = str(PORT + context.flow)
        length = str(
            p.duration_s if p.count is None else -p.count
        )  # netperf: a negative one is of transactions or bytes
        argv = [
            "netperf",
            "-H",
            context.peer_address,
            "-p",
            port,
            "-t",
            p.test.upper(),
            "-l",
            length,
        ]
        argv += ["-c", "-C"]
        if p.test in _STREAMS:
            argv += ["-f", "m"]
        if p.confidence_percent is not None:
            argv += ["-I", f"{p.confidence_percent},{p.confidence_width_percent:g}"]
            argv += [
                "-i",
                f"{p.max_iterations},{p.min_iterations}",
                "-r",
            ]  # -r: of the result, not of CPU as well
        server = Command(
            "server",
            ("netserver", "-D", "-p", port),
            place="peer",
            ready_port=PORT + context.flow,
            stays=True,
        )
        return server, Command("client", (*argv, "-P", "0", "--", *_test_options(p)))

    def counted(self, parameters: NetperfParameters) -> WorkParameter | None:
        if parameters.test == "udp_stream":
            return None
        return WorkParameter("count", least=_LEAST_BYTES if parameters.test in _STREAMS else 10)

    def expected_s(self, parameters: NetperfParameters, context: Context) -> float:
        p = parameters
        if p.count is not None and p.test in _STREAMS:
            return p.count * 8 / 1e6 / (context.link_mbit_s or _UNKNOWN_MBIT_S) + 0.1
        if p.count is not None:
            mbit = (p.request_size + p.response_size) * 8 / 1e6
            on_link_s = mbit / (context.link_mbit_s or _UNKNOWN_MBIT_S)
            return p.count * (_TRANSACTION_S + on_link_s) + 0.1
        iterations = 1.0
        if p.confidence_percent is not None:
            iterations = (p.min_iterations + p.max_iterations) / 2
        return p.duration_s * iterations + 0.1

    def parse(
        self, parameters: NetperfParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        p, client = parameters, results["client"]
        report = selectors(client.stdout)
        if client.status != 0 or "THROUGHPUT" not in report:
            raise BenchmarkError(
                f"netperf failed with {client.ended_with}: {own_message(client) or 'no output'}"
            )
        try:
            values_of = _stream_values if p.test in _STREAMS else _transaction_values
            values = values_of(report, p)
            values |= _packets(report, p, context)
            values |= _cpu_values(report)
            effective = _effective(report, context)
            warnings = [
                *_warnings(report, p),
                *congestion_warnings(effective, context),
                *_few_warnings(report, values),
            ]
        except (KeyError, ValueError) as error:
            raise BenchmarkError(f"netperf's output is not understood: {error}") from error
        for name in ("throughput", "sent"):
            if p.test != "udp_stream" or name == "throughput":
                elapsed_s = _elapsed_s(report) if p.count else p.duration_s
                check_link(values.get(name), context, elapsed_s)
        for size in (p.request_size, p.response_size) if "transactions" in values else ():
            measured_s = values["completed"] / values["transactions"]
            check_link(values["transactions"] * size * 8 / 1e6, context, measured_s)
        request_counts = {"latency": [values["completed"]]} if "completed" in values else {}
        return Outcome(values, effective, tuple(warnings), histograms=request_counts)


def _test_options(p: NetperfParameters) -> list[str]:
    """Return the options behind `--`.

    `-m` and `-M` take a pair of local and remote; with maerts the remote end sends.
    """
    options: list[str] = []
    if p.test in _STREAMS:
        side = "," if p.test == "tcp_maerts" else ""
        for flag, size in (("-m", p.message_size), ("-M", p.receive_size)):
            options += [flag, f"{side}{size}"] if size is not None else []
    else:
        options += ["-r", f"{p.request_size},{p.response_size}"]
    if p.socket_buffer is not None:
        options += ["-s", str(p.socket_buffer)]
    remote = p.remote_socket_buffer or p.socket_buffer
    if remote is not None:
        options += ["-S", str(remote)]
    if p.no_delay:
        options += ["-D", "L,R"]
    if p.test == "udp_stream":
        options += ["-R", "1"]
    return [*options, "-k", ",".join(_COMMON if p.test in _STREAMS else (*_COMMON, *_TRANSACTIONS))]


def selectors(output: str) -> dict[str, str]:
    """`NAME=value` lines of an omni output; other lines are left out."""
    return dict(re.findall(r"^([A-Z0-9_]+)=(.*)$", output, re.MULTILINE))


def _number(report: Mapping[str, str], name: str) -> float:
    return printed(report[name])


def _stream_values(report: Mapping[str, str], p: NetperfParameters) -> dict[str, float]:
    """Return the rates of a stream at its two ends.

    With netperf's own repetition, only THROUGHPUT is the mean over the iterations, and there is no rate of the sender.
    """
    sender, receiver = ("REMOTE", "LOCAL") if p.test == "tcp_maerts" else ("LOCAL", "REMOTE")
    selector = "THROUGHPUT" if p.confidence_percent is not None else f"{receiver}_RECV_THROUGHPUT"
    values = {"throughput": _number(report, selector)}
    if p.confidence_percent is None:
        values["sent"] = _number(report, f"{sender}_SEND_THROUGHPUT")
    if (retransmits := _number(report, f"{sender}_TRANSPORT_RETRANS")) >= 0:
        values["retransmits"] = retransmits
    return values


def _packets(report: Mapping[str, str], p: NetperfParameters, context: Context) -> dict[str, float]:
    """Return the rate of the datagrams that arrived, where each is a packet: the link's MTU is known, and it fits."""
    if p.test != "udp_stream" or context.mtu is None:
        return {}
    size = _number(report, "LOCAL_SEND_SIZE")
    if size + _IP_AND_UDP > context.mtu:
        return {}
    return {"packets": _number(report, "REMOTE_RECV_THROUGHPUT") * 1e6 / 8 / size}


def _transaction_values(report: Mapping[str, str], p: NetperfParameters) -> dict[str, float]:
    """Return rates, latencies and the number of transactions; see the module. Raises BenchmarkError where there are none."""
    values = {name: _number(report, selector) for name, selector in _LATENCIES.items()}
    rate = _number(report, "TRANSACTION_RATE")
    elapsed_s = _elapsed_s(report)
    transactions = p.count if p.count is not None else round(rate * elapsed_s)
    if rate <= 0:
        transactions = 0
    if not transactions:
        raise BenchmarkError(
            f"no transaction of {p.request_size} and {p.response_size} bytes was complete within "
            f"{elapsed_s:g} s: a longer duration_s, or a count"
        )
    _check_mean(values["latency_mean"], rate, elapsed_s, p)
    if p.confidence_percent is None:
        rate = 1e6 / values["latency_mean"]
    else:
        transactions *= round(_number(report, "CONFIDENCE_ITERATION"))
    return {
        "transactions": rate,
        "completed": transactions,
        "transfer_rate": rate * p.request_size * 8 / 1e6,
        **values,
    }


def _elapsed_s(report: Mapping[str, str]) -> float:
    """Return the seconds of the whole test, which netperf prints in hundredths."""
    return max(_number(report, "ELAPSED_TIME"), 0.01)


def _check_mean(mean_us: float, rate: float, elapsed_s: float, p: NetperfParameters) -> None:
    """Raise BenchmarkError for a mean time of a transaction that contradicts their rate: there is one at a time.

    One transaction may be under way at the end. Of repeated iterations the rate is the mean, and the time of the last.
    """
    room = _MEAN_ROOM if p.confidence_percent is None else _MEAN_ROOM_OF_ITERATIONS
    one_more = 1 + 1 / max(rate * elapsed_s, 1)
    at_most_us = 1e6 / rate * one_more * (1 + room)
    at_least_us = 1e6 / rate / one_more / (1 + room + _BEGIN_AND_END_S / elapsed_s)
    if not at_least_us <= mean_us <= at_most_us:
        raise BenchmarkError(
            f"netperf reports a mean of {mean_us:g} us for a transaction, and {rate:g} transactions a second, "
            f"{rate * elapsed_s:.0f} in {elapsed_s:g} s, one after the other: it is from {at_least_us:.6g} to "
            f"{at_most_us:.6g} us"
        )


def _few_warnings(report: Mapping[str, str], values: Mapping[str, float]) -> list[str]:
    """Return a warning for a rate of few transactions an iteration."""
    if "completed" not in values:
        return []
    transactions = values["completed"] / max(_number(report, "CONFIDENCE_ITERATION"), 1)
    if transactions >= FEWEST_TRANSACTIONS:
        return []
    return [Note("few-transactions", found=round(transactions), minimum=FEWEST_TRANSACTIONS)]


def _cpu_values(report: Mapping[str, str]) -> dict[str, float]:
    """Percent busy at both ends, as far as netperf could find it out: -1 means that it could not."""
    names = {"cpu_local": "LOCAL_CPU_UTIL", "cpu_remote": "REMOTE_CPU_UTIL"}
    percents = {
        name: _number(report, selector) for name, selector in names.items() if selector in report
    }
    return {name: value for name, value in percents.items() if value != -1}


def _effective(report: Mapping[str, str], context: Context) -> dict[str, Any]:
    names = {
        "local_send_size": "LOCAL_SEND_SIZE",
        "remote_send_size": "REMOTE_SEND_SIZE",
        "local_receive_size": "LOCAL_RECV_SIZE",
        "remote_receive_size": "REMOTE_RECV_SIZE",
        "local_send_buffer": "LSS_SIZE_END",
        "local_receive_buffer": "LSR_SIZE_END",
        "remote_send_buffer": "RSS_SIZE_END",
        "remote_receive_buffer": "RSR_SIZE_END",
        "request_size": "REQUEST_SIZE",
        "response_size": "RESPONSE_SIZE",
        "mss": "TRANSPORT_MSS",
        "iterations": "CONFIDENCE_ITERATION",
        "local_cpus": "LOCAL_CPU_COUNT",
        "remote_cpus": "REMOTE_CPU_COUNT",
    }
    effective: dict[str, Any] = {
        name: int(report[key]) for name, key in names.items() if key in report
    }
    effective = {name: value for name, value in effective.items() if value > 0}
    if "mss" in effective:
        effective["mss"] = reported_mss(effective["mss"], None, context)
    if report.get("LOCAL_CONG_CONTROL"):
        effective |= {
            "congestion": report["LOCAL_CONG_CONTROL"],
            "peer_congestion": report["REMOTE_CONG_CONTROL"],
        }
    if _number(report, "CONFIDENCE_LEVEL") > 0:
        effective["confidence_width_percent"] = _number(report, "THROUGHPUT_CONFID")
    return effective


def _warnings(report: Mapping[str, str], p: NetperfParameters) -> list[str]:
    remote = p.remote_socket_buffer or p.socket_buffer
    warnings = []
    for place, requested, letter in (("local", p.socket_buffer, "L"), ("remote", remote, "R")):
        sizes = (int(report[f"{letter}SS_SIZE"]), int(report[f"{letter}SR_SIZE"]))
        warnings += window_warnings(requested, *sizes, end=place)
    if (
        p.confidence_percent is not None
        and (width := _number(report, "THROUGHPUT_CONFID")) > p.confidence_width_percent
    ):
        percents = {
            "percent": p.confidence_percent,
            "requested": p.confidence_width_percent,
            "found": width,
        }
        warnings.append(
            Note("confidence-missed", iterations=report["CONFIDENCE_ITERATION"], **percents)
        )
    return warnings
