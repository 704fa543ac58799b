"""Shared by the network tools: limits known before a run, and what is impossible or was not granted after one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from vtax.benchmarks.base import SHORTEST_S, Context, Metric, Parameters
from vtax.errors import BadInput, BenchmarkError
from vtax.messages import Note
from vtax.network.wire import burst_bytes
from vtax.study.fields import Size

LARGEST_DATAGRAM = 65507
"""Bytes of UDP payload in the largest IPv4 packet: 65535 - 20 (RFC 791) - 8 (RFC 768)."""
NOT_REPORTED = "not reported"
"""Stands among the settings used for one that neither the tool nor its kernel reports, or reports wrongly."""
FASTEST_MBIT_S = 1e6
"""Above every NIC there is."""
_MIN_RATE_SHARE = 0.95  # of the requested UDP rate; below it the sender did not keep up
_IP_AND_TCP = 40  # bytes of both headers without options (RFC 9293, section 3.7.1)
_TIMESTAMPS = 12  # bytes of the TCP option that most kernels send (RFC 7323)
_DEFAULT_MSS = 536  # RFC 9293, section 3.7.1
_LINK_ROOM = 1.02  # for the tools' own clocks, besides the burst that a token bucket lets through at the start
_BUFFER_LIMITS = (Path("/proc/sys/net/core/wmem_max"), Path("/proc/sys/net/core/rmem_max"))


THROUGHPUTS = (
    Metric(
        "throughput",
        "Mbit/s",
        "higher",
        "throughput at the receiver",
        primary=True,
        over_flows="sum",
    ),
    Metric("sent", "Mbit/s", "higher", "rate at the sender", over_flows="sum"),
    Metric(
        "throughput_send", "Mbit/s", "higher", "guest to peer, at the receiver", over_flows="sum"
    ),
    Metric(
        "throughput_receive", "Mbit/s", "higher", "peer to guest, at the receiver", over_flows="sum"
    ),
)


class ThroughputParameters(Parameters):
    """Parameters that a study may fix or vary. Absent values are left to the tool."""

    direction: Literal["send", "receive", "both"] = Field("send", description="what the guest does")
    protocol: Literal["tcp", "udp"] = Field("tcp", description="transport protocol")
    duration_s: float = Field(10, ge=SHORTEST_S, le=86400, description="seconds measured")
    parallel: int = Field(1, ge=1, le=128, description="parallel streams")
    length: Size | None = Field(
        None, ge=1, le=1024**2, description="bytes of one write, or of one UDP datagram"
    )
    window: Size | None = Field(None, ge=1, description="requested socket buffer at both ends")
    mss: int | None = Field(
        None,
        ge=88,
        le=32767,
        description="TCP maximum segment size",
        json_schema_extra={"unit": "bytes"},
    )
    no_delay: bool = Field(
        False, description="TCP_NODELAY at the sender: a small write is not kept for the next one"
    )
    rate_mbit_s: float = Field(
        0, ge=0, le=FASTEST_MBIT_S, description="target rate per stream; 0 is as fast as it goes"
    )

    @model_validator(mode="after")
    def _fits_its_protocol(self) -> Self:
        if self.protocol == "udp":
            check_datagram("length", self.length)
            if self.mss is not None:
                raise ValueError("mss belongs to tcp, and protocol is udp")
            if self.no_delay:
                raise ValueError("no_delay belongs to tcp, and protocol is udp")
        return self


def worst(values: Sequence[float]) -> float:
    """Return the largest of values of several streams or directions; no number is the worst.

    None at all, where nothing arrived, are no number either.
    """
    if not values or any(math.isnan(value) for value in values):
        return math.nan
    return max(values)


def check_datagram(name: str, size: int | None) -> None:
    """Raise ValueError when a message does not fit a UDP datagram."""
    if size is not None and size > LARGEST_DATAGRAM:
        raise ValueError(
            f"{name} {size} is more than a UDP datagram holds ({LARGEST_DATAGRAM} bytes)"
        )


def check_socket_buffer(name: str, size: int | None) -> None:
    """Raise BadInput when the host's kernel would silently reduce the requested buffer.

    Guests that share the host's kernel have its limit, and guests with their own kernel are given the same one.
    """
    for path in _BUFFER_LIMITS if size is not None else ():
        limit = int(path.read_text()) if path.exists() else size
        if size is not None and limit is not None and size > limit:
            key = f"net.core.{path.name}"
            raise BadInput(
                f"{name} {size} is above this host's {key} ({limit} bytes)",
                hint=f"sysctl -w {key}={size} (as root, until the next boot), or request at most {limit}",
            )


def window_warnings(
    requested: int | None, send: int | None, receive: int | None, end: str = ""
) -> list[str]:
    """Warnings when the effective socket buffer is not the requested one. end: where, of several.

    It doubles every request, after capping it (socket(7)): one reported as asked was capped to half.
    """
    warnings = list[str]()
    for side, effective in (("send", send), ("receive", receive)):
        if requested is not None and effective is not None and effective != 2 * requested:
            name = " ".join(filter(None, (end, side, "buffer")))
            warnings.append(
                Note("buffer-not-as-requested", name=name, requested=requested, found=effective)
            )
    return warnings


def reported_mss(mss: int | None, requested: int | None, context: Context) -> int | str | None:
    """Return the maximum segment size that a kernel reported, or NOT_REPORTED where it cannot be true.

    gVisor answers TCP_MAXSEG with the protocol's default, 536, whatever it uses.
    """
    if mss is None or context.mtu is None:
        return mss
    maximum = context.mtu - _IP_AND_TCP
    is_the_default = mss == _DEFAULT_MSS != requested and mss < maximum - _TIMESTAMPS
    return NOT_REPORTED if mss > maximum or is_the_default else mss


def congestion_warnings(effective: Mapping[str, Any], context: Context) -> list[str]:
    """Warnings for every end whose effective TCP congestion control is not the requested one."""
    control_by_name = {
        name: control for name, control in effective.items() if name.endswith("congestion")
    }
    requested = context.congestion
    return [
        Note("not-as-requested", name=name, requested=requested, found=control)
        for name, control in control_by_name.items()
        if requested not in ("", control)
    ]


def rate_warnings(requested_mbit_s: float, sent_mbit_s: Mapping[str, float]) -> list[str]:
    """Warnings for a UDP sender below the requested rate (0: none). sent_mbit_s: by direction."""
    return [
        Note("sender-slower", requested=requested_mbit_s, direction=direction, found=mbit_s)
        for direction, mbit_s in sent_mbit_s.items()
        if mbit_s < _MIN_RATE_SHARE * requested_mbit_s
    ]


def check_link(mbit_s: float | None, context: Context, duration_s: float) -> None:
    """Raise BenchmarkError for a rate that the link cannot carry.

    mbit_s: the rate; None for one that is not known.
    duration_s: how long it was measured. In a short time, what a link lets through at once counts more.
    """
    limit = context.link_mbit_s
    if mbit_s is None or limit is None:
        return
    burst_mbit_s = burst_bytes(limit, context.mtu or 0) * 8 / 1e6 / duration_s
    if mbit_s > limit * _LINK_ROOM + burst_mbit_s:
        raise BenchmarkError(
            f"{mbit_s:.1f} Mbit/s over a link of {limit:g} Mbit/s is impossible: the traffic did not take the link, "
            "or a clock is wrong"
        )
