"""Queueing disciplines that make a link behave as a wire, and what a wire of a rate carries.

A wire sends one bit after another: a frame needs its length over the rate, and who waits for an answer loses it.
tc-netem(8) does so, and delays and loses packets. A kernel without it has tc-tbf(8), a bucket of tokens, which
lets a burst through at once and only then limits the rate. A bucket of one frame is near a wire for messages of
several frames up to 100 Mbit/s; above, the kernel's timer would cost more than the rate, and the bucket holds what
flows between two ticks. What a link is stands beside its figures, and a trial that exchanges more messages than one
of its rate carries says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from vtax.errors import BadInput, NetworkError
from vtax.foreign_data import parse_json
from vtax.host.process import find_program, run
from vtax.messages import Note
from vtax.network.settings import LinkSettings

MODULE = "sch_netem"
TOLERANCE = 0.05
"""By which a ping-pong may be faster than the wire: it says what a clock and a header more or less can do."""
ONE_FRAME_MBIT_S = 100.0
"""Fastest link with a bucket of one frame; measured, see docs/network.md."""
_SHAPED = ("rate_mbit_s", "delay_us", "jitter_us", "loss")
_SYMBOLS = Path("/proc/kallsyms")
_TICK_S = 0.004  # the coarsest kernel timer in use (HZ=250): a token bucket must hold what flows between two ticks
_QUEUE_S = 0.05  # longest a packet waits in a rate limiter, as in tc-tbf(8)'s own example
_QUEUE_FRAMES = 16  # that it holds at least: a message of 8 KiB in fragments
_FRAME = 18  # bytes of an Ethernet frame beside its IP packet: header (IEEE 802.3) and a VLAN tag (IEEE 802.1Q)
_IP_AND_TCP = 52  # bytes of both headers, with time stamps
_UDP_HEADER = 8
_OF_A_FRAGMENT, _OF_A_SEGMENT = (
    58,
    90,
)  # bytes beside payload: headers of IP (and TCP) and Ethernet, preamble, gap
_SHORTEST_FRAME = 84  # bytes on the wire, with preamble and gap


@cache
def has_netem() -> bool:
    """Whether this host's kernel has netem, built in or as a module that modprobe(8) finds. Loads nothing."""
    try:
        with _SYMBOLS.open() as symbols:
            if any(line.split()[2] == "netem_enqueue" for line in symbols):
                return True
    except OSError:
        pass
    if find_program("modprobe") is None:
        return False
    return run(["modprobe", "--dry-run", "--quiet", MODULE], check=False).status == 0


def check_wire(settings: LinkSettings) -> None:
    """Raise BadInput for link settings that need netem where this host's kernel lacks it."""
    wanted = [name for name in _SHAPED[1:] if getattr(settings, name)]
    if wanted and not has_netem():
        raise BadInput(
            f"link setting {wanted[0]}: this host's kernel has no module {MODULE} (netem)",
            hint=f"take {' and '.join(wanted)} out, or boot a kernel with {MODULE}; those of Debian have it",
        )


def is_shaped(settings: LinkSettings) -> bool:
    """Whether a link is anything else than as fast as the kernel."""
    return any(getattr(settings, name) for name in _SHAPED)


def queueing(settings: LinkSettings) -> list[str]:
    """Return the queueing discipline of one direction of a shaped link, as words of tc(8)."""
    rate = (
        [] if settings.rate_mbit_s is None else ["rate", f"{round(settings.rate_mbit_s * 1e6)}bit"]
    )
    if has_netem():
        words = ["netem", "limit", str(_queue_packets(settings))]
        if settings.delay_us:
            words += [
                "delay",
                f"{settings.delay_us:g}us",
                *([f"{settings.jitter_us:g}us"] * bool(settings.jitter_us)),
            ]
        return [*words, *(["loss", f"{settings.loss:g}%"] if settings.loss else []), *rate]
    assert settings.rate_mbit_s is not None  # nothing else is granted without netem
    burst = burst_bytes(settings.rate_mbit_s, settings.mtu)
    queue = max(
        round(settings.rate_mbit_s * 1e6 / 8 * _QUEUE_S),
        2 * burst,
        _QUEUE_FRAMES * (settings.mtu + _FRAME),
    )
    return ["tbf", *rate, "burst", str(burst), "limit", str(queue)]


