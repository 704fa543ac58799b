"""Hostile frames, both ways: what a guest sends to the controller, and what a line garbles on its way to an agent."""

from __future__ import annotations

import os
import socket
import threading
import time
from binascii import crc32
from contextlib import suppress
from importlib.resources import files
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from attack import MOST_GROWTH, peak, reset_peak

from vtax.errors import GuestError
from vtax.guest import bootstrap
from vtax.guest.channel import Channel
from vtax.guest.guest import Guest
from vtax.guest.protocol import MAGIC, MAX_HEADER, MAX_PAYLOAD, encode

CALLS = (
    lambda guest: guest.hello(1),
    lambda guest: guest.run(["x"], timeout_s=1),
    lambda guest: guest.start(["x"]),
    lambda guest: guest.running(1),
    lambda guest: guest.stop(1),
    lambda guest: guest.finish(1, timeout_s=0.01),
    lambda guest: guest.wait_port(1),
    lambda guest: guest.put("/x", b"y"),
    lambda guest: guest.get("/x"),
    lambda guest: guest.sample(["/a", "/b"]),
    lambda guest: guest.counted(guest.sample()),
    lambda guest: guest.clock(),
    lambda guest: guest.facts(),
    lambda guest: guest.talk(b"x", wait_s=0.01),
)
TRUTH = {
    "id": "1",
    "ok": "true",
    "running": "false",
    "truncated": "false",
    "timed_out": "false",
    "stdout_size": "0",
    "status": "0",
    "inside_s": "0.1",
    "usage": "[" + ",".join(["0.0"] * 16) + "]",
    "handle": "1",
    "sizes": "[0,null]",
    "listening": "true",
    "facts": '{"kernel":"6.1"}',
    "wall_s": "1e9",
    "monotonic_s": "5.0",
    "began_s": "4.9",
    "error": '"none"',
}
FIELDS = tuple(TRUTH)
SCALARS = (
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2",
    "16",
    "0.5",
    "1e308",
    "1e400",
    "-0.0",
    "9" * 30,
    "9" * 5000,
    '""',
    '"x"',
    r'"\ud800"',
    r'"\u0000\u001b[2J"',
    '"\u202e"',
    '"\u00b2"',
    '"' + "y" * 5000 + '"',
    "[]",
    "{}",
    "NaN",
    "[0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0]",
    '["a","b","c","d","e"]',
    "[1,2]",
    "[null,3]",
)


def hostile_value(random: Random) -> str:
    """A value as JSON: plausible, of a wrong type, huge, or deep."""
    if random.random() < 0.05:
        depth = random.choice((5, 20, random.randrange(850, 1000), 100_000))
        opening, closing = random.choice((("[", "]"), ('{"a":', "}")))
        return opening * depth + "1" + closing * depth
    if random.random() < 0.2:
        names = random.sample(
            (*FIELDS, r"\ud800", "memory_visible_bytes", "\u202ex", ""), random.randrange(5)
        )
        return "{" + ",".join(f'"{name}":{random.choice(SCALARS)}' for name in names) + "}"
    return random.choice(SCALARS)


def hostile_header(random: Random, number: int) -> bytes:
    """The header of an answer to request `number`."""
    message = {**TRUTH, "id": str(number)}
    for _ in range(random.randrange(3)):
        message[random.choice(FIELDS)] = hostile_value(random)
    return ("{" + ",".join(f'"{name}":{value}' for name, value in message.items()) + "}").encode(
        "utf-8", "replace"
    )


def frame(text: bytes, payload: bytes = b"") -> bytearray:
    """A right frame around any text."""
    lengths = len(text).to_bytes(4, "little") + len(payload).to_bytes(4, "little")
    check = crc32(payload, crc32(text, crc32(lengths)))
    return bytearray(MAGIC + lengths + check.to_bytes(4, "little") + text + payload)


def garbled(random: Random, data: bytearray) -> bytes:
    """What a broken or hostile line makes of bytes."""
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(data) + 1)
        match random.randrange(6):
            case 0 if data:
                data[at % len(data)] ^= 1 << random.randrange(8)
            case 1:
                del data[at:]
            case 2:
                data[at:at] = random.randbytes(random.randrange(20))
            case 3:
                del data[at : at + random.randrange(8)]
            case 4:
                sizes = random.choice(
                    (0, 1, 2**31, 2**32 - 1, MAX_HEADER, MAX_HEADER + 1, MAX_PAYLOAD, 5)
                )
                data[4:8] = sizes.to_bytes(4, "little")
            case _:
                data += data[:at]
    return bytes(data)


