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
_IP, _UDP_HEADER = 20, 8
_ETHERNET = 14  # bytes of its header, which a queueing discipline counts
_OF_A_FRAGMENT, _OF_A_SEGMENT = 58, 90
"""Bytes beside payload: headers of IP (and TCP) and Ethernet, preamble, gap."""
_SHORTEST_FRAME = 84  # bytes on the wire, with preamble and gap


@cache
def has_netem() -> bool:
    """Return whether this host's kernel has netem, built in or as a module that modprobe(8) finds. Loads nothing."""
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
    netem_settings = [name for name in _SHAPED[1:] if getattr(settings, name)]
    if netem_settings and not has_netem():
        raise BadInput(
            f"link setting {netem_settings[0]}: this host's kernel has no module {MODULE} (netem)",
            hint=f"take {' and '.join(netem_settings)} out, or boot a kernel with {MODULE}; those of Debian have it",
        )


def is_shaped(settings: LinkSettings) -> bool:
    """Return whether a link has a rate, delay or loss of its own, rather than being as fast as the kernel."""
    return any(getattr(settings, name) for name in _SHAPED)


def queueing(settings: LinkSettings) -> list[str]:
    """Return the queueing discipline of one direction of a shaped link, as words of tc(8)."""
    rate_mbit_s = settings.rate_mbit_s
    rate = []
    if rate_mbit_s is not None:
        rate = ["rate", f"{round(rate_mbit_s * 1e6)}bit"]
    if has_netem():
        words = ["netem", "limit", str(_queue_packets(settings))]
        if settings.delay_us:
            words += ["delay", f"{settings.delay_us:g}us"]
            if settings.jitter_us:
                words.append(f"{settings.jitter_us:g}us")
        if settings.loss:
            words += ["loss", f"{settings.loss:g}%"]
        return words + rate
    assert rate_mbit_s is not None  # nothing else is granted without netem
    burst = burst_bytes(rate_mbit_s, settings.mtu)
    frames = _QUEUE_FRAMES * (settings.mtu + _FRAME)
    queue = max(round(rate_mbit_s * 1e6 / 8 * _QUEUE_S), 2 * burst, frames)
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

    Of other disciplines than netem and tbf it returns `kind` alone. Raises NetworkError for an output of another form.
    """
    try:
        (discipline,) = parse_json(tc_json)
        kind, options = str(discipline["kind"]), discipline.get("options", {})
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
    """Return how one direction of a shaped link differs from its settings, to one part in a hundred.

    shaped: its effective shaping, by `read_queueing`.
    """
    if not is_shaped(settings):
        return []
    texts = []
    for name in _SHAPED:
        requested = getattr(settings, name) or 0.0
        effective = shaped.get(name)
        if effective is None and requested:
            texts.append(f"{name}: requested {requested:g}, effective not set")
        elif effective is not None and not math.isclose(
            requested, float(effective), rel_tol=0.01, abs_tol=1e-6
        ):
            texts.append(f"{name}: requested {requested:g}, effective {effective}")
    return texts


def echo_s(settings: LinkSettings, payload_bytes: int) -> float:
    """Return the least seconds that an ICMP message needs there and back, on a wire with these settings.

    A fragment has 38 bytes beside its payload: IP, Ethernet's header and its checksum. Of a delay that varies the
    smallest counts.
    """
    fragments = math.ceil((payload_bytes + 8) / ((settings.mtu - 20) // 8 * 8))
    bits = (payload_bytes + 8 + 38 * fragments) * 8
    one_way_s = (settings.delay_us - settings.jitter_us) / 1e6
    if settings.rate_mbit_s:
        one_way_s += bits / (settings.rate_mbit_s * 1e6)
    return 2 * one_way_s


def transactions_per_s(
    rate_mbit_s: float, mtu: int, request: int, response: int, *, is_datagram: bool = False
) -> float:
    """Return how many transactions a second a wire carries, one at a time: both messages one after the other.

    rate_mbit_s: of the wire.
    mtu: of the link, bytes.
    request, response: bytes of payload.
    is_datagram: whether it is by UDP, rather than by TCP with time stamps.
    """
    sizes = (
        _bytes_on_wire(payload_bytes, mtu, is_datagram=is_datagram)
        for payload_bytes in (request, response)
    )
    return rate_mbit_s * 1e6 / 8 / sum(sizes)


def passes_undelayed(settings: LinkSettings, message: int, *, is_datagram: bool = False) -> bool:
    """Return whether a link that should be a wire lets a message through at once: a bucket of tokens holds all of it.

    message: bytes of payload, sent where nothing was sent just before.
    """
    if settings.rate_mbit_s is None or has_netem():
        return False
    bucket = burst_bytes(settings.rate_mbit_s, settings.mtu)
    frames = _frames(message, settings.mtu, is_datagram=is_datagram)
    headers = frames * (_ETHERNET + (_IP if is_datagram else _IP_AND_TCP))
    return message + headers + (_UDP_HEADER if is_datagram else 0) <= bucket


def _frames(message: int, mtu: int, *, is_datagram: bool) -> int:
    """Return how many frames a message is cut into."""
    fits = mtu - _IP_AND_TCP
    if is_datagram:
        fits = (mtu - _IP) // 8 * 8
        message += _UDP_HEADER
    return max(1, math.ceil(message / fits))


def _bytes_on_wire(message: int, mtu: int, *, is_datagram: bool) -> int:
    frames = _frames(message, mtu, is_datagram=is_datagram)
    size = message + frames * (_OF_A_FRAGMENT if is_datagram else _OF_A_SEGMENT)
    if is_datagram:
        size += _UDP_HEADER
    return max(size, frames * _SHORTEST_FRAME)


def description(settings: LinkSettings) -> Note | None:
    """Return a note on a shaped link that is no wire; None for a wire, and for a link that is not shaped."""
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
