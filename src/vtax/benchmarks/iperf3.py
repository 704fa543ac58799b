"""iperf3: TCP and UDP throughput between the guest and its peer, in either direction or both at once.

The server runs on the peer, the client in the guest, and `direction` is what the guest does. Rates are taken where
they belong: what was sent at the sender, what arrived at the receiver; the receiver's is the result.

It does not measure the delay of messages. Its trap is that segments of 64 KiB cross a virtual interface whole when
offloads are on: the figure then shows little of what a packet costs, and an MTU has no effect.

It measures whole seconds: netperf and iperf 2 take short trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from vtax.benchmarks.base import (
    CPU_PER_GIGABYTE,
    INTERVAL_S,
    INTERVALS,
    MAX_SAMPLES,
    Command,
    Context,
    Metric,
    NetworkPair,
    Outcome,
    Role,
    register_benchmark,
)
from vtax.benchmarks.json_report import lines_of_errors, read_report
from vtax.benchmarks.network import (
    NOT_REPORTED,
    THROUGHPUTS,
    ThroughputParameters,
    check_link,
    check_socket_buffer,
    congestion_warnings,
    rate_warnings,
    reported_mss,
    window_warnings,
    worst,
)
from vtax.benchmarks.words import lines_of, shortened
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note, quoted

PORT = 5201
_MEGA = 1e6
_INTERVAL_S = 0.1, 60.0  # shortest and longest that iperf3 reports


class Iperf3Parameters(ThroughputParameters):
    """Parameters that a study may fix or vary."""

    duration_s: int = Field(7, ge=1, le=86400, description="whole seconds measured")
    no_delay: bool = Field(
        False, description="TCP_NODELAY at both ends: a small write is not kept for the next one"
    )
    omit_s: int = Field(
        0, ge=0, le=60, description="seconds before them that are not counted (TCP slow start)"
    )


@register_benchmark
class Iperf3(NetworkPair):
    name = "iperf3"
    title = "network throughput (iperf3)"
    tool = "iperf3"
    Parameters = Iperf3Parameters
    work = None  # CPU_PER_GIGABYTE is the cost of what it moves
    metrics: Sequence[Metric] = (
        *THROUGHPUTS,
        Metric("retransmits", "segments", "lower", "TCP retransmits", over_flows="sum"),
        Metric("loss", "%", "lower", "UDP datagram loss"),
        Metric("jitter", "ms", "lower", "UDP jitter (RFC 1889)"),
        Metric(
            "cpu_guest",
            "%",
            "lower",
            "CPU of the tool in the guest, of one CPU",
            most="cpus",
            is_aside=True,
        ),
        Metric(
            "cpu_peer",
            "%",
            "lower",
            "CPU of the tool on the peer, of one CPU",
            most="cpus",
            is_aside=True,
        ),
        CPU_PER_GIGABYTE,
    )
    version_argv = ("iperf3", "--version")
    version_pattern = r"^iperf (\S+)"

    def commands(self, parameters: Iperf3Parameters, context: Context) -> Sequence[Command]:
        p = parameters
        check_socket_buffer("window", p.window)
        port = PORT + context.flow
        client = ["iperf3", "-c", context.peer_address, "-p", str(port)]
        client += ["-J", "-t", str(p.duration_s), "-i", f"{_interval_s(p):g}"]
        if p.omit_s:
            client += ["-O", str(p.omit_s)]
        if p.parallel > 1:
            client += ["-P", str(p.parallel)]
        for flag, value in (("-l", p.length), ("-w", p.window), ("-M", p.mss)):
            if value is not None:
                client += [flag, str(value)]
        if p.protocol == "udp" or p.rate_mbit_s:
            client += ["-b", str(round(p.rate_mbit_s * _MEGA))]
        if p.no_delay:
            client.append("-N")
        if p.protocol == "udp":
            client.append("-u")
        client += {"send": [], "receive": ["-R"], "both": ["--bidir"]}[p.direction]
        serve = ("iperf3", "-s", "-p", str(port))
        return (
            Command("server", serve, place="peer", ready_port=port),
            Command("client", tuple(client)),
        )

    def expected_s(self, parameters: Iperf3Parameters, context: Context) -> float:
        return parameters.duration_s + parameters.omit_s + 0.3

    def parse(
        self, parameters: Iperf3Parameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        report, words = _report(results["client"])
        end = report["end"]
        try:
            values = _rates(end, parameters)
            cpu = end["cpu_utilization_percent"]
            values |= {"cpu_guest": cpu["host_total"], "cpu_peer": cpu["remote_total"]}
            effective = _effective(report, parameters, context)
            samples = _samples(report["intervals"], parameters)
            warnings = [*map(quoted, words), *_warnings(effective, parameters, context)]
            if parameters.protocol == "udp":
                requested = parameters.rate_mbit_s * parameters.parallel
                warnings += rate_warnings(requested, _sent_rates(end, parameters))
        except (KeyError, IndexError, TypeError) as error:
            raise BenchmarkError(
                f"iperf3's report lacks {error}; its format is not known to vtax"
            ) from error
        for direction in ("send", "receive"):
            check_link(values.get(f"throughput_{direction}"), context, parameters.duration_s)
        if samples:
            effective[INTERVAL_S] = _interval_s(parameters)
        return Outcome(values, effective, tuple(warnings), samples)


def _interval_s(p: Iperf3Parameters) -> float:
    return min(max(p.duration_s / INTERVALS, _INTERVAL_S[0]), _INTERVAL_S[1])


def _report(client: CommandResult) -> tuple[dict[str, Any], Sequence[str]]:
    """Return the report, and what else iperf3 said."""
    output = read_report("iperf3", client, "end")
    report = output.content
    words = [*output.words, *lines_of(client.stderr)]
    errors = list(lines_of_errors(words, "iperf3"))
    if report.get("error"):
        errors.insert(0, report["error"])
    if errors or client.status != 0:
        message = shortened("; ".join(map(str, errors or words)))
        raise BenchmarkError(f"iperf3 failed with {client.ended_with}: {message or 'no message'}")
    if not isinstance(report.get("end"), dict) or not isinstance(report.get("start"), dict):
        raise BenchmarkError(
            "iperf3's report has no start and end; its format is not known to vtax"
        )
    return report, [shortened(word) for word in words]


def _sums(p: Iperf3Parameters) -> dict[str, str]:
    """Return how the report's sums of each direction end.

    With `both` the plain ones are those of the guest's sending.
    """
    return {"send": "", "receive": "_bidir_reverse"} if p.direction == "both" else {p.direction: ""}


def _sent_rates(end: Mapping[str, Any], p: Iperf3Parameters) -> dict[str, float]:
    """Return the Mbit/s at the sender, by direction."""
    rates = {}
    for direction, suffix in _sums(p).items():
        rates[direction] = end[f"sum_sent{suffix}"]["bits_per_second"] / _MEGA
    return rates


def _rates(end: Mapping[str, Any], p: Iperf3Parameters) -> dict[str, float]:
    """Return the rates by direction, in Mbit/s."""
    values: dict[str, float] = {"throughput": 0.0, "sent": 0.0}
    losses: list[float] = []
    jitters: list[float] = []
    for direction, suffix in _sums(p).items():
        sent_sum, received_sum = end[f"sum_sent{suffix}"], end[f"sum_received{suffix}"]
        rate = received_sum["bits_per_second"] / _MEGA
        values[f"throughput_{direction}"] = rate
        values["throughput"] += rate
        values["sent"] += sent_sum["bits_per_second"] / _MEGA
        if p.protocol == "tcp" and "retransmits" in sent_sum:
            values["retransmits"] = values.get("retransmits", 0) + sent_sum["retransmits"]
        if p.protocol == "udp":
            losses.append(received_sum["lost_percent"])
            jitters.append(received_sum["jitter_ms"])
    if p.protocol == "udp":
        values |= {"loss": worst(losses), "jitter": worst(jitters)}
    return values


def _samples(intervals: Sequence[Mapping[str, Any]], p: Iperf3Parameters) -> dict[str, list[float]]:
    """Return the throughput of the intervals in Mbit/s, without omitted ones and without a remainder at either end.

    The client's report has the sender's intervals of what the guest sends. TCP takes no more than the receiver does,
    but for its buffers; UDP does, so what arrived of it in an interval is not known and there are no samples. A
    trial above ten hours has more intervals than are kept: no samples either.
    """
    if p.protocol == "udp" and p.direction != "receive":
        return {}
    names = ("sum", "sum_bidir_reverse") if p.direction == "both" else ("sum",)
    measured_intervals = _measured_intervals(intervals, names)
    longest_s = max((interval["sum"]["seconds"] for interval in measured_intervals), default=0.0)
    rates = []
    for interval in measured_intervals:
        if interval["sum"]["seconds"] >= longest_s / 2:
            rates.append(sum(interval[name]["bits_per_second"] for name in names) / _MEGA)
    return {"throughput": rates} if 2 <= len(rates) <= MAX_SAMPLES else {}


def _measured_intervals(
    intervals: Sequence[Mapping[str, Any]], names: Sequence[str] = ("sum",)
) -> list[Mapping[str, Any]]:
    """Return the intervals of the time measured: those before it are marked as omitted."""
    kept_intervals = []
    for interval in intervals:
        if all(name in interval and not interval[name]["omitted"] for name in names):
            kept_intervals.append(interval)
    return kept_intervals


def _effective(report: Mapping[str, Any], p: Iperf3Parameters, context: Context) -> dict[str, Any]:
    start, end = report["start"], report["end"]
    effective: dict[str, Any] = {
        "protocol": start["test_start"]["protocol"].lower(),
        "length": start["test_start"]["blksize"],
        "streams": start["test_start"]["num_streams"],
        "send_buffer": start.get("sndbuf_actual"),
        "receive_buffer": start.get("rcvbuf_actual"),
        "mss": reported_mss(start.get("tcp_mss", start.get("tcp_mss_default")), p.mss, context),
        "congestion": end.get("sender_tcp_congestion"),
        "receiver_congestion": end.get("receiver_tcp_congestion"),
    }
    measured_intervals = _measured_intervals(report["intervals"])
    rates = [interval["sum"]["bits_per_second"] / _MEGA for interval in measured_intervals]
    if rates:
        effective["interval_min_mbit_s"] = min(rates)
        effective["interval_max_mbit_s"] = max(rates)
    rtts_us = [stream.get("sender", {}).get("mean_rtt") for stream in end["streams"]]
    rtts_us = [rtt_us for rtt_us in rtts_us if rtt_us]
    if rtts_us:
        effective["mean_rtt_us"] = sum(rtts_us) / len(rtts_us)
    return {name: value for name, value in effective.items() if value is not None}


def _warnings(effective: Mapping[str, Any], p: Iperf3Parameters, context: Context) -> list[str]:
    warnings = window_warnings(
        p.window, effective.get("send_buffer"), effective.get("receive_buffer")
    )
    for name in ("length", "mss"):
        requested, value = getattr(p, name), effective.get(name)
        if requested is not None and value not in (None, NOT_REPORTED, requested):
            warnings.append(Note("not-as-requested", name=name, requested=requested, found=value))
    return [*warnings, *congestion_warnings(effective, context)]
