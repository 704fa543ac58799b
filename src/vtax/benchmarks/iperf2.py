"""iperf 2: the tool of the older studies. Rates are taken from the report of the end that they belong to.

Both programs write their reports as comma-separated values: nine fields for TCP, fourteen for UDP, one line for
each stream and direction. What was sent is in the sender's report, what arrived in the receiver's. These reports do
not say which socket buffers, segment size and congestion control the kernel used (the other format does of buffers,
in rounded numbers, but has no exact rates); the other tools do.

It does not measure single messages or their delay. Its trap is UDP: the sender's own rate is not what arrived, and
the rate that is asked for (`rate`), not the layer, may be the limit.

A short trial also holds the slow start of TCP, and what was under way at its end is sent after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import Field, model_validator

from vtax.benchmarks.base import (
    CPU_PER_GIGABYTE,
    Command,
    Context,
    Metric,
    NetworkPair,
    Outcome,
    Role,
    register_benchmark,
)
from vtax.benchmarks.network import (
    FASTEST_MBIT_S,
    NOT_REPORTED,
    THROUGHPUTS,
    ThroughputParameters,
    check_link,
    check_socket_buffer,
    rate_warnings,
    worst,
)
from vtax.benchmarks.words import own_message
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

PORT = 5001
_NO_RATE_LIMIT = "100g"
_UDP_SERVER_START_S = "0.5"  # a UDP server cannot be seen to listen from outside


class Iperf2Parameters(ThroughputParameters):
    """Parameters that a study may fix or vary."""

    rate_mbit_s: float = Field(
        0,
        ge=0,
        le=FASTEST_MBIT_S,
        description="UDP target rate per stream; 0 is as fast as it goes",
    )

    @model_validator(mode="after")
    def _rate_is_of_udp(self) -> Self:
        if self.protocol == "tcp" and self.rate_mbit_s:
            raise ValueError("rate_mbit_s belongs to udp, and protocol is tcp")
        return self


@dataclass(frozen=True)
class ReportLine:
    """One report of one stream. from_peer: the server's end sent it. jitter_ms, loss_percent: UDP receivers only."""

    from_peer: bool
    mbit_s: float
    jitter_ms: float | None = None
    loss_percent: float | None = None


@register_benchmark
class Iperf2(NetworkPair):
    name = "iperf2"
    title = "network throughput (iperf 2)"
    tool = "iperf"
    Parameters = Iperf2Parameters
    work = None  # CPU_PER_GIGABYTE is the cost of what it moves
    metrics: Sequence[Metric] = (
        *THROUGHPUTS,
        Metric("loss", "%", "lower", "UDP datagram loss"),
        Metric("jitter", "ms", "lower", "UDP jitter (RFC 1889)"),
        CPU_PER_GIGABYTE,
    )
    version_argv = ("iperf", "-v")
    version_pattern = r"iperf version (\S+)"

    def commands(self, parameters: Iperf2Parameters, context: Context) -> Sequence[Command]:
        p, udp = parameters, parameters.protocol == "udp"
        check_socket_buffer("window", p.window)
        port = PORT + context.flow
        common_options = ["-p", str(port), "-y", "C"]
        if udp:
            common_options.append("-u")
        for flag, value in (("-w", p.window), ("-M", p.mss)):
            if value is not None:
                common_options += [flag, str(value)]
        length = ["-l", str(p.length)] if p.length is not None else []
        client = ["iperf", "-c", context.peer_address, *common_options, *length]
        client += ["-t", f"{p.duration_s:g}", "-P", str(p.parallel)]
        if p.no_delay:
            client.append("-N")
        client += {"send": [], "receive": ["-R"], "both": ["--full-duplex"]}[p.direction]
        if udp:
            client += ["-b", f"{p.rate_mbit_s:g}m" if p.rate_mbit_s else _NO_RATE_LIMIT]
        # A TCP server learns the length of its own writes from the client. With a -l below iperf's header
        # it would end (iperf 2.1.8: "read tcp header too large").
        # A UDP server that is not bound answers from the address of its route, which the client's socket refuses
        # where that is another than it sent to (guest-to-host behind translation).
        serving = ["iperf", "-s", *common_options]
        if not udp:
            server = Command("server", tuple(serving), place="peer", ready_port=port)
            return server, Command("client", tuple(client))
        serving += [*length, "-B", context.peer_address]
        wait = ("sleep", _UDP_SERVER_START_S)
        server = Command("server", tuple(serving), place="peer")
        return server, Command("client", tuple(client), before=(wait,))

    def expected_s(self, parameters: Iperf2Parameters, context: Context) -> float:
        return parameters.duration_s + 0.7

    def parse(
        self, parameters: Iperf2Parameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        p, port = parameters, PORT + context.flow
        client, server = (list(lines(results[role].stdout, port)) for role in ("client", "server"))
        values: dict[str, float] = {"throughput": 0.0}
        rates_sent: dict[str, float] = {}
        jitters: list[float] = []
        losses: list[float] = []
        for direction in ("send", "receive") if p.direction == "both" else (p.direction,):
            sender, receiver = (client, server) if direction == "send" else (server, client)
            sender_lines = [line for line in sender if line.from_peer == (direction == "receive")]
            receiver_lines = [
                line for line in receiver if line.from_peer == (direction == "receive")
            ]
            if len(sender_lines) != p.parallel or len(receiver_lines) != p.parallel:
                raise BenchmarkError(
                    f"iperf reported {len(sender_lines)} streams at the sender and {len(receiver_lines)} at the receiver, "
                    f"not {p.parallel}: {_messages(results)}"
                )
            rate = sum(line.mbit_s for line in receiver_lines)
            check_link(rate, context, p.duration_s)
            values[f"throughput_{direction}"] = rate
            values["throughput"] += rate
            rates_sent[direction] = sum(line.mbit_s for line in sender_lines)
            jitters += [line.jitter_ms for line in receiver_lines if line.jitter_ms is not None]
            losses += [
                line.loss_percent for line in receiver_lines if line.loss_percent is not None
            ]
        if p.protocol == "udp":
            values |= {"jitter": worst(jitters), "loss": worst(losses)}
        values["sent"] = sum(rates_sent.values())
        effective = {
            "streams": p.parallel,
            "send_buffer": NOT_REPORTED,
            "receive_buffer": NOT_REPORTED,
        }
        if p.protocol == "tcp":
            effective |= {"mss": NOT_REPORTED, "congestion": NOT_REPORTED}
        return Outcome(
            values, effective, tuple(rate_warnings(p.rate_mbit_s * p.parallel, rates_sent))
        )


def lines(report: str, port: int) -> Iterable[ReportLine]:
    """Yield the reports of single streams. Sums (identifier -1), headers and everything else are left out.

    port: of the server; the end that has it as its own is the peer, whatever its address looks like from here.
    """
    for text in report.splitlines():
        if text.count(",") not in (8, 13):
            continue
        fields = text.split(",")
        if not fields[5].isdigit() or not fields[8].isdigit():
            continue
        from_peer = fields[2] == str(port)
        mbit_s = int(fields[8]) / 1e6
        is_receiver = len(fields) == 14 and int(fields[11]) >= 0
        if is_receiver:
            yield ReportLine(from_peer, mbit_s, float(fields[9]), float(fields[12]))
        else:
            yield ReportLine(from_peer, mbit_s)


def _messages(results: Mapping[Role, CommandResult]) -> str:
    return "; ".join(filter(None, map(own_message, results.values()))) or "no output"
