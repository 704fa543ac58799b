"""A guest that lies: every wrong answer to every call is one GuestError."""

import math
import socket

import pytest

from vtax.errors import GuestError
from vtax.guest.audit import checked, text_of
from vtax.guest.channel import Channel
from vtax.guest.guest import Guest
from vtax.guest.protocol import encode
from vtax.guest.results import CommandResult, skew_warning

RUN = {
    "id": 1,
    "ok": True,
    "running": False,
    "truncated": False,
    "timed_out": False,
    "stdout_size": 2,
    "status": 0,
    "inside_s": 0.1,
    "usage": [0.0] * 16,
}


def answering(*frames):
    """A guest that gives these answers whatever it is asked."""
    ours, stranger = socket.socketpair()
    stranger.sendall(b"".join(frames))
    stranger.shutdown(socket.SHUT_WR)
    fd = ours.detach()
    guest = Guest(Channel(fd, fd))
    guest.test_peer = stranger  # kept open
    return guest


def test_the_true_answer_passes():
    result = answering(encode(RUN, b"abc")).run(["x"])
    assert (result.stdout, result.stderr, result.status) == ("ab", "c", 0)


@pytest.mark.parametrize(
    "lie",
    [
        {"id": 2},
        {"id": "1"},
        {"ok": 1},
        {"ok": None},
        {"stdout_size": 4},
        {"stdout_size": -1},
        {"status": 0.5},
        {"status": 1000},
        {"inside_s": -1},
        {"inside_s": 10**400},
        {"stdout_size": 10**400},
        {"inside_s": "0"},
        {"inside_s": True},
        {"usage": [0.0] * 15},
        {"delay_s": "1"},
        {"delay_s": -1.0},
        {"usage": [0.0] * 15 + ["x"]},
        {"usage": {}},
        {"timed_out": "no"},
        {"truncated": None},
        {"ok": False},
        {"ok": False, "error": 3},
    ],
)
def test_a_lie_is_one_guest_error(lie):
    with pytest.raises(GuestError):
        answering(encode({**RUN, **lie}, b"abc")).run(["x"])


def test_an_error_of_the_guest_cannot_send_control_characters():
    guest = answering(encode({"id": 1, "ok": False, "error": "\x1b[2Jgone\r\x00"}))
    with pytest.raises(GuestError) as caught:
        guest.run(["x"])
    assert "\x1b" not in str(caught.value)
    assert "\x00" not in str(caught.value)


def test_a_bootstrap_that_never_greets_fails_in_the_given_time():
    ours, stranger = socket.socketpair()
    fd = ours.detach()
    with pytest.raises(GuestError, match="fell silent"):
        Guest(Channel(fd, fd)).hello(0.05)
    stranger.close()


def test_an_interrupted_call_breaks_the_guest_instead_of_mixing_answers(golden):
    guest = answering()
    guest._channel.read = raise_interrupt
    with pytest.raises(KeyboardInterrupt):
        guest.clock()
    with pytest.raises(GuestError) as caught:
        guest.clock()
    golden(str(caught.value))


def raise_interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "facts",
    [
        None,
        [],
        {"a": {}},
        {"a": [[1]]},
        {"a": 2**70},
        {"a": 10**400},
        {"a": math.nan},
        {f"f{n}": 1 for n in range(501)},
        {"a": ["x" * 400] * 1000},
    ],
)
def test_audits_that_are_not_flat_and_bounded_are_refused(facts):
    with pytest.raises(GuestError):
        checked(facts)


def test_audits_are_cleaned_and_cut():
    assert checked({"a\x1b": "x" * 1000, "b": ["\x07", 1, True]}) == {
        "a\N{REPLACEMENT CHARACTER}": "x" * 499 + "…",
        "b": ["\N{REPLACEMENT CHARACTER}", 1, True],
    }


@pytest.mark.parametrize(
    "size", ["²", "٣", "9" * 400, "9" * 5000, "-1", "1e9", "", True, 1e300, ["²"]]
)
def test_a_size_that_is_none_is_shown_as_it_is(size):
    assert isinstance(text_of(size, "memory_visible_bytes"), str)


def test_no_more_is_kept_of_an_output_than_was_requested_for(monkeypatch):
    monkeypatch.setattr("vtax.guest.guest.OUTPUT_LIMIT", 10)
    answer = encode({**RUN, "stdout_size": 100}, b"a" * 100 + b"b" * 50)
    result = answering(answer).run(["x"])
    assert (result.stdout, result.stderr, result.truncated) == ("a" * 10, "b" * 10, True)


@pytest.mark.parametrize(
    ("inside_s", "outside_s", "believed"),
    [
        (1.0, 1.05, True),
        (10.0, 10.19, True),
        (10.0, 10.3, False),
        (3.0, 2.0, False),
        (0.0, 0.05, True),
        (0.5, 5, False),
    ],
)
def test_a_clock_that_disagrees_is_flagged(inside_s, outside_s, believed):
    warning = skew_warning(CommandResult(("x",), 0, "", "", outside_s, inside_s))
    assert (warning is None) == believed
