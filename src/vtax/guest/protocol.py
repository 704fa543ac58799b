"""Frames of the stream between controller and agent, and the checks on everything a guest sends.

A frame is MAGIC (4 bytes), header size and payload size (unsigned 32-bit, little-endian), a CRC-32 of both sizes,
header and payload, then the header (a JSON object in UTF-8) and the payload (raw bytes). Sizes and depth are bounded,
and memory is spent only on bytes that have arrived. A guest is not trusted: whatever it sends, the only outcomes are
a frame that was checked or GuestError.
"""

from __future__ import annotations

import json
from binascii import crc32
from dataclasses import dataclass
from typing import Any

from vtax.errors import GuestError
from vtax.foreign_data import NestedTooDeep, parse_json
from vtax.foreign_text import clean
from vtax.guest.channel import Channel
from vtax.limits import HEADER, PAYLOAD

MAGIC = b"\xabvtx"
MAX_HEADER = HEADER.size_bytes
MAX_PAYLOAD = PAYLOAD.size_bytes


def encode(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """Return one frame. Raises GuestError when it is larger than a frame may be, or holds text that is not Unicode."""
    try:
        text = json.dumps(
            header, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()
    except ValueError as error:
        raise GuestError(f"this request cannot be sent to a guest: {error}") from error
    if len(text) > MAX_HEADER or len(payload) > MAX_PAYLOAD:
        raise GuestError(
            f"a request of {len(text)} + {len(payload)} bytes is larger than a frame may be",
            hint=f"stay below {MAX_HEADER} bytes of arguments and {MAX_PAYLOAD} bytes of data",
        )
    lengths = len(text).to_bytes(4, "little") + len(payload).to_bytes(4, "little")
    check = crc32(payload, crc32(text, crc32(lengths)))
    return MAGIC + lengths + check.to_bytes(4, "little") + text + payload


def receive(channel: Channel, deadline: float, *, skip: int = 0) -> Reply:
    """Return the next frame. deadline: on time.monotonic().

    skip: how many bytes of other text may come before it (a console's, at the start of the stream only).
    Raises GuestError when the guest is silent, gone, or sends anything else.
    """
    if skip:
        channel.skip_to(MAGIC, skip, deadline)
    elif (magic := channel.read(len(MAGIC), deadline)) != MAGIC:
        raise channel.broken(f"the guest sent {magic!r} where an answer must begin")
    lengths = channel.read(8, deadline)
    header_size = int.from_bytes(lengths[:4], "little")
    payload_size = int.from_bytes(lengths[4:], "little")
    if header_size > MAX_HEADER or payload_size > MAX_PAYLOAD:
        raise channel.broken(
            f"the guest announced an answer of {header_size} + {payload_size} bytes, more than allowed"
        )
    check = int.from_bytes(channel.read(4, deadline), "little")
    text = channel.read(header_size, deadline)
    payload = channel.read(payload_size, deadline)
    if crc32(payload, crc32(text, crc32(lengths))) != check:
        raise channel.broken("an answer of the guest arrived damaged")
    return Reply(_parse(text), payload)


def _parse(text: bytes) -> dict[str, Any]:
    try:
        header = parse_json(text.decode(), levels=HEADER.depth, parse_constant=_no_constant)
    except NestedTooDeep as error:
        raise GuestError(
            f"an answer of the guest is nested more than {HEADER.depth} deep"
        ) from error
    except ValueError as error:
        raise GuestError(f"an answer of the guest is not JSON: {str(error)[:100]}") from error
    if not isinstance(header, dict):
        raise GuestError("an answer of the guest is not a JSON object")
    return header


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


@dataclass(frozen=True)
class Reply:
    """An answer of a guest. The methods return fields only when they are what they must be; else GuestError."""

    header: dict[str, Any]
    payload: bytes = b""

    def number(self, name: str, low: float = 0.0, high: float = 1e15) -> float:
        """Return a finite number from low to high."""
        return checked_number(self.header.get(name), name, low, high)

    def integer(self, name: str, low: int = 0, high: int = 1 << 53) -> int:
        """Return a whole number from low to high."""
        value = self.header.get(name)
        if type(value) is not int or not low <= value <= high:
            raise _bad_answer(name, value, f"a whole number from {low} to {high}")
        return value

    def flag(self, name: str) -> bool:
        """Return true or false."""
        value = self.header.get(name)
        if type(value) is not bool:
            raise _bad_answer(name, value, "true or false")
        return value

    def text(self, name: str, longest: int = 4096) -> str:
        """Return cleaned text."""
        value = self.header.get(name)
        if type(value) is not str or len(value) > longest:
            raise _bad_answer(name, value, f"text of at most {longest} characters")
        return clean(value)

    def items(self, name: str, maximum: int) -> list[Any]:
        """Return a list, its items unchecked."""
        value = self.header.get(name)
        if type(value) is not list or len(value) > maximum:
            raise _bad_answer(name, value, f"a list of at most {maximum}")
        return value


def checked_number(value: Any, name: str, low: float, high: float) -> float:
    """Return a finite number from low to high, as float. Raises GuestError."""
    if type(value) not in (int, float) or not low <= value <= high:
        raise _bad_answer(name, value, f"a number from {low:g} to {high:g}")
    return float(value)


def _bad_answer(name: str, value: Any, expected: str) -> GuestError:
    return GuestError(
        f"the guest answered {name} = {clean(repr(value), 80)} where {expected} must be"
    )
