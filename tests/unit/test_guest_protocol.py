"""Frames: what is encoded is received; whatever else comes is one GuestError, in bounded memory."""

import json
import os
import socket
import threading
import time
import tracemalloc
from binascii import crc32
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtax.errors import GuestError
from vtax.guest.channel import Channel
from vtax.guest.protocol import MAGIC, MAX_HEADER, MAX_PAYLOAD, Reply, encode, receive

FAR_S = 5.0
texts = st.binary(max_size=20).map(lambda data: data.decode("utf-8", "ignore"))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
headers = st.dictionaries(texts, scalars | st.lists(scalars, max_size=5), max_size=8)


@contextmanager
def stream(data):
    """A channel on which these bytes arrive, and then the end."""
    read_fd, write_fd = os.pipe()
    null = os.open("/dev/null", os.O_WRONLY)
    assert len(data) <= 65536
    os.write(write_fd, data)
    os.close(write_fd)
    channel = Channel(read_fd, null)
    try:
        yield channel
    finally:
        channel.close()


@contextmanager
def stream_of(data):
    """A channel on which these bytes arrive, however many, and no end."""
    ours, stranger = socket.socketpair()
    writer = threading.Thread(target=stranger.sendall, args=(data,))
    writer.start()
    fd = ours.detach()
    channel = Channel(fd, fd)
    try:
        yield channel
    finally:
        writer.join()
        channel.close()
        stranger.close()


def received(data, skip=0):
    with stream(data) as channel:
        return receive(channel, time.monotonic() + FAR_S, skip=skip)


def frame(text, payload=b"", check=None, sizes=None):
    lengths = b"".join(n.to_bytes(4, "little") for n in sizes or (len(text), len(payload)))
    check = crc32(payload, crc32(text, crc32(lengths))) if check is None else check
    return MAGIC + lengths + check.to_bytes(4, "little") + text + payload


@given(headers, st.binary(max_size=2000))
def test_what_is_encoded_is_received(header, payload):
    answer = received(encode(header, payload))
    assert answer == Reply(header, payload)


@given(headers, st.binary(max_size=50), st.data())
def test_one_changed_byte_never_passes(header, payload, data):
    whole = bytearray(encode(header, payload))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(GuestError):
        received(bytes(whole))


@given(headers, st.data())
def test_a_cut_frame_says_that_the_guest_is_gone(header, data):
    whole = encode(header, b"payload")
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(GuestError, match="closed its channel"):
        received(whole[:cut])


@given(st.binary(max_size=2000), headers)
def test_console_text_before_the_first_answer_is_skipped(chatter, header):
    if MAGIC not in chatter + MAGIC[:3]:
        assert received(chatter + encode(header), skip=4000).header == header


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("depth", [5, 100, 900, 972, 980, 100_000])
def test_an_answer_that_is_nested_deeper_than_any_is_needs_is_a_guest_error(
    opening, closing, depth
):
    text = f'{{"id": 1, "facts": {opening * depth}1{closing * depth}}}'
    with (
        pytest.raises(GuestError, match=r"nested more than|not JSON"),
        stream_of(frame(text.encode())) as channel,
    ):
        receive(channel, time.monotonic() + FAR_S)


def test_an_audit_of_lists_is_not_too_deep():
    header = {"facts": {"mounts": ["/", "/proc"]}}
    assert received(encode(header)).header == header


def test_endless_console_text_is_given_up(golden):
    with pytest.raises(GuestError) as caught:
        received(b"x" * 60000, skip=1000)
    golden(str(caught.value))


@pytest.mark.parametrize(
    "sizes", [(MAX_HEADER + 1, 0), (2, MAX_PAYLOAD + 1), (2**32 - 1, 2**32 - 1)]
)
def test_announced_sizes_beyond_the_bounds_are_refused_at_once(sizes):
    with pytest.raises(GuestError, match="more than allowed"):
        received(frame(b"{}", sizes=sizes))


def test_memory_is_spent_only_on_bytes_that_arrive():
    tracemalloc.start()
    with pytest.raises(GuestError, match="closed its channel"):
        received(frame(b"{}" + b"x" * 30000, sizes=(MAX_HEADER, MAX_PAYLOAD)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


@pytest.mark.parametrize(
    "text",
    [b"[]", b"1", b'{"a": NaN}', b'{"a": 1e999}', b"{", b"\xff{}", b'{"a":' + b"9" * 5000 + b"}"],
)
def test_headers_that_are_not_objects_of_finite_numbers_are_refused(text):
    with pytest.raises(GuestError):
        received(frame(text)).number("a")


def test_requests_too_large_or_not_unicode_are_refused_before_they_are_sent(golden):
    with pytest.raises(GuestError) as caught:
        encode({"a": "x" * MAX_HEADER})
    golden(str(caught.value))
    with pytest.raises(GuestError, match="cannot be sent"):
        encode({"a": "\ud800"})
    with pytest.raises(GuestError, match="cannot be sent"):
        encode({"a": float("nan")})


json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)


@given(st.dictionaries(st.just("x"), json_values, min_size=1))
def test_fields_are_what_they_must_be_or_a_guest_error(header):
    answer = Reply(json.loads(json.dumps(header)))
    for read, kind in (
        (lambda: answer.number("x", -10, 10), float),
        (lambda: answer.integer("x", 0, 10), int),
        (lambda: answer.flag("x"), bool),
        (lambda: answer.text("x", 10), str),
        (lambda: answer.items("x", 2), list),
    ):
        try:
            value = read()
        except GuestError:
            continue
        assert type(value) is kind
        assert kind not in (int, float) or -10 <= value <= 10
        assert kind not in (str, list) or len(value) <= 10
