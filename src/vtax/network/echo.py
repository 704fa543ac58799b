"""Packets there and back: a full-size one proves that every hop carries the MTU, several that a link is a wire.

An ICMP echo (RFC 792) with the don't-fragment bit, sent from inside a namespace by vtax itself, so that nothing needs
to be installed in it. The kernel of the guest replies.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from functools import partial

from vtax.errors import NetworkError
from vtax.network.namespace import Namespace, inside

_IP_HEADER = 20
_ICMP_HEADER = 8
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_IP_MTU_DISCOVER, _IP_PMTUDISC_DONT, _IP_PMTUDISC_DO = 10, 0, 2  # linux/in.h


def echo(
    namespace: Namespace, destination: str, packet_bytes: int, *, timeout_s: float = 2.0
) -> float:
    """Return the seconds that an IPv4 packet takes there and back, never fragmented on the way there.

    namespace: where it is sent.
    destination: IPv4 address.
    packet_bytes: its size, headers included.
    timeout_s: until when a lost packet is sent again (the first one waits for address resolution).

    Raises NetworkError when nothing comes back, or when the first interface already refuses the size.
    """
    sender = inside(namespace.path, partial(_raw_socket, _IP_PMTUDISC_DO))
    deadline = time.monotonic() + timeout_s
    with sender:
        sequence = 0
        while time.monotonic() < deadline:
            sequence += 1
            request = _request(sequence, packet_bytes)
            sent_s = time.monotonic()
            try:
                sender.sendto(request, (destination, 0))
            except OSError as error:
                raise NetworkError(
                    f"a packet of {packet_bytes} bytes to {destination} cannot be sent: {error}"
                ) from error
            if _await_reply(sender, sequence, len(request), min(deadline, sent_s + 0.5)):
                return time.monotonic() - sent_s
    raise NetworkError(
        f"no reply from {destination} to a packet of {packet_bytes} bytes within {timeout_s:g} s",
        hint="a hop or the guest's interface does not carry this MTU, or the guest has ended",
    )


def ping_pong_s(
    namespace: Namespace, destination: str, payload_bytes: int, count: int, *, timeout_s: float
) -> float:
    """Return the mean seconds that an ICMP message takes there and back; each follows the reply to the one before.

    namespace: where they are sent.
    destination: IPv4 address.
    payload_bytes: size of a message, which is sent in fragments where the MTU needs them.
    count: of messages.
    timeout_s: of each.

    Raises NetworkError when a message has no reply in time.
    """
    sender = inside(namespace.path, partial(_raw_socket, _IP_PMTUDISC_DONT))
    with sender:
        start_s = time.monotonic()
        for sequence in range(1, count + 1):
            request = _request(sequence, payload_bytes + _IP_HEADER + _ICMP_HEADER)
            try:
                sender.sendto(request, (destination, 0))
            except OSError as error:
                raise NetworkError(f"a message to {destination} cannot be sent: {error}") from error
            if not _await_reply(sender, sequence, len(request), time.monotonic() + timeout_s):
                raise NetworkError(
                    f"no reply from {destination} to {payload_bytes} bytes within {timeout_s:g} s"
                )
        return (time.monotonic() - start_s) / count


def _raw_socket(discovery: int) -> socket.socket:
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    raw.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, discovery)
    return raw


def _request(sequence: int, packet_bytes: int) -> bytes:
    identity = os.getpid() & 0xFFFF
    payload = bytes(max(packet_bytes - _IP_HEADER - _ICMP_HEADER, 0))
    unsigned = struct.pack("!BBHHH", _ECHO_REQUEST, 0, 0, identity, sequence)
    sum_ = checksum(unsigned + payload)
    return struct.pack("!BBHHH", _ECHO_REQUEST, 0, sum_, identity, sequence) + payload


def _await_reply(sender: socket.socket, sequence: int, size: int, deadline: float) -> bool:
    while (remaining_s := deadline - time.monotonic()) > 0:
        sender.settimeout(remaining_s)
        try:
            packet = sender.recv(1 << 17)
        except TimeoutError:
            return False
        kind, _, _, identity, number = struct.unpack_from("!BBHHH", packet, (packet[0] & 0xF) * 4)
        if kind == _ECHO_REPLY and identity == os.getpid() & 0xFFFF and number == sequence:
            return len(packet) - (packet[0] & 0xF) * 4 == size
    return False


def checksum(data: bytes) -> int:
    """Return the internet checksum (RFC 1071): the complement of the one's complement sum of 16-bit words."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