def answers(random: Random) -> bytes:
    """What a hostile guest answers to a call: several frames, most of them right in form."""
    message = bytearray()
    for number in range(1, random.randrange(2, 5)):
        payload = random.randbytes(random.choice((0, 1, 2, 20, 3000)))
        made = frame(hostile_header(random, number), payload)
        message += garbled(random, made) if random.random() < 0.3 else made
    return bytes(message)


@pytest.mark.whole(500_000)
def test_whatever_a_guest_sends_is_an_answer_or_a_guest_error(campaign):
    def attack(random: Random) -> None:
        ours, stranger = socket.socketpair()
        with stranger:
            call = random.choice(CALLS)
            message = (bootstrap.GREETING if call is CALLS[0] else b"") + answers(random)
            feeder = (
                threading.Thread(target=feed, args=(stranger, message))
                if len(message) > 100_000
                else None
            )
            if feeder:
                feeder.start()
            else:
                feed(stranger, message)
            fd = ours.detach()
            guest = Guest(Channel(fd, fd))
            try:
                call(guest)
            finally:
                guest.close()
                if feeder:
                    feeder.join()

    made = campaign(2000, attack)
    assert set(made.outcomes) <= {"survived", "GuestError"}
    assert made.outcomes["GuestError"] > made.count / 10


def feed(connection: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)


def test_the_largest_answer_there_can_be_costs_little_memory_and_is_cut(monkeypatch):
    header = {
        "id": 1,
        "ok": True,
        "running": False,
        "truncated": False,
        "timed_out": False,
        "status": 0,
    }
    message = encode(
        {**header, "stdout_size": MAX_PAYLOAD // 2, "inside_s": 1.0, "usage": [0.0] * 16},
        bytes(MAX_PAYLOAD),
    )
    ours, stranger = socket.socketpair()
    with stranger:
        feeder = threading.Thread(target=feed, args=(stranger, message))
        feeder.start()
        fd = ours.detach()
        before = reset_peak()
        monkeypatch.setattr("vtax.guest.guest.OUTPUT_LIMIT", 1 << 20)
        result = Guest(Channel(fd, fd)).run(["x"])
        assert peak() - before < MOST_GROWTH
        feeder.join()
        os.close(fd)
    assert (len(result.stdout), len(result.stderr), result.truncated) == (1 << 20, 1 << 20, True)


class Agent:
    """The agent's reader of requests in this process, its life and its programs left out."""

    def __init__(self) -> None:
        source = files("vtax.guest").joinpath("agent.py").read_text().partition("\nwhile (\n")[0]
        self.names: dict[str, Any] = {"__name__": "agent_under_attack", "READ": -1, "WRITE": -1}
        exec(compile(source, "agent.py", "exec"), self.names)

    def receive(self, data: bytes) -> SimpleNamespace | None:
        """A request, or None where the agent ends."""
        read_fd, write_fd = os.pipe()
        try:
            os.write(write_fd, data[:60_000])
            os.close(write_fd)
            self.names["READ"] = read_fd
            header, payload = self.names["receive_request"]()
            return SimpleNamespace(header=header, payload=payload)
        except self.names["Disconnected"]:
            return None
        finally:
            os.close(read_fd)


@pytest.mark.whole(500_000)
def test_a_request_that_a_line_garbled_never_reaches_the_agent_changed(campaign):
    agent = Agent()
    reached = 0

    def attack(random: Random) -> None:
        nonlocal reached
        header = {
            "id": random.randrange(100),
            "op": "run",
            "argv": ["x"] * random.randrange(5),
            "timeout_s": 1.5,
        }
        payload = random.randbytes(random.choice((0, 1, 300)))
        sent = encode(header, payload)
        arrived = garbled(random, bytearray(sent))
        if (request := agent.receive(arrived)) is not None:
            assert arrived.startswith(sent)
            assert (request.header, request.payload) == (header, payload)
            reached += 1

    made = campaign(2000, attack)
    assert reached < made.count / 2


@pytest.mark.parametrize("call", range(len(CALLS)))
def test_a_silent_guest_ends_every_call_in_its_time(call, monkeypatch):
    monkeypatch.setattr("vtax.guest.guest._ANSWER_S", 0.05)
    monkeypatch.setattr("vtax.guest.guest._KILL_S", 0.05)
    ours, stranger = socket.socketpair()
    with stranger:
        fd = ours.detach()
        guest = Guest(Channel(fd, fd))
        started_at = time.monotonic()
        with pytest.raises(GuestError):
            CALLS[call](guest)
        assert time.monotonic() - started_at < 30
        guest.close()