def _queue_packets(settings: LinkSettings) -> int:
    """Return the packets that netem holds: sent in the delay of a link, with a limit in the wait for it, too."""
    seconds = (settings.delay_us + settings.jitter_us) / 1e6 + _QUEUE_S
    mbit_s = settings.rate_mbit_s or 10_000.0
    return max(1000, math.ceil(mbit_s * 1e6 / 8 * seconds / (settings.mtu + _FRAME)))


def burst_bytes(rate_mbit_s: float, mtu: int) -> int:
    """Return the bytes that a token bucket lets through at once, on top of its rate."""
    frame = mtu + _FRAME
    if rate_mbit_s <= ONE_FRAME_MBIT_S:
        return frame
    return max(round(rate_mbit_s * 1e6 / 8 * _TICK_S), 2 * frame)


def read_queueing(tc_json: str) -> dict[str, float | str]:
    """Return the settings of `tc -j qdisc show dev DEV root`, by their names in LinkSettings, and `kind`.

    Of another discipline than these two its kind alone. Raises NetworkError for an output of another form.
    """
    try:
        (found,) = parse_json(tc_json)
        kind, options = str(found["kind"]), found.get("options", {})
        if kind == "tbf":
            return {
                "kind": kind,
                "rate_mbit_s": options["rate"] * 8 / 1e6,
                "burst": options["burst"],
            }
        if kind != "netem":
            return {"kind": kind}
        delay, rate = options.get("delay", {}), options.get("rate", {}).get("rate", 0)
        return {
            "kind": kind,
            "rate_mbit_s": rate * 8 / 1e6,
            "delay_us": delay.get("delay", 0) * 1e6,
            "jitter_us": delay.get("jitter", 0) * 1e6,
            "loss": options.get("loss-random", {}).get("loss", 0) * 100,
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NetworkError(
            f"tc printed no queueing discipline that is understood: {tc_json[:200]}"
        ) from error


def differences(settings: LinkSettings, shaped: Mapping[str, float | str]) -> list[str]:
    """Return what of a direction of a shaped link is not as requested, to one part in a hundred."""
    if not is_shaped(settings):
        return []
    wanted = {name: getattr(settings, name) or 0.0 for name in _SHAPED}
    wanted = {name: value for name, value in wanted.items() if name in shaped or value}
    return [
        f"{name}: requested {value:g}, effective {shaped.get(name, 'not set')}"
        for name, value in wanted.items()
        if not math.isclose(value, float(shaped.get(name, -1)), rel_tol=0.01, abs_tol=1e-6)
    ]


def echo_s(settings: LinkSettings, payload_bytes: int) -> float:
    """Seconds that an ICMP message of so many bytes needs there and back, at least, on a wire with these settings.

    Fragments have 38 bytes beside what they carry: IP, Ethernet's header and its checksum. Of a delay that varies the
    least.
    """
    fragments = math.ceil((payload_bytes + 8) / ((settings.mtu - 20) // 8 * 8))
    bits = (payload_bytes + 8 + 38 * fragments) * 8
    one_way_s = (settings.delay_us - settings.jitter_us) / 1e6
    return 2 * (one_way_s + (bits / (settings.rate_mbit_s * 1e6) if settings.rate_mbit_s else 0))


def transactions_per_s(
    rate_mbit_s: float, mtu: int, request: int, response: int, *, is_datagram: bool = False
) -> float:
    """How many transactions a second a wire carries, one at a time: both messages one after the other.

    request, response: bytes of payload. is_datagram: by UDP, in place of TCP with time stamps.
    """
    fits, beside = (
        ((mtu - 20) // 8 * 8, _OF_A_FRAGMENT) if is_datagram else (mtu - _IP_AND_TCP, _OF_A_SEGMENT)
    )
    payload = [size + (_UDP_HEADER if is_datagram else 0) for size in (request, response)]
    frames = sum(max(1, math.ceil(size / fits)) for size in payload)
    return rate_mbit_s * 1e6 / 8 / max(sum(payload) + beside * frames, frames * _SHORTEST_FRAME)


def description(settings: LinkSettings) -> Note | None:
    """Describe a shaped link that is no wire; none for a wire and for one that is not shaped."""
    if settings.rate_mbit_s is None or has_netem():
        return None
    burst = burst_bytes(settings.rate_mbit_s, settings.mtu)
    frames = burst / (settings.mtu + _FRAME)
    return Note(
        "token-bucket",
        rate=settings.rate_mbit_s,
        count=1 if frames == 1 else round(frames),
        module=MODULE,
    )
